from __future__ import annotations

import importlib
import subprocess
import sys
import threading

import pytest

from xsft.effects.lean_imports import later, lazily, without

UNUSED = "xml.sax.expatreader"
"""Of the standard library; nothing in these tests loads it."""


@pytest.fixture(autouse=True)
def _unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, UNUSED, raising=False)


def test_it_cannot_be_imported_meanwhile_and_can_afterwards() -> None:
    with pytest.raises(ModuleNotFoundError, match=UNUSED), without(UNUSED):
        importlib.import_module(UNUSED)
    assert importlib.import_module(UNUSED).__name__ == UNUSED


def test_another_thread_is_not_hindered() -> None:
    found: list[str] = []
    with without(UNUSED):
        thread = threading.Thread(target=lambda: found.append(importlib.import_module(UNUSED).__name__))
        thread.start()
        thread.join()
    assert found == [UNUSED]


def test_what_is_loaded_stays_usable() -> None:
    with without("json"):
        assert importlib.import_module("json").dumps({}) == "{}"


def test_the_kubernetes_library_does_without_googles_login() -> None:
    """A fifth of the time it takes to load, for a login that kubectl itself no longer has."""
    program = (
        "import sys; from xsft.effects.lean_imports import without\n"
        "with without('google.auth'):\n"
        "    from kubernetes.config import load_kube_config\n"
        "print([name for name in sys.modules if name.startswith('google.auth')], load_kube_config.__name__)"
    )
    done = subprocess.run((sys.executable, "-c", program), capture_output=True, text=True, check=True)
    assert done.stdout == "[] load_kube_config\n"


def test_a_module_of_which_nothing_is_asked_is_not_loaded() -> None:
    with lazily(UNUSED):
        module = importlib.import_module(UNUSED)
    assert "ExpatParser" not in object.__getattribute__(module, "__dict__")
    assert module.ExpatParser.__name__ == "ExpatParser"


def test_a_function_that_is_asked_for_later_loads_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    with later(UNUSED, "create_parser"):
        from xml.sax.expatreader import create_parser
    assert UNUSED not in sys.modules
    assert type(create_parser()).__name__ == "ExpatParser"
    assert UNUSED in sys.modules
    with later(UNUSED, "create_parser"):
        assert importlib.import_module(UNUSED) is sys.modules[UNUSED], "what is loaded is taken as it is"
    assert UNUSED in sys.modules


def test_only_the_thread_that_asked_gets_the_stand_in() -> None:
    found: list[str] = []

    def other() -> None:
        from xml.sax.expatreader import create_parser

        found.append(type(create_parser()).__name__)

    with later(UNUSED, "create_parser"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert found == ["ExpatParser"]
        assert vars(sys.modules[UNUSED])["ExpatParser"], "it is loaded for everybody now"
    assert UNUSED in sys.modules


def test_what_is_not_named_is_the_modules_own() -> None:
    with later(UNUSED, "create_parser"):
        from xml.sax.expatreader import ExpatParser
    assert ExpatParser.__module__ == UNUSED
    assert sys.modules[UNUSED].ExpatParser is ExpatParser


def test_nothing_is_an_instance_of_what_is_loaded_later_and_it_can_stand_in_an_annotation() -> None:
    with later(UNUSED, "ExpatParser"):
        from xml.sax.expatreader import ExpatParser
    assert not isinstance(object(), ExpatParser)
    assert ExpatParser[int] is ExpatParser  # type: ignore[index]  # as a generic class is
    assert UNUSED not in sys.modules


def test_a_connection_loads_none_of_what_the_library_then_does_not_call() -> None:
    """pydantic it has for answers that it takes apart itself: a third of the time that it takes to load."""
    program = (
        "import sys; from xsft.effects.cluster_login import UNCALLED, _library\n"
        "_library()\n"
        "from kubernetes.client import ApiClient\n"
        "print([name for name in (*UNCALLED, 'pydantic_core') if name in sys.modules])\n"
        "from pydantic import BaseModel\n"
        "from kubernetes.client import ApiResponse\n"
        "ApiClient(configuration=_library()[1])\n"
        "print(issubclass(ApiResponse, BaseModel))"
    )
    done = subprocess.run((sys.executable, "-c", program), capture_output=True, text=True, check=True)
    assert done.stdout == "[]\nTrue\n"
