"""Reads the first rows of files with the libraries of MaxText's environment, if that is built: parquet, array records,
and every other format and compression that datasets reads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from xsft.base.errors import XsftError
from xsft.base.problems import Problem, error, note
from xsft.data.facts import DataFacts, KeyRule, SampledRow
from xsft.data.kinds import clash_in
from xsft.data.row_files import RowFile
from xsft.environments import environments
from xsft.environments.ask import PROGRAMS, Interpreter, ask
from xsft.machine.files import write_private
from xsft.machine.parallel import all_answers
from xsft.machine.paths import own_cache
from xsft.machine.process import own_environment
from xsft.machine.scratch import scratch_folder
from xsft.trainer.local import OFFLINE

READER = "xsft.workers.row_reader"
ROWS = 200
"""Rows read of each file."""
FILES = 8
"""Maximum number of files read; the others are not counted either."""
TIMEOUT_S = 30.0
BUCKET_FILES = 4
BUCKET_BYTES = 2 * 2**20
"""Maximum bytes read from the beginning of each object, where its first row group is."""
FOOTER = 64 * 2**10
"""Bytes read from the end of an object; a longer footer is read by a second request."""
FOOTED = ("parquet", "arrayrecord")
_ROWS = msgspec.json.Decoder(list[dict[str, Any]])
LINES = ("csv", "text")
"""Formats of lines: a beginning that is read alone ends at a line."""


class _FileCopy(Struct, frozen=True, kw_only=True):
    """A file that the worker reads."""

    name: str
    """Path in messages."""
    path: Path
    stamp: tuple[object, ...]
    """Changes when its content does."""
    whole: bool = True


def read_files(files: Sequence[Path], *, of: str, where: str, programs: Path = PROGRAMS) -> DataFacts:
    """Return the facts of the files. Files that have not changed are not read again. `programs`: the folder of
    the program that reads.
    """
    try:
        copies = tuple(_copy(file) for file in files[:FILES])
    except OSError as failed:
        return DataFacts(problem=_not_read(where, f"the rows could not be read: {failed}"))
    return _facts_of_copies(copies, of=of, where=where, beginning_bytes=0, whole=len(files) <= FILES, programs=programs)


def read_bucket_files(files: Sequence[RowFile], *, of: str, where: str) -> DataFacts:
    """Return the facts of objects: the beginning of some of them is read, and the footer. Raises Unreachable."""
    with scratch_folder("rows") as scratch:
        first = tuple((scratch / str(number), file) for number, file in enumerate(files[:BUCKET_FILES]))
        copies = all_answers([partial(_partial, file, folder, of=of) for folder, file in first], threads=BUCKET_FILES)
        whole = len(files) <= BUCKET_FILES
        return _facts_of_copies(copies, of=of, where=where, beginning_bytes=BUCKET_BYTES, whole=whole)


def _copy(file: Path) -> _FileCopy:
    found = file.stat()
    return _FileCopy(name=str(file), path=file, stamp=(str(file.absolute()), found.st_size, found.st_mtime_ns))


def _partial(file: RowFile, folder: Path, *, of: str) -> _FileCopy:
    """Write the parts of an object that were read: its beginning and, after a hole, the footer if its format has
    one."""
    folder.mkdir()
    path, stamp = folder / file.unpacked_name, (file.path, file.size, file.crc32c)
    start = file.read(0, BUCKET_BYTES)
    whole = len(start) < BUCKET_BYTES or file.size == len(start)
    with path.open("xb") as written:
        written.write(start if whole or of not in LINES else start[: start.rfind(b"\n") + 1])
        if not whole and of in FOOTED:
            footer = _footer(file) if of == "parquet" else file.read(file.size - BUCKET_BYTES, BUCKET_BYTES)
            written.seek(file.size - len(footer))
            written.write(footer)
    return _FileCopy(name=file.path, path=path, stamp=stamp, whole=whole)


def _footer(file: RowFile) -> bytes:
    """Return the end of a parquet file: metadata, its length in 4 bytes, and `PAR1`. source: parquet-format, File
    format.
    """
    tail = file.read(file.size - FOOTER, FOOTER)
    needed = int.from_bytes(tail[-8:-4], "little") + 8
    return tail if needed <= FOOTER else file.read(file.size - needed, min(needed, BUCKET_BYTES))


def _facts_of_copies(
    copies: Sequence[_FileCopy], *, of: str, where: str, beginning_bytes: int, whole: bool, programs: Path = PROGRAMS
) -> DataFacts:
    maxtext = environments.find_environment("maxtext")
    if maxtext is None:
        return DataFacts(problem=_not_read(where, f"MaxText's environment, which reads {of}, is not built."))
    try:
        found = _ask_for_rows(str(maxtext.python), copies, of=of, beginning_bytes=beginning_bytes, programs=programs)
    except (XsftError, OSError, ValueError) as failed:
        return DataFacts(problem=_not_read(where, f"the rows could not be read: {failed}"))
    pairs = tuple(zip(copies, found, strict=False))
    large = next((_group_too_large(copy.name, one, where) for copy, one in pairs if "group" in one), None)
    broken = next((_file_broken(copy, one, where) for copy, one in pairs if "error" in one), None)
    rows = tuple(row for copy, one in pairs for row in _sample_rows(copy.path, one, first=copy == copies[0]))
    return DataFacts(
        rows=rows,
        clash=clash_in(rows) if of == "json" else None,
        counted=_count_all_rows(pairs, of) if whole and broken is None else None,
        digest=_digest_of_copies(copies),
        large=tuple(found[0].get("large", ())) if found else (),
        problem=broken or large,
    )


def _count_all_rows(found: Sequence[tuple[_FileCopy, dict[str, Any]]], of: str) -> int | None:
    """Return the number of rows; None if not all of them are counted. A footer counts all."""
    known: list[int | None] = [one["counted"] if copy.whole or of in FOOTED else None for copy, one in found]
    return sum(count for count in known if count is not None) if None not in known else None


def _ask_for_rows(
    python: str, files: Sequence[_FileCopy], *, of: str, beginning_bytes: int, programs: Path
) -> list[dict[str, Any]]:
    kept = own_cache() / f"{of}-rows" / f"{_digest_of_copies(files)}.json"
    try:
        return _ROWS.decode(kept.read_bytes())
    except (OSError, msgspec.MsgspecError):
        pass
    env = own_environment(HF_HOME=str(own_cache() / "huggingface"), **OFFLINE)
    interpreter = Interpreter(python=Path(python), env=env, cwd=Path("/"), timeout_s=TIMEOUT_S)
    paths = [str(file.path.absolute()) for file in files]
    question = {"format": of, "rows": ROWS, "bytes": beginning_bytes, "files": paths}
    answers: list[dict[str, Any]] = ask(interpreter, READER, question, folder=programs)
    write_private(kept, msgspec.json.encode(answers))
    return answers


def _digest_of_copies(files: Sequence[_FileCopy]) -> str:
    return hashlib.sha256(repr((ROWS, [file.stamp for file in files])).encode()).hexdigest()


def _sample_rows(file: Path, found: dict[str, Any], *, first: bool) -> tuple[SampledRow, ...]:
    keys: KeyRule = "told" if first else "cast"
    rows = enumerate(found.get("rows", ()))
    return tuple(SampledRow(at=f"row {at} of {file.name}", row=row, keys=keys) for at, row in rows)


def _file_broken(file: _FileCopy, found: dict[str, Any], where: str) -> Problem:
    reported = found["error"][:300]
    if not file.whole:
        return _not_read(
            where, f"the first {BUCKET_BYTES / 1e6:.0f} MB of {file.name} cannot be read alone: {reported}"
        )
    if (
        "not supported" in reported and "Compression" in reported
    ):  # the library is missing; an image of the user's may have it
        message = f"{file.name} cannot be read: MaxText's environment has no library for its compression ({reported})."
        fix = "Decompress the file, or compress it with gzip."
        return error("data-unreadable", where, message, fix, kind="disputable")
    message = f"{file.name} cannot be read: {reported}"
    return error("data-unreadable", where, message, "Copy or write the file again.")


def _group_too_large(file: str, found: dict[str, Any], where: str) -> Problem:
    message = f"The rows were not checked: the first row group of {file} has {found['group'] / 1e6:,.0f} MB."
    fix = "`xsft data prepare FILE` writes smaller ones; `xsft data inspect FILE` reads any."
    return note("data-not-read", where, message, fix, kind="unread")


def _not_read(where: str, why: str) -> Problem:
    fix = "Build it: `xsft setup maxtext`; or run `xsft data inspect FILE`."
    return note("data-not-read", where, f"The rows of the files were not checked: {why}", fix, kind="unread")
