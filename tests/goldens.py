"""Golden texts: what a workload turns into, kept so that a person reads the consequences of a change in its diff."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from xsft.spec.yamltext import load_yaml

FOLDER = Path(__file__).parent / "golden"


@dataclass(frozen=True, kw_only=True)
class Golden:
    """Compares with tests/golden/, or writes it under `--update-golden` (`make golden`)."""

    update: bool

    def check(self, name: str, text: str) -> None:
        path = FOLDER / name
        if self.update:
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path.name} is not there yet: run `make golden` and read it before you commit it"
        assert text == path.read_text(encoding="utf-8"), f"{path.name} differs: `make golden`, then read the diff"


class _Readable(yaml.SafeDumper):
    """Scripts as blocks, and the same list written out twice instead of by reference."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


def _list(dumper: yaml.SafeDumper, items: list[Any]) -> yaml.Node:
    """128 exit codes on one line."""
    numbers = bool(items) and all(isinstance(item, int) for item in items)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=numbers)


_Readable.add_representer(str, _text)
_Readable.add_representer(list, _list)


def readable(manifest: object) -> str:
    """The manifest as YAML for people."""
    text = yaml.dump(manifest, Dumper=_Readable, sort_keys=False, allow_unicode=True, width=10_000)
    assert load_yaml(text) == manifest
    return text
