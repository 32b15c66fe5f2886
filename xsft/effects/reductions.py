"""What was made of the objects of a list when it was read last: of the same bytes the same is made again.

Most objects do not change between two looks, and taking 15 MB of JSON apart is a large part of what a look costs. Known
by a digest of its bytes as the cluster sends them, an object that did change is simply not known: nothing old is ever
taken for new. One file per list in the cache folder, and another one where xsft reads objects in another way.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from xsft.effects.files import write_atomic
from xsft.effects.leftovers import sweep
from xsft.errors import XsftError

T = TypeVar("T")

READERS = ("launchers", "modes", "states", "catalog", "naming.py")
"""Of xsft, what decides what is made of an object: what the reducing modules import, and the tables those read."""
MAX_BYTES = 64 * 1024 * 1024


class Reductions(Generic[T]):
    """Of one list; for one thread. Its file is read when it is first asked, so that the question is under way."""

    def __init__(self, path: Path, kind: Callable[[], type]) -> None:
        """`kind`: a type that msgspec can write and read."""
        self._path = path
        self._kind = kind
        self._before: dict[bytes, T] | None = None
        self._now: dict[bytes, T] = {}
        self._added = False

    def get(self, content: bytes) -> tuple[bytes, T | None]:
        """The digest to `add` it by, and what was made of it."""
        if self._before is None:
            self._before = _read(self._path, self._kind())
        digest = hashlib.sha256(content).digest()
        made = self._before.get(digest)
        if made is not None:
            self._now[digest] = made
        return digest, made

    def add(self, digest: bytes, made: T) -> None:
        self._now[digest] = made
        self._added = True

    def save(self) -> None:
        """Those of this reading, where any is new. What cannot be written costs time, and is not spoken of."""
        if not self._added:
            return
        from msgspec import msgpack

        with suppress(XsftError, OSError, ValueError, OverflowError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            sweep(self._path.parent)
            write_atomic(self._path, msgpack.encode((_made_by(), self._now)), durable=False)


@contextmanager
def kept(
    cache: Path | None, *, context: str, namespace: str, plural: str, kind: Callable[[], type]
) -> Iterator[Reductions[Any] | None]:
    """Of all objects of that kind in a namespace, saved once the list is read; None without a cache folder.

    Two clusters of one context name only take each other's place.
    """
    if cache is None:
        yield None
        return
    where = hashlib.sha256(f"{context}\0{namespace}".encode()).hexdigest()[:12]
    name = f"{re.sub(r'[^A-Za-z0-9.-]+', '_', context)[:80]}-{where}.{plural}"
    found = Reductions[Any](cache / "lists" / name, kind)
    yield found
    found.save()


def _read(path: Path, kind: Any) -> dict[bytes, Any]:
    """Empty where it was written by another xsft, or is not whole."""
    from msgspec import MsgspecError, msgpack

    try:
        with path.open("rb") as file:
            made_by, found = msgpack.decode(file.read(MAX_BYTES), type=tuple[str, dict[bytes, kind]])
    except (OSError, MsgspecError, RecursionError):
        return {}
    return found if made_by == _made_by() else {}


@cache
def _made_by() -> str:
    """Names the code that reads objects, by time and size of its files: also in a checkout, where it changes."""
    package = Path(__file__).parent.parent
    stamps = sorted(stamp for name in READERS for stamp in _stamps(package / name))
    return hashlib.sha256("\0".join(stamps).encode()).hexdigest()


def _stamps(path: Path) -> Iterator[str]:
    if path.is_dir():
        for entry in os.scandir(path):
            if entry.is_file():
                yield _stamp(entry.path, entry.stat())
    else:
        yield _stamp(str(path), path.stat())


def _stamp(path: str, found: os.stat_result) -> str:
    return f"{path} {found.st_mtime_ns} {found.st_size}"
