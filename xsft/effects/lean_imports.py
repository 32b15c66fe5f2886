"""Imports that a library tries, and can do without."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.abc import MetaPathFinder


@contextmanager
def without(module: str) -> Iterator[None]:
    """Meanwhile importing `module` raises ModuleNotFoundError, in this thread only; one that is loaded stays usable."""
    refusing = _Refusing(module, threading.get_ident())
    sys.meta_path.insert(0, refusing)
    try:
        yield
    finally:
        sys.meta_path.remove(refusing)


@dataclass(frozen=True, eq=False)
class _Refusing(MetaPathFinder):
    module: str
    thread: int

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> None:  # noqa: ARG002
        if fullname == self.module and threading.get_ident() == self.thread:
            raise ModuleNotFoundError(f"{fullname} is left out here", name=fullname)
