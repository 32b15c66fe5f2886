"""Imports of a library that it can do without, or that can wait until they are needed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType
from typing import Any

_CHANGING = threading.Lock()


@contextmanager
def without(module: str) -> Iterator[None]:
    """Meanwhile importing `module` raises ModuleNotFoundError, in this thread only; one that is loaded stays usable."""
    with _first(_Refusing(module, threading.get_ident())):
        yield


@contextmanager
def later(module: str, *names: str) -> Iterator[None]:
    """Meanwhile `from module import name` gives this thread a class that loads the module when it is called, and calls
    its `name`; nothing is ever an instance of it. Whoever asks for anything else gets the module itself, as does who
    asks for one that is loaded.
    """
    stand_in = _StandIn(module, frozenset(names))
    if sys.modules.setdefault(module, stand_in) is not stand_in:
        yield
        return
    try:
        yield
    finally:
        stand_in.step_aside()


class _StandIn(ModuleType):
    def __init__(self, module: str, names: frozenset[str]) -> None:
        super().__init__(module)
        self._names = names
        self._thread = threading.get_ident()

    def __getattr__(self, name: str) -> Any:
        mine = threading.get_ident() == self._thread
        if mine and name in self._names:
            return _called_later(self.__name__, name)
        if mine and name.startswith("__"):  # the import system looks whether it is a package
            raise AttributeError(name)
        self.step_aside()
        return getattr(import_module(self.__name__), name)

    def step_aside(self) -> None:
        with _CHANGING:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]


def _called_later(module: str, name: str) -> type:
    def call(_: type, *args: Any, **kwargs: Any) -> Any:
        return getattr(import_module(module), name)(*args, **kwargs)

    return type(name, (), {"__new__": call, "__class_getitem__": classmethod(lambda cls, _: cls)})


@contextmanager
def lazily(*modules: str) -> Iterator[None]:
    """Meanwhile importing one of them, in this thread, loads it only once something of it is asked for."""
    with _first(_Lazily(frozenset(modules), threading.get_ident())):
        yield


@contextmanager
def _first(finder: MetaPathFinder) -> Iterator[None]:
    """Asked before all others. The list is replaced, never changed: other threads go through it while they import."""
    with _CHANGING:
        sys.meta_path = [finder, *sys.meta_path]
    try:
        yield
    finally:
        with _CHANGING:
            sys.meta_path = [one for one in sys.meta_path if one is not finder]


@dataclass(frozen=True, eq=False)
class _Refusing(MetaPathFinder):
    module: str
    thread: int

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> None:  # noqa: ARG002
        if fullname == self.module and threading.get_ident() == self.thread:
            raise ModuleNotFoundError(f"{fullname} is left out here", name=fullname)


@dataclass(frozen=True, eq=False)
class _Lazily(MetaPathFinder):
    modules: frozenset[str]
    thread: int

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.modules or threading.get_ident() != self.thread:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec
