"""Reads a bounded sample of the rows in files on this machine: the first of each file, and some of the rest.

datasets reads JSON lines, and a JSON array behind other files; its patterns are those of fsspec, which include glob's.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import random  # noqa: TID251 - with a seed: the same rows each time
import re
from collections.abc import Iterator, Sequence
from glob import glob, has_magic
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from xsft.data import located
from xsft.effects.facts.parquet import read_parquet
from xsft.effects.machine.clock import monotonic
from xsft.facts import DataFacts, Keys, SampledRow
from xsft.problems import Problem, error

MAX_BYTES = 8 * 2**20
"""Maximum bytes of all files together."""
MAX_S = 2.0
PIECE = 64 * 2**10
"""Bytes read from each place of a file that is not read whole."""
PLACES = 24
"""Places read in such a file, besides its beginning."""
BOM = codecs.BOM_UTF8
TOLD = 10 * 2**20
"""Bytes of the first file that columns and types are told from. source: datasets@5.2.0 packaged_modules/json/json.py"""
PLAIN = (".json", ".jsonl", ".ndjson")
"""Files with other suffixes may be archives, which datasets unpacks."""


class ReadRows(Protocol):
    """The type of `read_rows` and of its cached form."""

    def __call__(self, pattern: str | None, /, *, of: str, where: str) -> DataFacts | None: ...


class _Read(Struct, frozen=True):
    """What was read of a file, as if it were the first of the data."""

    rows: tuple[SampledRow, ...]
    whole: bool
    problem: Problem | None = None
    array: Path | None = None
    """The file if it is one JSON array: datasets reads it behind others, and tells no columns from it."""
    blank: bool = False


def read_rows(pattern: str | None, *, of: str, where: str) -> DataFacts | None:
    """Return the facts; None if the files are not on this machine, or are neither plain JSON nor parquet. `of`:
    data.hf_path. `where`: the field that names the files.
    """
    if of not in ("json", "parquet") or pattern is None or "://" in (path := located(pattern)):
        return None
    files = _files(path)
    if not files:
        return DataFacts(problem=_none(pattern, where))
    if of == "parquet":
        return read_parquet(files, where=where)
    return _sample(files, where) if all(file.suffix in PLAIN for file in files) else None


def _files(path: str) -> list[Path]:
    found = glob(path, recursive=True) if has_magic(path) else [path]
    return sorted(Path(one) for one in found if Path(one).is_file())


def _none(pattern: str, where: str) -> Problem:
    message = f"No file is at {pattern}: MaxText stops at its start."
    return error(
        "data-unreadable", where, message, "Correct the path; a relative one starts from the folder of the command."
    )


def _sample(files: Sequence[Path], where: str) -> DataFacts:
    """Return the facts of a sample. Files share the bytes evenly; what the first ones leave is used by the next."""
    until, left = monotonic() + MAX_S, MAX_BYTES
    read: list[_Read] = []
    for number, file in enumerate(files):
        if read and monotonic() > until:
            break
        one = _of_file(file, limit=left // (len(files) - number), where=where)
        read.append(one)
        left -= min(left, file.stat().st_size) if one.whole else left // (len(files) - number)
    first, later = _first_and_later(read)
    rows = (*first.rows, *(replace(row, keys="cast") for one in later for row in one.rows))
    whole = len(read) == len(files) and all(one.whole for one in read)
    problem = next((one.problem for one in (first, *later) if one.problem), None)
    if problem is None and first.array:
        problem = _unread(first.array, where, "it is a JSON array, of which MaxText tells no columns")
    empty = tuple(str(file) for file in files if file.stat().st_size == 0)
    counted = len(rows) if whole and not problem else None
    return DataFacts(rows=rows, counted=counted, digest=_digest(files, rows), empty=empty, problem=problem)


def _first_and_later(read: Sequence[_Read]) -> tuple[_Read, Sequence[_Read]]:
    """Return the first file that holds something, from whose first rows datasets tells the columns, and the others."""
    at = next((at for at, one in enumerate(read) if not one.blank), 0)
    return read[at], [one for number, one in enumerate(read) if number != at]


def _digest(files: Sequence[Path], rows: Sequence[SampledRow]) -> str:
    """Return a digest of the rows as Python writes them: half a surrogate, which its parser reads, cannot be JSON."""
    sizes = [(str(file), file.stat().st_size) for file in files]
    return hashlib.sha256(repr((sizes, [row.row for row in rows])).encode(errors="backslashreplace")).hexdigest()


def _of_file(file: Path, *, limit: int, where: str) -> _Read:
    try:
        with file.open("rb") as opened:
            size = file.stat().st_size
            if size == 0:
                return _Read((), whole=True, blank=True)
            return _whole(file, opened.read(), where) if size <= limit else _pieces(file, opened, size, limit)
    except OSError as failed:
        return _Read((), whole=False, problem=_unread(file, where, failed.strerror or str(failed)))
    except RecursionError:  # nested too deeply for here, which says nothing of MaxText
        return _Read((), whole=False)


def _unread(file: Path, where: str, why: str) -> Problem:
    message = f"{file} cannot be read: {why}."
    return error("data-unreadable", where, message, "Write it again: one JSON object a line.")


def _whole(file: Path, content: bytes, where: str) -> _Read:
    content = content.removeprefix(BOM)
    if content.lstrip()[:1] == b"[":
        return _array(file, content, where)
    rows: list[SampledRow] = []
    lines = content.splitlines()
    keys: Keys = "alike" if all(map(bytes.strip, lines)) else "told"  # a blank line stops the look for uneven keys
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        row = _parsed(line)
        if row is _BROKEN:
            return _broken(file, content, number, where)
        rows.append(SampledRow(at=f"row {number} of {file.name}", row=row, keys=keys))
    return _Read(tuple(rows), whole=True, blank=not rows)


def _array(file: Path, content: bytes, where: str) -> _Read:
    found = _parsed(content)
    if not isinstance(found, list):
        return _Read((), whole=True, problem=_unread(file, where, "it begins as a JSON array and is none"))
    rows = tuple(SampledRow(at=f"row {n} of {file.name}", row=row) for n, row in enumerate(found))
    return _Read(rows, whole=True, array=file)


def _broken(file: Path, content: bytes, number: int, where: str) -> _Read:
    """Return the finding for a file that is not JSON lines. datasets reads objects however they are put on lines."""
    if _is_stream(content):
        return _Read((), whole=False)
    return _Read((), whole=True, problem=_unread(file, where, f"line {number + 1} is not JSON"))


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


def _pieces(file: Path, opened: BinaryIO, size: int, limit: int) -> _Read:
    """Read the beginning, and places that are the same each time, so that a check's result does not change.

    Nothing is read of an array or of objects over many lines: their lines may be parts of rows that look like rows.
    """
    start = opened.read(PIECE).removeprefix(BOM)
    if not _begins_with_row(start):
        return _Read((), whole=False, array=file if start.lstrip().startswith(b"[") else None)
    chance = random.Random(size)  # noqa: S311 - not for secrets
    count = min(PLACES, max(0, limit // PIECE - 1))
    places = sorted({0, *(chance.randrange(size - PIECE) for _ in range(count) if size > PIECE)})
    return _Read(tuple(row for place in places for row in _of_piece(file, opened, place)), whole=False)


def _begins_with_row(start: bytes) -> bool:
    """Return whether the first line is an object, or longer than a piece."""
    line = next((line for line in start.splitlines(keepends=True) if line.strip()), b"")
    return line.lstrip().startswith(b"{") and (not line.endswith((b"\n", b"\r")) or _parsed(line) is not _BROKEN)


def _of_piece(file: Path, opened: BinaryIO, place: int) -> Iterator[SampledRow]:
    """Yield the rows of the whole lines in the piece."""
    opened.seek(place)
    lines = opened.read(PIECE).split(b"\n")
    keys: Keys = "alike" if place + PIECE < TOLD else "cast"
    for line in lines[bool(place) : -1]:
        row = _parsed(line) if line.strip() else _BROKEN
        if row is not _BROKEN:
            yield SampledRow(at=f"a row of {file.name} near byte {place:,}", row=row, keys=keys)


_BROKEN = object()


def _parsed(text: bytes) -> Any:
    """Return the parsed value. Python's own parser is tried second: it is slow, and accepts more than JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    try:
        return json.loads(text)
    except ValueError:
        return _BROKEN
