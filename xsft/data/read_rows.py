"""Reads a bounded sample of the rows in files: the first of each file, and some of the rest.

datasets reads JSON lines, and a JSON array only after other files. Its patterns are fsspec's, which include glob's.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import random  # noqa: TID251 - with a seed: the same rows each time
import re
from collections.abc import Iterator, Sequence
from glob import glob, has_magic
from os.path import isfile, islink
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.errors import Unreachable
from xsft.base.problems import Problem, error, note
from xsft.catalog.data import located
from xsft.data.facts import DataFacts, KeyRule, SampledRow
from xsft.data.json_rows import BROKEN, UnfitRow, parse_array, parse_row
from xsft.data.kinds import clash_in
from xsft.data.library_rows import read_bucket_files, read_files
from xsft.data.row_files import COMPRESSED, RowFile, bucket_files, content_of, local_file
from xsft.machine.clock import monotonic
from xsft.machine.files import system_words
from xsft.machine.process import own_environment
from xsft.trainer.local import FILE_FORMATS

MAX_BYTES = 8 * 2**20
"""Maximum bytes of all files together."""
MAX_S = 2.0
PIECE = 64 * 2**10
"""Bytes read from each place of a file that is not read whole."""
BOM = codecs.BOM_UTF8
TOLD = 10 * 2**20
"""Bytes of the first file that decide columns and types. source: datasets@5.2.0 packaged_modules/json/json.py"""
FILES = 8
"""Maximum number of files of a bucket that are read."""
PLAIN = (".json", ".jsonl", ".ndjson")


class ReadRows(Protocol):
    """The type of `read_rows` and of its cached form."""

    def __call__(self, pattern: str | None, /, *, of: str, where: str) -> DataFacts | None: ...


class _FileRows(Struct, frozen=True):
    """The rows read of a file, as if it were the first of the data."""

    rows: tuple[SampledRow, ...]
    whole: bool
    problem: Problem | None = None
    array: RowFile | None = None
    """The file if it is one JSON array: datasets reads it only after other files, and infers no columns from it."""
    blank: bool = False


def read_rows(pattern: str | None, *, of: str, where: str, max_bytes: int = MAX_BYTES) -> DataFacts | None:
    """Return the facts; None if the files are neither on this machine nor in a bucket. `of`: data.hf_path. `where`: the
    field that names the files. `max_bytes`: of all files together.
    """
    if of not in FILE_FORMATS or pattern is None:
        return None
    path = located(pattern)
    if of == "arrayrecord" and ";" in path:
        return DataFacts(problem=_mixture(where))
    if any("**" in part and part != "**" for part in PurePosixPath(path).parts):
        return DataFacts(problem=_bad_glob(pattern, where))
    if path.startswith("gs://"):
        return _of_bucket(pattern, of=of, where=where, max_bytes=max_bytes)
    return None if "://" in path else _of_machine(path, pattern, of=of, where=where, max_bytes=max_bytes)


def _of_bucket(pattern: str, *, of: str, where: str, max_bytes: int) -> DataFacts:
    """Return the facts of files in a bucket; a note says why it could not be read, also if its name is a
    placeholder."""
    try:
        files = bucket_files(pattern, env=own_environment())
        if not files:
            return DataFacts(problem=_no_file_problem(pattern, where))
        if not _is_json(of, [file.path for file in files]):
            found = read_bucket_files(files, of=of, where=where)
            return replace(found, content=content_of(files), files=len(files))
        found = _sample(files[:FILES], where, max_bytes=max_bytes)
    except Unreachable as failed:
        return DataFacts(problem=rows_unread(failed.message, where=where, fix=failed.fix))
    whole = len(files) <= FILES
    return replace(found, content=content_of(files), files=len(files), counted=found.counted if whole else None)


def _of_machine(path: str, pattern: str, *, of: str, where: str, max_bytes: int) -> DataFacts:
    files = matching_files(path)
    if not files:
        return DataFacts(problem=_no_file_problem(pattern, where))
    if _is_json(of, list(map(str, files))):
        sample = _sample([local_file(file) for file in files], where, max_bytes=max_bytes)
        return replace(sample, files=len(files))
    return replace(read_files(files, of=of, where=where), files=len(files))


def _is_json(of: str, files: Sequence[str]) -> bool:
    return of == "json" and all(PurePosixPath(file).suffix in (*PLAIN, *COMPRESSED) for file in files)


def rows_unread(why: str, *, where: str, fix: str = "") -> Problem:
    """Return the note on rows that were not read."""
    message = f"The rows were not checked: {why.rstrip('.')}. {UNKNOWN}"
    return note("data-not-read", where, message, fix, kind="unread")


UNKNOWN = "Unknown: whether there are files, their columns and types, the order of roles, and the number of rows."


def matching_files(path: str) -> list[Path]:
    """Return the files on this machine, sorted."""
    found = glob(path, recursive=True) if has_magic(path) else [path]
    return sorted(Path(one) for one in found if isfile(one))  # False, too, for a name that is too long


def _no_file_problem(pattern: str, where: str) -> Problem:
    link = ", a symbolic link that leads to no file" if islink(located(pattern)) else ""
    message = f"No file matches {pattern}{link}; MaxText would fail at its start."
    return error(
        "data-unreadable", where, message, "Correct the path; a relative one starts from the folder of the command."
    )


def _bad_glob(pattern: str, where: str) -> Problem:
    """source: fsspec@2026.9.0 utils.py glob_translate."""
    message = f"In {pattern} ** is part of a name: MaxText stops with `'**' can only be an entire path component`."
    return error("data-unreadable", where, message, "Write dir/**/*.jsonl for all folders below dir.")


def _mixture(where: str) -> Problem:
    message = "The rows were not checked: xsft does not read a weighted mixture of files."
    return note(
        "data-not-read",
        where,
        message,
        "See the rows as MaxText formats them: `xsft data inspect FILE`.",
        kind="unread",
    )


def _sample(files: Sequence[RowFile], where: str, *, max_bytes: int) -> DataFacts:
    """Return the facts of a sample. Files share the bytes evenly; what the first ones leave is used by the next."""
    until, left = monotonic() + MAX_S, max_bytes
    read: list[_FileRows] = []
    for number, file in enumerate(files):
        if read and monotonic() > until:
            break
        one = _of_file(file, limit=left // (len(files) - number), where=where)
        read.append(one)
        left -= min(left, file.size) if one.whole else left // (len(files) - number)
    first, later = _first_and_later(read)
    rows = (*first.rows, *(replace(row, keys="cast") for one in later for row in one.rows))
    whole = len(read) == len(files) and all(one.whole for one in read)
    problem = next((one.problem for one in (first, *later) if one.problem), None)
    if problem is None and first.array:
        problem = _file_unread(first.array, where, "it is a JSON array, whose columns MaxText cannot read")
    empty = tuple(file.path for file in files if file.size == 0)
    return DataFacts(
        rows=rows,
        counted=len(rows) if whole and not problem else None,
        clash=clash_in(rows),
        digest=_rows_digest(files, rows),
        empty=empty,
        problem=problem,
    )


def _first_and_later(read: Sequence[_FileRows]) -> tuple[_FileRows, Sequence[_FileRows]]:
    """Return the first file that is not empty, from whose first rows datasets infers the columns, and the other
    files."""
    at = next((at for at, one in enumerate(read) if not one.blank), 0)
    return read[at], [one for number, one in enumerate(read) if number != at]


def _rows_digest(files: Sequence[RowFile], rows: Sequence[SampledRow]) -> str:
    """Return a digest of the rows as Python writes them, because half a surrogate, which Python's parser accepts,
    cannot be written as JSON."""
    sizes = [(file.path, file.size) for file in files]
    return hashlib.sha256(repr((sizes, [row.row for row in rows])).encode(errors="backslashreplace")).hexdigest()


def _of_file(file: RowFile, *, limit: int, where: str) -> _FileRows:
    if file.size == 0:
        return _FileRows((), whole=True, blank=True)
    try:
        if file.size > limit and not file.compressed:
            return _pieces(file, limit, where)
        content = file.read(0, limit + 1)
        return (
            _read_whole(file, content, where) if len(content) <= limit else _read_compressed_rows(file, content, where)
        )
    except (OSError, EOFError) as failed:  # EOFError: a compressed file that is cut
        return _FileRows((), whole=False, problem=_file_unread(file, where, system_words(failed)))
    except RecursionError:  # nested too deeply for this parser; MaxText may read it
        return _FileRows((), whole=False)


def _file_unread(file: RowFile, where: str, why: str) -> Problem:
    message = f"{file.path} cannot be read: {why}."
    return error("data-unreadable", where, message, "Write it again: one JSON object per line.")


def _read_whole(file: RowFile, content: bytes, where: str) -> _FileRows:
    content = content.removeprefix(BOM)
    if content.lstrip()[:1] == b"[":
        return _array(file, content, where)
    rows: list[SampledRow] = []
    lines = content.splitlines()
    keys: KeyRule = (
        "alike" if all(map(bytes.strip, lines)) else "told"
    )  # a blank line ends the search for rows with different keys
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        row = parse_row(line)
        if isinstance(row, UnfitRow):
            return _FileRows((), whole=True, problem=_file_unread(file, where, f"line {number + 1} {row.why}"))
        if row is BROKEN:
            return _judge_broken_line(file, content, number, where)
        rows.append(SampledRow(at=f"row {number} of {file.name}", row=row, keys=keys))
    return _FileRows(tuple(rows), whole=True, blank=not rows)


def _array(file: RowFile, content: bytes, where: str) -> _FileRows:
    found = parse_array(content)
    if found is None:
        return _FileRows(
            (), whole=True, problem=_file_unread(file, where, "it starts like a JSON array but is not one")
        )
    rows = tuple(SampledRow(at=f"row {n} of {file.name}", row=row) for n, row in enumerate(found))
    return _FileRows(rows, whole=True, array=file)


def _judge_broken_line(file: RowFile, content: bytes, number: int, where: str) -> _FileRows:
    """Return the finding for a file that is not JSON lines. datasets also reads objects over several lines."""
    if _is_stream(content):
        return _FileRows((), whole=False)
    return _FileRows((), whole=True, problem=_file_unread(file, where, f"line {number + 1} is not JSON"))


def _is_stream(content: bytes) -> bool:
    """Return whether it is one JSON value after another."""
    decoder, at = json.JSONDecoder(), 0
    try:
        text = content.decode()
        while found := _NOT_SPACE.search(text, at):
            _value, at = decoder.raw_decode(text, found.start())
    except ValueError:
        return False
    return True


_NOT_SPACE = re.compile(r"\S")


def _pieces(file: RowFile, limit: int, where: str) -> _FileRows:
    """Read the beginning, and places that are the same each time, so that a check's result does not change."""
    start = file.read(0, PIECE)
    if not _begins_with_row(start):
        return _no_rows(file, start)
    chance = random.Random(file.size)  # noqa: S311 - not for secrets
    count = min(file.places, max(0, limit // PIECE - 1))
    places = sorted({chance.randrange(file.size - PIECE) for _ in range(count) if file.size > PIECE} - {0})
    pieces = ((0, start), *((place, file.read(place, PIECE)) for place in places))
    return _read_parts(file, (row for place, piece in pieces for row in _of_piece(file, place, piece)), where)


def _read_compressed_rows(file: RowFile, content: bytes, where: str) -> _FileRows:
    """Return the rows of the first bytes of a compressed file."""
    if not _begins_with_row(content):
        return _no_rows(file, content)
    return _read_parts(file, _of_piece(file, 0, content), where)


def _no_rows(file: RowFile, start: bytes) -> _FileRows:
    """Return no rows of an array or of objects over many lines, whose lines may look like rows."""
    is_array = start.removeprefix(BOM).lstrip().startswith(b"[")
    return _FileRows((), whole=False, array=file if is_array else None)


def _begins_with_row(start: bytes) -> bool:
    """Return whether the first line is an object, or longer than a piece."""
    line = next((line for line in start.removeprefix(BOM).splitlines(keepends=True) if line.strip()), b"")
    return line.lstrip().startswith(b"{") and (not line.endswith((b"\n", b"\r")) or parse_row(line) is not BROKEN)


def _read_parts(file: RowFile, found: Iterator[SampledRow], where: str) -> _FileRows:
    rows = tuple(found)
    unfit = next((f"{row.at} {row.row.why}" for row in rows if isinstance(row.row, UnfitRow)), None)
    return _FileRows(() if unfit else rows, whole=False, problem=_file_unread(file, where, unfit) if unfit else None)


def _of_piece(file: RowFile, place: int, piece: bytes) -> Iterator[SampledRow]:
    """Yield the rows of the whole lines in the piece."""
    keys: KeyRule = "alike" if place + len(piece) < TOLD else "cast"
    lines = piece.removeprefix(b"" if place else BOM).split(b"\n")
    for line in lines[1:-1] if place else lines[:-1]:
        row: Any = parse_row(line) if line.strip() else BROKEN
        if row is not BROKEN:
            yield SampledRow(at=f"a row of {file.name} near byte {place:,}", row=row, keys=keys)
