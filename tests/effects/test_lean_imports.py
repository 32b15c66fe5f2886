from __future__ import annotations

import importlib
import subprocess
import sys
import threading

import pytest

from xsft.effects.lean_imports import without

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
