"""How a program answers one question: `entry.py PROGRAM QUESTION ANSWER`, two files of JSON.

Lines of its output are its progress; libraries print there, too. `configured` is for programs in MaxText's environment.
"""

from __future__ import annotations

import json
import sys
import traceback
import unittest  # noqa: F401 - MaxText exits the process on a configuration error unless it sees this module
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def answer_question(answer: Callable[[Any], Any]) -> None:
    """Write what `answer` returns, or `{"error": "Type: message"}` if it raises."""
    question, file = map(Path, sys.argv[1:])
    try:
        reply = answer(json.loads(question.read_text(encoding="utf-8")))
    except (Exception, SystemExit) as problem:  # any error of a library is the answer
        traceback.print_exc()
        reply = {"error": f"{type(problem).__name__}: {problem}"}
    file.write_text(json.dumps(reply), encoding="utf-8")


def configured(argv: Sequence[str]) -> Any:
    """`argv`: `python3 -m module key=value …`; options of an exporter (`--…`) are left out."""
    from maxtext.configs import pyconfig  # type: ignore[import-not-found]

    module, *arguments = argv[list(argv).index("-m") + 1 :]
    found = find_spec(module)
    keys = [one for one in arguments if not one.startswith("--")]
    return pyconfig.initialize_pydantic([found.origin if found else module, *keys])
