"""Looks at the packages of the interpreter's environment: `{"imports": [modules]}` becomes a line for each package that
lacks one of its files, or the error of a module that cannot be imported.
"""

from __future__ import annotations

import csv
import importlib
import importlib.metadata
import os
from collections.abc import Iterator
from typing import Any

from xsft.workers.answering import answer_question


def answer(question: dict[str, Any]) -> list[str]:
    for module in question["imports"]:
        importlib.import_module(module)
    return list(incomplete_packages())


def incomplete_packages() -> Iterator[str]:
    for package in importlib.metadata.distributions():
        # RECORD itself: from Python 3.12 on `Distribution.files` leaves out what is gone.
        record = package.read_text("RECORD") or ""
        for file, *_ in csv.reader(record.splitlines()):
            if not file.endswith(".pyc") and not os.path.exists(str(package.locate_file(file))):
                yield f"{package.metadata['Name']}: {file} is gone"
                break


if __name__ == "__main__":
    answer_question(answer)
