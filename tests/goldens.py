"""Golden texts: what a workload turns into, kept so that a person reads the consequences of a change in its diff."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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
