"""A program that answers one question: a JSON object becomes another. Runs in the Python of MaxText, an engine or an
image.

Arguments: the JSON document of `workers.sent`, whose `notes` are the question, and the file that gets the answer.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def answer_notes(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Write what `answer` returns, or `{"error": "..."}` if it raises."""
    try:
        found = answer(json.loads(sys.argv[1])["notes"])
    except (Exception, SystemExit) as problem:  # any error of a library is the answer
        found = {"error": f"{type(problem).__name__}: {problem}"}
    Path(sys.argv[2]).write_text(json.dumps(found), encoding="utf-8")
