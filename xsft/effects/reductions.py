"""What was made of the objects of a list when it was read last, by their versions: of the same the same is made again.

Most objects do not change between two looks, and sending and taking apart 15 MB of JSON is a large part of what a look
costs. An object that did change has another version: nothing old is ever taken for new. One file per list in the cache
folder; of one that is damaged, or that was written by an xsft that reads objects in another way, nothing is taken.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

from xsft.effects.files import write_atomic
from xsft.effects.leftovers import sweep
from xsft.effects.parallel import Started, start
from xsft.errors import XsftError

T = TypeVar("T")

READERS = (
    *("launchers", "modes", "states", "catalog", "naming.py"),
    *("effects/cluster_changes.py", "effects/cluster_items.py", "effects/cluster_reads.py"),
)
"""Of xsft, what decides what is made of an object, and how it is known again: what reduces it, what that imports, and
the tables it reads.
"""
MAX_BYTES = 64 * 1024 * 1024
_DIGEST = 32
"""Bytes of a SHA-256."""


class Reductions(Generic[T]):
    """Of one list, which one thread reads. Its file is read meanwhile, so that who asks has asked before that."""

    def __init__(self, path: Path, kind: Callable[[], Any], *, made_by: Started[bytes]) -> None:
        """`kind`: a type that msgspec can write and read. `made_by`: the code that reads objects now; empty where that
        is not known.
        """
        self._path = path
        self._made_by = made_by
        self._there = _is_file(path)
        self._before = start(lambda: _read(path, kind(), made_by=made_by.result()))
        self._now: dict[str, T] = {}
        self._added = False

    def __bool__(self) -> bool:
        """Whether there is a file."""
        return self._there

    def before(self) -> Collection[T]:
        """All that was made when the list was read last, whatever the objects are now."""
        return self._before.result().values()

    def get(self, version: str) -> tuple[T] | None:
        """What was made of the object; None where that is not known."""
        before = self._before.result()
        if version not in before:
            return None
        self._now[version] = before[version]
        return (before[version],)

    def add(self, version: str, made: T) -> None:
        self._now[version] = made
        self._added = True

    def save(self) -> None:
        """Those of this reading, where any is new or gone. What cannot be written costs time, and is not spoken of."""
        made_by = self._made_by.result()
        changed = self._added or len(self._now) < len(self._before.result())
        if not changed or not made_by or code() != made_by:  # replaced while it ran: nobody knows what read them
            return
        with suppress(XsftError, OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            sweep(self._path.parent)
            content = made_by + _packed(self._now)
            write_atomic(self._path, hashlib.sha256(content).digest() + content, durable=False)


def kept(
    cache: Path, *, made_by: Started[bytes], context: str, namespace: str, plural: str, kind: Callable[[], Any]
) -> Reductions[Any]:
    """Of all objects of that kind in a namespace; to be saved once the list is read.

    Two clusters of one context name only take each other's place.
    """
    where = hashlib.sha256(f"{context}\0{namespace}".encode()).hexdigest()[:12]
    name = f"{re.sub(r'[^A-Za-z0-9.-]+', '_', context)[:80]}-{where}.{plural}"
    return Reductions[Any](cache / "lists" / name, kind, made_by=made_by)


def code() -> bytes:
    """Names the code that reads objects, by its content: also in a checkout, where it changes. Empty where that cannot
    be read.
    """
    package, digest = Path(__file__).parent.parent, hashlib.sha256()
    try:
        for path in sorted(path for name in READERS for path in _files(package / name)):
            digest.update(f"{path.name}\0".encode() + path.read_bytes())
    except OSError:
        return b""
    return digest.digest()


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    with os.scandir(path) as entries:
        return [Path(entry.path) for entry in entries if entry.is_file()]


def _packed(made: dict[str, T]) -> bytes:
    """JSON has larger numbers than msgpack, and halves of characters: what has one is left out."""
    from msgspec import msgpack

    try:
        return msgpack.encode(made)
    except (ValueError, OverflowError):
        return msgpack.encode({version: one for version, one in made.items() if _packs(one)})


def _packs(made: Any) -> bool:
    from msgspec import msgpack

    try:
        msgpack.encode(made)
    except (ValueError, OverflowError):
        return False
    return True


def _is_file(path: Path) -> bool:
    """Also no where nobody may look."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False


def _read(path: Path, kind: Any, *, made_by: bytes) -> dict[str, Any]:
    """Empty where it is not whole, not ours, or made by other code."""
    from msgspec import msgpack

    if not made_by:
        return {}
    try:
        content = _content(path)
        if content[:_DIGEST] != hashlib.sha256(content[_DIGEST:]).digest() or not content.startswith(made_by, _DIGEST):
            return {}
        found: dict[str, Any] = msgpack.decode(content[_DIGEST + len(made_by) :], type=dict[str, kind])
    except (OSError, ValueError, RecursionError):  # msgspec's errors are ValueErrors
        return {}
    return found


def _content(path: Path) -> bytes:
    """Of a file of this user's own: a pipe would be waited for, and another user's word is none."""
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(opened, "rb") as file:
        about = os.fstat(opened)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.getuid():
            raise OSError(f"{path} is not a file of this user")
        return file.read(MAX_BYTES)
