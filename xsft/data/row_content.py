"""Computes the checksums that Cloud Storage gives its objects, of files on this machine."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable

import google_crc32c
from msgspec.structs import replace

from xsft.catalog.data import located
from xsft.data.read_rows import matching_files
from xsft.data.row_files import RowFile, content_of, local_file
from xsft.machine.byte_progress import ByteProgress, pieces_of


def local_content(pattern: str | None, *, say: Callable[[str], None]) -> str:
    """Return the digest of all files that the pattern matches, as `content_of` does; empty if one cannot be read."""
    if pattern is None or "://" in (path := located(pattern)):
        return ""
    try:
        files = [local_file(file) for file in matching_files(path)]
        progress = ByteProgress(say, total=sum(file.size for file in files))
        return content_of([_with_checksum(file, progress) for file in files])
    except OSError:
        return ""


def _with_checksum(file: RowFile, progress: ByteProgress) -> RowFile:
    checksum = 0
    for piece in pieces_of(file.path, progress):
        checksum = google_crc32c.extend(checksum, piece)
    return replace(file, crc32c=base64.b64encode(struct.pack(">I", checksum)).decode())
