from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.records.test_record_files import begun, intent, store
from xsft.base.errors import UsageError
from xsft.machine.objects import LocalObjects
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


def test_the_name_of_a_conversion_means_its_last_attempt_in_the_newest_output(tmp_path: Path) -> None:
    """An older output of the same name, and an earlier attempt, wrote to other folders."""
    records = store(tmp_path, LocalObjects())
    clock = iter("12345")
    records = replace(records, now=lambda: next(clock))
    for output in ("old", "new"):
        for number in (1, 2):
            written = {"writes": f"/{output}/{number}/0/items"}
            begun(records, intent(str(tmp_path / output), number=number, resolved=written))
    assert checkpoint_path("a-run", store=records) == "/new/2/0/items"


def test_the_name_of_a_training_means_its_newest_whole_checkpoint(tmp_path: Path) -> None:
    records = store(tmp_path, LocalObjects())
    begun(records, intent(str(tmp_path / "runs")))
    saved = tmp_path / "runs" / "a-run" / "checkpoints"
    with pytest.raises(UsageError, match="run a-run has no complete checkpoint"):
        checkpoint_path("a-run", store=records)
    for step in (9, 10):
        (saved / str(step)).mkdir(parents=True)
        (saved / str(step) / "_CHECKPOINT_METADATA").touch()
    (saved / "11").mkdir()
    assert checkpoint_path("a-run", store=records) == f"{saved}/10/model_params"


def test_a_name_that_no_run_has_is_refused(tmp_path: Path) -> None:
    records = store(tmp_path, LocalObjects())
    begun(records, intent(str(tmp_path / "runs")))
    with pytest.raises(UsageError, match="b-run is neither a folder here nor a run"):
        checkpoint_path("b-run", store=records)
