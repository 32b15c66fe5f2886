"""The programs of an evaluation as one file that an image carries, and its digest. Pure."""

from __future__ import annotations

import hashlib

from xsft.workers.sent import archive_of

IN_POD = "xsft.workers.evaluation_container"
"""The program that measures and judges on a cluster; it runs the same functions."""
FOLDER_IN_IMAGE = "/usr/share/xsft/programs"
"""source: images/post_training/code.Dockerfile"""
ARCHIVE = "evaluate.zip"


def program_archive() -> bytes:
    """Return the file that an image carries for evaluations."""
    return archive_of(IN_POD)


def program_digest() -> str:
    """Return the sha256 of `program_archive`, 64 hex digits."""
    return hashlib.sha256(program_archive()).hexdigest()
