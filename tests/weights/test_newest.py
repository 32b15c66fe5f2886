from __future__ import annotations

from pathlib import Path

import pytest

from xsft.base.errors import UsageError
from xsft.records.record_files import record_store
from xsft.weights.newest import checkpoint_path


@pytest.mark.parametrize("given", ["s3://bucket/x", "gs://", "gs:///", "file:///tmp", "http://a/b", "://x"])
def test_an_address_other_than_gs_is_refused_with_the_supported_ones(given: str) -> None:
    with pytest.raises(UsageError, match="not a supported path") as caught:
        checkpoint_path(given, store=record_store())
    assert "gs://bucket/path" in caught.value.fix


@pytest.mark.parametrize("given", ["gs://bucket/a/b", "gs://bucket/a/b/"])
def test_checkpoint_path_removes_the_last_slash_of_a_bucket_path(given: str) -> None:
    assert checkpoint_path(given, store=record_store()) == "gs://bucket/a/b"


def test_checkpoint_path_makes_a_folder_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert checkpoint_path("a/b", store=record_store()) == str(tmp_path / "a/b")
