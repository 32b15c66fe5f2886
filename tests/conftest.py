"""Fixtures for every test. What is not here is skipped, loudly: tests/run.py counts it with its reason."""

from __future__ import annotations

import pytest

from xsft.effects import environments
from xsft.effects.environments import Environment


@pytest.fixture(scope="session")
def xpk_environment() -> Environment:
    """The real, pinned xpk. Built by `make test`, never by a test."""
    return _built("xpk")


@pytest.fixture(scope="session")
def maxtext_environment() -> Environment:
    """The real, pinned MaxText. Built by `make test` where a Python >= 3.12 is here."""
    return _built("maxtext")


def _built(name: str) -> Environment:
    found = environments.find(name)
    if found is None:
        pytest.skip(f"the {name} environment is not built: `xsft setup {name}`, or `xsft doctor` for what is missing")
    return found
