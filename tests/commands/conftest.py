from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.clusters import ClusterApi, standing_in


@pytest.fixture(scope="session")
def empty_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("no-login")


@pytest.fixture(autouse=True)
def no_google_login(monkeypatch: pytest.MonkeyPatch, empty_folder: Path) -> None:
    """A developer's login must not turn a test into traffic: the initial checkpoint of a workload is on gs://."""
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(empty_folder))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterApi]:
    """The stand-in, as the cluster of this folder's kubeconfig."""
    with standing_in(tmp_path) as standin:
        monkeypatch.setenv("KUBECONFIG", str(standin.kubeconfig))
        monkeypatch.setenv("XSFT_STATE_DIR", str(tmp_path / "state"))
        monkeypatch.chdir(tmp_path)
        yield standin
