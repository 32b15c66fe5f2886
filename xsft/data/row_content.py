"""Digests the content of files of rows: by the checksums that Cloud Storage gives its objects, also on this machine."""

from __future__ import annotations

import base64
import hashlib
import struct

import google_crc32c
from msgspec.structs import replace

from xsft.base.aliases import ShowLine
from xsft.base.errors import Unreachable
from xsft.catalog.data import located
from xsft.data.row_files import RowFile, bucket_files, content_of, local_file, matching_files
from xsft.machine.byte_progress import ByteProgress, pieces_of
from xsft.machine.process import own_environment

MAX_BYTES = 256 * 2**20
"""Bytes of local files that are read for a digest, in 0.2 s; larger ones are known by size and time."""


def files_content(pattern: str, *, say: ShowLine = lambda _line: None) -> str:
    """Return a digest of all files that the pattern matches, the same on this machine and in a bucket; empty if one
    cannot be read.
    """
    path = located(pattern)
    try:
        if path.startswith("gs://"):
            return content_of(bucket_files(pattern, env=own_environment()))
        if "://" in path:
            return ""
        paths = matching_files(path)
        files = [local_file(file) for file in paths]
        total = sum(file.size for file in files)
        if total > MAX_BYTES:
            stamps = [(str(file.absolute()), file.stat().st_size, file.stat().st_mtime_ns) for file in paths]
            return hashlib.sha256(repr(stamps).encode()).hexdigest()
        progress = ByteProgress(say, total=total)
        return content_of([_with_checksum(file, progress) for file in files])
    except (OSError, Unreachable):
        return ""


def _with_checksum(file: RowFile, progress: ByteProgress) -> RowFile:
    checksum = 0
    for piece in pieces_of(file.path, progress):
        checksum = google_crc32c.extend(checksum, piece)
    return replace(file, crc32c=base64.b64encode(struct.pack(">I", checksum)).decode())
