"""Reads what another program sends within limits: bytes after decompression, values, depth.

A cluster, a registry or a login program that sends anything else must take down neither xsft nor the other clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from msgspec import Raw  # not needed to read the output of a program
    from typing_extensions import Buffer

T = TypeVar("T")

ODD_SHAPE = (AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError)
"""Errors that reading an answer may raise if it has a shape that its server never sends."""

MAX_BYTES = 64 * 2**20
"""Limit for one answer. A list of 1,000 JobSets has 16 MB, one of 4,000 nodes 60 MB."""
MAX_VALUES = 2_000_000
"""Limit for one JSON document. A JobSet of 8 KB has 450 values; as Python objects, a value takes up to 100 bytes."""


class UnusableAnswer(ValueError):
    """An answer outside the limits, or of another shape. The message continues `the answer …`."""


def join_bounded(parts: Iterable[bytes], *, limit: int = MAX_BYTES) -> bytes:
    """Return the parts as one. Raises as `bounded` does."""
    content = BytesIO()  # its value is not copied, unlike that of a list of parts
    content.writelines(bounded(parts, limit=limit))
    return content.getvalue()


class BoundedBytes(BytesIO):
    """A file in memory for at most `limit` bytes. Writing more raises UnusableAnswer."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def write(self, part: Buffer, /) -> int:
        if self.tell() + memoryview(part).nbytes > self._limit:
            raise UnusableAnswer(f"has more than {self._limit:,} bytes")
        return super().write(part)


def bounded(parts: Iterable[bytes], *, limit: int = MAX_BYTES) -> Iterator[bytes]:
    """Yield the parts. Raises UnusableAnswer as soon as they have more than `limit` bytes."""
    size = 0
    for part in parts:
        size += len(part)
        if size > limit:
            raise UnusableAnswer(f"has more than {limit:,} bytes")
        yield part


def parse_bounded(
    content: bytes | Raw, parse: Callable[[Any], T], *, counted: tuple[bytes, ...] = (b",", b"{", b"[")
) -> T:
    """Return what `parse` makes of the JSON. Raises UnusableAnswer if it has too many values or is nested too deeply,
    and as `parse` does. `counted`: what counts as a value.
    """
    # A document has no more values than bytes; counting them in 16 MB takes 0.1 CPU-s.
    if memoryview(content).nbytes > MAX_VALUES and sum(map(bytes(content).count, counted)) > MAX_VALUES:
        raise UnusableAnswer(f"has more than {MAX_VALUES:,} values")
    try:
        return parse(content)
    except RecursionError:
        raise UnusableAnswer("is nested too deeply") from None
