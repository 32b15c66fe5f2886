"""Reads what can be known of files of rows without MaxText: whether they exist, and the first megabyte of JSON lines.

datasets' patterns are fsspec's, which include glob's. MaxText's own pipeline judges the rows (`data.pipeline`).
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Sequence
from os.path import islink
from pathlib import PurePosixPath
from typing import Protocol

from msgspec.structs import replace

from xsft.base.errors import Unreachable
from xsft.base.problems import Problem, error, note
from xsft.catalog.data import located
from xsft.data.facts import DataFacts, SampledRow
from xsft.data.row_files import RowFile, bucket_files, content_of, files_content, local_file, matching_files
from xsft.machine.files import system_words
from xsft.machine.process import own_environment
from xsft.spec.paths import FILE_FORMATS

FIRST_BYTES = 2**20
"""Bytes read of all files together."""
PLAIN = (".json", ".jsonl", ".ndjson")
MAX_COUNTED = 256 * 2**20
"""Bytes of local files whose lines are counted: 0.1 s."""
UNKNOWN = "Unknown: whether there are files, their columns and types, the order of roles, and the number of rows."


class ReadRows(Protocol):
    """The type of `read_rows` and of its cached form."""

    def __call__(self, pattern: str | None, /, *, of: str, where: str) -> DataFacts | None: ...


def read_rows(pattern: str | None, *, of: str, where: str) -> DataFacts | None:
    """Return the facts; None if the files are neither on this machine nor in a bucket. `of`: data.hf_path. `where`: the
    field that names the files.
    """
    path = located(pattern or "")
    if of not in FILE_FORMATS or pattern is None or ("://" in path and not path.startswith("gs://")):
        return None
    if of == "arrayrecord" and ";" in path:
        message = "The rows were not checked: xsft does not read a weighted mixture of files."
        fix = "See the rows as MaxText formats them: `xsft data inspect FILE`."
        return DataFacts(problem=note("data-not-read", where, message, fix, kind="unread"))
    if path.startswith("gs://"):
        return _facts_of_bucket(pattern, of=of, where=where)
    files = [local_file(file) for file in matching_files(path)]
    facts = replace(_facts_of_files(files, pattern, of=of, where=where), content=files_content(pattern))
    if facts.rows and facts.counted is None and sum(file.size for file in files) <= MAX_COUNTED:
        return replace(facts, counted=sum(map(_count_lines, files)))
    return facts


def _facts_of_bucket(pattern: str, *, of: str, where: str) -> DataFacts:
    """Return the facts of files in a bucket; a note says why it could not be read, also if its name is a
    placeholder."""
    try:
        files = bucket_files(pattern, env=own_environment())
        return replace(_facts_of_files(files, pattern, of=of, where=where), content=content_of(files))
    except Unreachable as failed:
        return DataFacts(problem=rows_unread(failed.message, where=where, fix=failed.fix))


def _facts_of_files(files: Sequence[RowFile], pattern: str, *, of: str, where: str) -> DataFacts:
    if not files:
        link = ", a symbolic link that leads to no file" if islink(located(pattern)) else ""
        message = f"No file matches {pattern}{link}; MaxText would fail at its start."
        fix = "Correct the path; a relative one starts from the workload's folder."
        return DataFacts(problem=error("data-unreadable", where, message, fix))
    empty = tuple(file.path for file in files if file.size == 0)
    facts = DataFacts(files=len(files), empty=empty)
    if of != "json" or not all(PurePosixPath(file.path).suffix in PLAIN for file in files):
        return facts
    remaining = FIRST_BYTES
    is_whole = True
    rows: list[SampledRow] = []
    for file in files:
        try:
            first_rows = _first_rows(file, limit=remaining)
        except (OSError, ValueError) as failed:
            # datasets also reads some files that are not JSON lines, as objects over several lines
            why = system_words(failed) if isinstance(failed, OSError) else str(failed)
            message = f"The files cannot be read: {why}."
            fix = "Write it again: one JSON object per line."
            return replace(facts, problem=error("data-unreadable", where, message, fix, kind="disputable"))
        is_whole = is_whole and first_rows is not None and file.size <= remaining
        rows.extend(first_rows or ())
        remaining = max(0, remaining - file.size)
    return replace(facts, rows=tuple(rows), counted=len(rows) if is_whole else None)


def _first_rows(file: RowFile, *, limit: int) -> list[SampledRow] | None:
    """Return the rows; None if the file does not begin with an object on a line: datasets reads some other forms.

    Raises ValueError for a later line that is not JSON, OSError, Unreachable.
    """
    content = file.stored(0, limit).removeprefix(BOM_UTF8) if limit else b""
    lines = content.split(b"\n")
    if file.size > limit:
        lines.pop()
    rows: list[SampledRow] = []
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        try:
            rows.append(SampledRow(at=f"row {number} of {file.name}", row=json.loads(line)))
        except (ValueError, RecursionError):
            if not rows and line.lstrip().startswith((b"{", b"[")):
                return None
            raise ValueError(f"line {number + 1} of {file.path} is not JSON") from None
        if isinstance(rows[0].row, list):
            return None
    return rows


def _count_lines(file: RowFile) -> int:
    starts = range(0, file.size, FIRST_BYTES)
    ended = file.stored(file.size - 1, 1) == b"\n"
    return sum(file.stored(start, FIRST_BYTES).count(b"\n") for start in starts) + (not ended)


def rows_unread(why: str, *, where: str, fix: str = "") -> Problem:
    """Return the note on rows that were not read."""
    message = f"The rows were not checked: {why.rstrip('.')}. {UNKNOWN}"
    return note("data-not-read", where, message, fix, kind="unread")
