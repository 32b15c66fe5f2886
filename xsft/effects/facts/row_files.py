"""Files of rows, plain or compressed, of which parts are read."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Mapping
from io import FileIO
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import Struct

OPENERS: Mapping[str, Callable[[Path], Any]] = {".gz": gzip.GzipFile, ".bz2": bz2.BZ2File, ".xz": lzma.LZMAFile}
"""By suffix. source: datasets@5.2.0 utils/file_utils.py COMPRESSION_EXTENSION_TO_PROTOCOL."""
COMPRESSED = tuple(OPENERS)


class RowFile(Struct, frozen=True, kw_only=True):
    path: str
    size: int
    """Bytes, as the file is stored."""
    read: Callable[[int, int], bytes]
    """(first byte, maximum number of bytes) -> bytes, decompressed. Raises OSError, or EOFError if a compressed file is
    cut; of a compressed file it reads from its beginning.
    """
    compressed: bool = False

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name


def local_file(path: Path) -> RowFile:
    """Return the file. Raises OSError if it does not exist."""
    opener = OPENERS.get(path.suffix, FileIO)

    def read(start: int, limit: int) -> bytes:
        with opener(path) as opened:
            opened.seek(start)
            try:
                return bytes(opened.read(limit))
            except (lzma.LZMAError, zlib.error) as failed:  # neither is an OSError
                raise OSError(str(failed)) from None

    return RowFile(path=str(path), size=path.stat().st_size, read=read, compressed=path.suffix in COMPRESSED)
