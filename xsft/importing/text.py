"""Write a workload as YAML that xsft's strict parser accepts, with comments on what the import changed. Pure."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import Any

import yaml

from xsft.base.problems import Problem
from xsft.importing.notes import PasteDifference
from xsft.spec.yamltext import resolve_plain
from xsft.trainer.arguments import yaml_value

WIDTH = 118
ORDER = (
    *("name", "run_name_suffix", "mode", "trainer", "place", "tpu", "image", "model", "data", "train", "eval", "lora"),
    *("parallelism", "output", "secrets", "restarts", "pathways", "namespace", "priority", "pods"),
    *("ttl_seconds_after_finished", "env", "xla_flags", "overrides"),
)


class _CoreDumper(yaml.SafeDumper):
    """A YAML dumper that also quotes strings which YAML 1.2 reads as numbers (`1e5`)."""


def _represent_text(dumper: Any, text: str) -> Any:
    is_plain = text.isprintable() and resolve_plain(text) == text
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if is_plain else '"')


def _float(dumper: Any, number: float) -> Any:
    text = yaml_value(number)
    kind = "int" if text.lstrip("-").isdigit() else "float"  # write 32.0 as 32, which is read as the same number
    return dumper.represent_scalar(f"tag:yaml.org,2002:{kind}", text)


_CoreDumper.add_representer(str, _represent_text)
_CoreDumper.add_representer(float, _float)
_CoreDumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$"),
    list("-+.0123456789"),
)
_CoreDumper.ignore_aliases = lambda *_: True  # type: ignore[method-assign]


def workload_yaml(tree: dict[str, object]) -> str:
    """Return the YAML with sections in the order of the documentation; short sections take one line."""
    ordered = {key: tree[key] for key in ORDER if key in tree}
    return yaml.dump(
        ordered, Dumper=_CoreDumper, sort_keys=False, allow_unicode=True, width=WIDTH, default_flow_style=None
    )


def commented_workload(body: str, *, problems: Sequence[Problem], differences: Sequence[PasteDifference]) -> str:
    """Return the file: problems to fix, differences, the workload."""
    head = ["# Imported from a pasted line by `xsft import`."]
    head += _list("To do:", [f"{p.message} {p.fix}" for p in problems])
    changes = ((f"{d.what}:", d.given, d.now and f"-> {d.now}", f"({d.why})") for d in differences)
    head += _list("Differences from that line:", [" ".join(filter(None, words)) for words in changes])
    return "\n".join((*head, "", body))


def _list(title: str, sentences: Sequence[str]) -> list[str]:
    lines = ["#", f"# {title}"] if sentences else []
    for sentence in sentences:
        text = " ".join(sentence.split())
        lines += textwrap.wrap(text, WIDTH, initial_indent="# - ", subsequent_indent="#   ", break_on_hyphens=False)
    return lines
