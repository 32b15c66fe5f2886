"""Fixtures that hide a developer's Google login from tests of verbs."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def empty_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("no-login")


@pytest.fixture(autouse=True)
def no_google_login(monkeypatch: pytest.MonkeyPatch, empty_folder: Path) -> None:
    """A developer's login must not turn a test into traffic: the initial checkpoint of a workload is on gs://."""
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(empty_folder))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
