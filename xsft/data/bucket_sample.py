"""Fetches a sample of the rows of files in a bucket, because MaxText's environment has no client of Cloud Storage."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from msgspec import Struct

from xsft.base.errors import SpecError
from xsft.base.problems import error
from xsft.catalog.data import located
from xsft.data.passes import Split
from xsft.data.row_files import RowFile, bucket_files
from xsft.machine.process import own_environment

SAMPLE_BYTES = 8 * 2**20
"""Bytes fetched of all files together, unless all rows are asked for."""
GROUP_BYTES = 32 * 2**20
"""Bytes fetched of the beginning of a larger parquet file, where its first row group is."""
FOOTER = 64 * 2**10
"""Bytes read from the end of a parquet file; a longer footer is read by a second request."""
LINES = (".json", ".jsonl", ".ndjson", ".csv", ".txt")
"""Formats of lines: a beginning that is read alone ends at a line."""


class FetchedRows(Struct, frozen=True, kw_only=True):
    """Files on this machine with the rows of a split, or the first ones of them."""

    split: Split
    pattern: str
    partial: bool = False
    footed: tuple[Path, ...] = ()
    """Parquet files of which only the first row group and the footer were fetched."""


def fetch_rows(pattern: str, folder: Path, *, split: Split, rows: int) -> FetchedRows:
    """Return the files, fetched into the new `folder` if they are in a bucket. `rows`: sys.maxsize fetches all.

    Raises Unreachable, SpecError if no file matches, or none can be read in part.
    """
    if not pattern.startswith("gs://"):
        return FetchedRows(split=split, pattern=located(pattern))
    files = bucket_files(pattern, env=own_environment())
    if not files:
        raise SpecError((error("data-unreadable", "data", f"No file matches {pattern}.", "Correct the path."),))
    folder.mkdir()
    left = sys.maxsize if rows == sys.maxsize else SAMPLE_BYTES
    fetched: list[Path] = []
    footed: list[Path] = []
    for file in files:
        target = folder / f"{len(fetched):05d}-{PurePosixPath(file.path).name}"
        if file.size <= left:
            target.write_bytes(file.stored(0, file.size))
        elif fetched:
            break
        else:
            footed = [*footed, *_fetch_beginning(file, target)]
        fetched.append(target)
        left -= file.size
    partial = len(fetched) < len(files) or left < 0
    return FetchedRows(split=split, pattern=f"{folder}/*", partial=partial, footed=tuple(footed))


def _fetch_beginning(file: RowFile, target: Path) -> Sequence[Path]:
    """Write the first rows of a file; return it if it is parquet, of which the footer follows after a hole."""
    if target.suffix in LINES:
        start = file.stored(0, SAMPLE_BYTES)
        target.write_bytes(start[: start.rfind(b"\n") + 1])
        return ()
    if target.suffix != ".parquet":
        message = f"{file.path} is larger than {SAMPLE_BYTES // 2**20} MB, and its beginning cannot be read alone."
        fix = "Read all rows (`xsft data inspect FILE --all`), or write JSON lines or parquet."
        raise SpecError((error("data-unreadable", "data", message, fix),))
    footer = _footer(file)
    with target.open("xb") as written:
        written.write(file.stored(0, min(GROUP_BYTES, file.size - len(footer))))
        written.seek(file.size - len(footer))
        written.write(footer)
    return (target,)


def _footer(file: RowFile) -> bytes:
    """Return the end of a parquet file: metadata, its length in 4 bytes, and `PAR1`. source: parquet-format, File
    format.
    """
    tail = file.stored(file.size - FOOTER, FOOTER)
    needed = int.from_bytes(tail[-8:-4], "little") + 8
    if needed <= FOOTER:
        return tail
    return file.stored(file.size - needed, needed)
