"""Passes command lines to MaxText's own parser. Runs as a program in MaxText's environment.

The question (`workers.answering`) is `[{"argv": [...], "slices": {...}, "file": path}, ...]`, the answer `[{"refused":
text, "ignored": [text, ...]}, ...]`. Each part of it is also written to its file: if a submission does not wait for the
answer, the next one reads it.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import unittest  # noqa: F401 - MaxText ends the process on an error of the configuration unless it sees this module
from pathlib import Path
from typing import Any

PARENT = os.getppid()

from maxtext.configs import pyconfig  # type: ignore[import-not-found]  # noqa: E402 - takes seconds
from maxtext.utils.globals import MAXTEXT_PKG_DIR  # type: ignore[import-not-found]  # noqa: E402

from xsft.workers.answering import answer_question  # noqa: E402

HERE = ("skip_jax_distributed_system=True", "log_config=False")
"""Keys for a machine without a slice: no wait for a coordinator, and no page of settings in the log."""


class Listener(logging.Handler):
    """Keeps MaxText's warnings about keys that it ignores."""

    def __init__(self) -> None:
        super().__init__()
        self.ignored: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "ignoring" in record.getMessage().lower():
            self.ignored.append(record.getMessage())


MAX_S = 180
"""Time after which it ends, even if a process waits for it."""


def answer(questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [write_answer(parser_answer(one["argv"], one["slices"]), one["file"], parent=PARENT) for one in questions]


def write_answer(found: dict[str, Any], file: str, *, parent: int) -> dict[str, Any]:
    """Write the answer, except a refusal after the parent ended: MaxText may have failed only to print."""
    if os.getppid() == parent or not found["refused"]:
        part = Path(f"{file}.{os.getpid()}")
        try:
            part.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            part.write_text(json.dumps(found), encoding="utf-8")
            part.replace(file)
        except OSError:
            return found  # the next check asks again
    return found


def parser_answer(argv: list[str], slices: dict[str, Any]) -> dict[str, Any]:
    heard, refused = Listener(), ""
    logging.getLogger().addHandler(heard)
    try:
        parse_argv(argv, [f"{key}={value}" for key, value in slices.items()])
    except (Exception, SystemExit) as problem:
        refused = f"{type(problem).__name__}: {problem}"[:2000]
    finally:
        logging.getLogger().removeHandler(heard)
    return {"refused": refused, "ignored": heard.ignored}


def parse_argv(argv: list[str], slices: list[str]) -> None:
    """`argv`: `python3 -m module key=value …`."""
    module, *arguments = argv[argv.index("-m") + 1 :]
    pyconfig.initialize_pydantic([script_of(module), *arguments, *slices, *HERE])


def script_of(module: str) -> str:
    """Return what `python3 -m module` has as argv[0]; MaxText chooses the configuration file by it."""
    return str(Path(MAXTEXT_PKG_DIR, *module.split(".")[1:]).with_suffix(".py"))


if __name__ == "__main__":
    signal.alarm(MAX_S)
    answer_question(answer)
