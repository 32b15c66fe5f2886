from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from tests.records.test_record_files import begun, intent, store
from tests.replacing import replace
from xsft.base.errors import UsageError
from xsft.machine.objects import LocalObjects
from xsft.records.record_files import record_store
from xsft.stages.exported import newest_entry
from xsft.weights.inspect import checkpoint_path


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


def test_the_newest_run_of_a_name_counts(tmp_path: Path) -> None:
    times = map(str, count())
    records = replace(store(tmp_path, LocalObjects()), now=times.__next__)
    for folder, step in (("old", 3), ("new", 5)):
        begun(records, intent(str(tmp_path / folder)))
        saved = tmp_path / folder / "a-run" / "checkpoints" / str(step)
        saved.mkdir(parents=True)
        (saved / "_CHECKPOINT_METADATA").write_text("{}")
    assert checkpoint_path("a-run", store=records) == f"{tmp_path}/new/a-run/checkpoints/5/model_params"
    assert newest_entry("a-run", records).output == f"{tmp_path}/new"
