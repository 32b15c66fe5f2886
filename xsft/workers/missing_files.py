"""Prints a line for each package of the interpreter's environment that lacks one of its files."""

from __future__ import annotations

import csv
import importlib.metadata
import os


def main() -> None:
    for package in importlib.metadata.distributions():
        # RECORD itself: from Python 3.12 on `Distribution.files` leaves out what is gone.
        record = package.read_text("RECORD") or ""
        for file, *_ in csv.reader(record.splitlines()):
            if not file.endswith(".pyc") and not os.path.exists(str(package.locate_file(file))):
                print(f"{package.metadata['Name']}: {file} is gone")
                break


if __name__ == "__main__":
    main()
