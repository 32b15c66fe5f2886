"""`xsft checkpoint inspect` on folders of this machine; tests/contract/test_checkpoint_formats.py has Orbax's own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes.gcs import Bucket, serving
from xsft.base.stage import to_json
from xsft.verbs.cli import main
from xsft.weights.export_record import FILE, ExportRecord

NAMES = ("wo.kernel", "norm.scale")
ARRAYS = {f"params.decoder.layers.{name}": shape for name, shape in zip(NAMES, ([28, 128, 64], [28, 64]), strict=True)}


def tree() -> dict[str, Any]:
    return {
        name: {
            "key_metadata": [{"key": key} for key in name.split(".")],
            "value_metadata": {"value_type": "jax.Array", "write_shape": shape},
        }
        for name, shape in ARRAYS.items()
    }


def files(item: str = "items", **flags: bool) -> dict[str, bytes]:
    """A save by path, without OCDBT."""
    metadata = {"tree_metadata": tree(), "use_ocdbt": False, "use_zarr3": False, **flags}
    arrays = {f"{item}/{name}/.zarray": b'{"dtype": "<f4"}' for name in ARRAYS}
    chunks = {f"{item}/{name}/0.0": b"\0" * 1000 for name in ARRAYS}
    step = {"_CHECKPOINT_METADATA": b'{"init_timestamp_nsecs": 1, "commit_timestamp_nsecs": 2}'}
    return {**step, f"{item}/_METADATA": json.dumps(metadata).encode(), **arrays, **chunks}


def write(folder: Path, content: Mapping[str, bytes]) -> Path:
    for name, data in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


class Told:
    """The verb's answer about a path."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def text(self, path: object) -> tuple[int, str]:
        status = main(("checkpoint", "inspect", str(path)))
        return status, self._capsys.readouterr().out

    def document(self, path: object) -> tuple[int, dict[str, Any]]:
        status = main(("checkpoint", "inspect", str(path), "--json"))
        return status, json.loads(self._capsys.readouterr().out)


@pytest.fixture
def inspected(capsys: pytest.CaptureFixture[str]) -> Told:
    return Told(capsys)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return write(tmp_path / "0", files())


def test_a_whole_checkpoint_is_complete(inspected: Told, saved: Path) -> None:
    status, report = inspected.document(saved / "items")
    assert status == 0
    assert (report["status"], report["layout"], report["step"]) == ("complete", "items", 0)
    assert (report["use_zarr3"], report["use_ocdbt"], report["modes"]) == (False, False, ["mcjax", "pathways"])
    assert (report["dtypes"], report["arrays"]) == (["float32"], 2)


def test_the_reported_size_includes_arrays_that_are_not_read(inspected: Told, saved: Path) -> None:
    _, report = inspected.document(saved / "items")
    assert report["bytes"] == sum(file.stat().st_size for file in (saved / "items").rglob("*") if file.is_file())
    assert report["bytes_read"] < 1000, "no chunk of an array"


def test_inspect_prints_status_and_format_as_text(inspected: Told, saved: Path) -> None:
    status, text = inspected.text(saved / "items")
    assert status == 0
    assert "status      complete\n" in text
    assert "format      zarr v2, without OCDBT\n" in text


def without(content: dict[str, bytes], part: str) -> dict[str, bytes]:
    return {name: data for name, data in content.items() if part not in name}


TORN = {
    "an array is missing": (without(files(), "wo.kernel"), "1 of 2 arrays are missing"),
    "an array has no file of its own": (without(files(), "wo.kernel/.zarray"), "1 of 2 arrays are missing or have no"),
    "no commit": ({**files(), "_CHECKPOINT_METADATA": b'{"commit_timestamp_nsecs": null}'}, "no commit time"),
    "no manifest": (files(use_ocdbt=True), "manifest.ocdbt is missing"),
}


@pytest.mark.parametrize("case", TORN)
def test_a_save_that_did_not_end_is_torn(inspected: Told, tmp_path: Path, case: str) -> None:
    content, why = TORN[case]
    status, report = inspected.document(write(tmp_path / "0", content) / "items")
    assert (status, report["status"], report["modes"]) == (2, "torn", [])
    assert why in report["detail"]


def test_a_temporary_folder_is_torn(inspected: Told, tmp_path: Path) -> None:
    folder = write(tmp_path / "7.orbax-checkpoint-tmp", files("model_params"))
    status, report = inspected.document(folder / "model_params")
    assert (status, report["status"], report["step"]) == (2, "torn", 7)


@pytest.mark.parametrize(
    ("marker", "status"), [("commit_success.txt", "complete"), ("items/commit_success.txt", "torn")]
)
def test_only_the_marker_of_the_step_makes_a_save_complete(
    inspected: Told, tmp_path: Path, marker: str, status: str
) -> None:
    """Each item of a save has a marker of its own, which is there before the save has ended."""
    content = {**files(), "_CHECKPOINT_METADATA": b'{"commit_timestamp_nsecs": null}', marker: b""}
    assert inspected.document(write(tmp_path / "0", content) / "items")[1]["status"] == status


def test_the_folder_of_a_step_shows_its_checkpoint(inspected: Told, tmp_path: Path) -> None:
    step = write(tmp_path / "run" / "checkpoints" / "80", files("model_params"))
    status, shown = inspected.document(step)
    assert (status, shown["status"], shown["step"]) == (0, "complete", 80)
    assert shown["path"] == f"{step}/model_params"


@pytest.mark.parametrize(
    "files", [("model.safetensors", "config.json"), ("pytorch_model.bin.index.json",), ("blobs/a", "snapshots/b/c")]
)
def test_hugging_face_weights_are_reported(inspected: Told, tmp_path: Path, files: tuple[str, ...]) -> None:
    write(tmp_path, dict.fromkeys(files, b"x"))
    status, report = inspected.document(tmp_path)
    assert (status, report["layout"]) == (2, "hugging_face")


def test_a_file_of_weights_is_identified(inspected: Told, tmp_path: Path) -> None:
    write(tmp_path, {"model.safetensors": b"x"})
    status, report = inspected.document(tmp_path / "model.safetensors")
    assert (status, report["status"], report["layout"]) == (2, "not-a-checkpoint", "hugging_face")
    assert "xsft checkpoint convert" in report["detail"]
    assert inspected.document(tmp_path / "gone.safetensors")[1]["layout"] is None


def test_a_folder_that_does_not_exist_is_missing(inspected: Told, tmp_path: Path) -> None:
    assert inspected.document(tmp_path / "nowhere")[1]["status"] == "missing"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    saved = {**files(), "commit_success.txt": b""}
    with serving(Bucket({f"runs/0/{name}": data for name, data in saved.items()})) as served:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", served.url)
        yield served


def test_a_whole_checkpoint_in_a_bucket_is_complete(inspected: Told, bucket: Bucket) -> None:
    status, report = inspected.document("gs://my-bucket/runs/0/items")
    assert (status, report["status"], report["dtypes"]) == (0, "complete", ["float32"])
    contents = [data for name, data in bucket.objects.items() if name.startswith("runs/0/items/")]
    assert report["bytes"] == sum(map(len, contents))


def test_a_save_copied_to_a_bucket_without_its_marker_is_torn(inspected: Told, bucket: Bucket) -> None:
    del bucket.objects["runs/0/commit_success.txt"]
    status, report = inspected.document("gs://my-bucket/runs/0/items")
    assert (status, report["status"]) == (2, "torn")
    assert "gcloud storage cp - gs://my-bucket/runs/0/commit_success.txt" in report["detail"]
    bucket.objects["runs/0/items/commit_success.txt"] = b""
    assert inspected.document("gs://my-bucket/runs/0/items")[1]["status"] == "complete"


def test_an_array_of_a_bucket_without_its_own_file_is_torn(inspected: Told, bucket: Bucket) -> None:
    (deleted,) = [name for name in bucket.objects if name.endswith("wo.kernel/.zarray")]
    bucket.objects[f"{deleted.removesuffix('.zarray')}0.0"] = bucket.objects.pop(deleted)
    status, report = inspected.document("gs://my-bucket/runs/0/items")
    assert (status, report["status"], report["modes"]) == (2, "torn", [])


def test_a_bucket_without_a_login_is_unreadable(
    inspected: Told, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "STORAGE_EMULATOR_HOST", "CLOUDSDK_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    status, report = inspected.document("gs://team-bucket/runs/0/items")
    assert (status, report["status"]) == (5, "unreadable")
    assert "login" in report["detail"]


def test_a_name_that_is_neither_a_folder_nor_a_run_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("checkpoint", "inspect", "no-such-run")) == 2
    assert "neither a folder here nor a run" in capsys.readouterr().err


EXPORT = ExportRecord(
    digest="e" * 64,
    run_name="tiny-export",
    outcome="completed",
    inputs={
        "training": "tiny",
        "step": 80,
        "form": "merged",
        "dtype": "bfloat16",
        "model": "qwen3-0.6b",
        "weights": "/o/80",
    },
)


@pytest.mark.parametrize(("outcome", "status"), [("completed", "complete"), ("failed", "torn")])
def test_an_export_of_xsft_says_what_it_is(inspected: Told, tmp_path: Path, outcome: str, status: str) -> None:
    record = to_json(replace(EXPORT, outcome=outcome)).encode()
    folder = write(tmp_path / "model", {"config.json": b"{}", "model.safetensors": b"\0" * 10, FILE: record})
    code, shown = inspected.document(folder)
    assert (code, shown["status"], shown["layout"], shown["step"]) == (
        int(status == "torn") * 2,
        status,
        "hugging_face",
        80,
    )
    assert shown["detail"].startswith("an export of tiny, step 80: merged weights")
    lines = inspected.text(folder)[1].splitlines()
    assert lines[2:5] == ["layout      hugging_face, step 80", "dtypes      bfloat16", "models      qwen3-0.6b"]
    assert lines[-1] == "written by  export tiny-export of /o/80"
