"""Contract tests ask the real, pinned tool. Where it is not installed they are skipped, loudly."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from xsft.effects import environments

# Read once, before any fixture empties the environment that a test sees.
_BUILT = environments.find("xpk")
_NAMED = os.environ.get("XSFT_TEST_XPK_PYTHON")


@pytest.fixture(scope="session")
def xpk_python() -> Path:
    """The interpreter of xpk's environment: the built one, or the one that XSFT_TEST_XPK_PYTHON names."""
    if _BUILT is not None:
        return _BUILT.python
    if _NAMED:
        return Path(_NAMED)
    pytest.skip("xpk's environment is not built, so nothing was checked against xpk: run `make setup`")
