"""How a program answers one question: `entry.py PROGRAM QUESTION ANSWER`, two files of JSON.

Lines of its output are its progress; libraries print there, too.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
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
