"""Passes command lines to MaxText's own parser. Runs as a program in MaxText's environment.

usage: parser_worker.py. Reads `[{"argv": [...], "slices": {...}}, ...]` from stdin and prints
`[{"refused": text, "ignored": [text, ...]}, ...]` as its last line; MaxText prints above it.
"""

from __future__ import annotations

import json
import logging
import sys
import unittest  # noqa: F401 - MaxText ends the process on an error of the configuration unless it sees this module
from pathlib import Path
from typing import Any

from maxtext.configs import pyconfig  # type: ignore[import-not-found]
from maxtext.utils.globals import MAXTEXT_PKG_DIR  # type: ignore[import-not-found]

HERE = ("skip_jax_distributed_system=True", "log_config=False")
"""Added because no slice is here: no coordinator to wait for, no page of settings in the log."""


class Listener(logging.Handler):
    """Keeps MaxText's warnings about keys that it ignores."""

    def __init__(self) -> None:
        super().__init__()
        self.ignored: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "ignoring" in record.getMessage().lower():
            self.ignored.append(record.getMessage())


def main(asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [answer(one["argv"], one["slices"]) for one in asked]


def answer(argv: list[str], slices: dict[str, Any]) -> dict[str, Any]:
    heard, refused = Listener(), ""
    logging.getLogger().addHandler(heard)
    try:
        parse(argv, [f"{key}={value}" for key, value in slices.items()])
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - whatever MaxText says is the answer
        refused = f"{type(problem).__name__}: {problem}"[:2000]
    finally:
        logging.getLogger().removeHandler(heard)
    return {"refused": refused, "ignored": heard.ignored}


def parse(argv: list[str], slices: list[str]) -> None:
    """`argv`: `python3 -m module key=value …`."""
    module, *arguments = argv[argv.index("-m") + 1 :]
    pyconfig.initialize_pydantic([script_of(module), *arguments, *slices, *HERE])


def script_of(module: str) -> str:
    """Return what `python3 -m module` has as argv[0]; MaxText chooses the configuration file by it."""
    return str(Path(MAXTEXT_PKG_DIR, *module.split(".")[1:]).with_suffix(".py"))


if __name__ == "__main__":
    found = main(json.load(sys.stdin))
    sys.stdout.write(json.dumps(found) + "\n")
