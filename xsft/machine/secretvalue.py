"""Reads a secret value from a file or standard input. The value is never part of a message."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from xsft.base.errors import UsageError
from xsft.base.secrets import hold_secret
from xsft.machine.regular import open_regular

MAX_BYTES = 1024 * 1024
"""A Kubernetes Secret holds at most 1 MiB (kubernetes.io/docs/concepts/configuration/secret)."""


def read_secret_file(path: Path) -> bytes:
    """Return the file's bytes, without the line ends that editors append. Raises UsageError if the file is empty."""
    try:
        with open_regular(path) as file:
            return _check_value(file.read(MAX_BYTES + 1), "The file of --from-file")
    except (OSError, ValueError) as failed:  # ValueError: a NUL in the name
        reason = getattr(failed, "strerror", None) or "the name is not valid"
        fix = "Check the path, or pipe the value in; its content is not shown."
        raise UsageError(f"The file of --from-file cannot be read: {reason}.", fix=fix) from None


def read_secret_stdin(stdin: BinaryIO) -> bytes:
    """Return standard input to its end. Raises UsageError if it is a terminal, on which the value would be visible."""
    if stdin.isatty():
        raise UsageError(
            "Standard input is a terminal, and a value typed there can be seen.",
            fix="Pipe it in (xsft secret create NAME < FILE), or give --from-file FILE.",
        )
    return _check_value(stdin.read(MAX_BYTES + 1), "Standard input")


def _check_value(content: bytes, what: str) -> bytes:
    value = content.rstrip(b"\r\n")
    if not value.strip():
        raise UsageError(f"{what} is empty.", fix="Give the value, e.g. a token, in it.")
    if len(content) > MAX_BYTES:
        raise UsageError(
            f"{what} has more than {MAX_BYTES:,} bytes.", fix="Check that it is the value; a token is one line."
        )
    hold_secret(value.decode("utf-8", "replace"))
    return value
