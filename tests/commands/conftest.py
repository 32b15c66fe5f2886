from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def no_google_login(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A developer's login must not turn a test into traffic: the initial checkpoint of a workload is on gs://."""
    nowhere: Path = tmp_path_factory.mktemp("no-login")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(nowhere))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
