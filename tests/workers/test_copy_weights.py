"""The program that copies weights in a pod, against a bucket on loopback."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.gcs import Bucket, serving
from tests.hfmodels import write_model
from xsft.workers.copy_weights import INDEX, main
from xsft.workers.delivery import text_of

FOLDER = "runs/tiny-export/0123456789ab"
SOURCE = f"gs://my-bucket/{FOLDER}"


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """A bucket with a model and a neighbour of its folder."""
    model = write_model(tmp_path / "model")
    objects = {f"{FOLDER}/{file.name}": file.read_bytes() for file in model.iterdir()}
    with serving(Bucket(objects={**objects, f"{FOLDER}-2/config.json": b"another one's"})) as bucket_there:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", bucket_there.url)
        yield bucket_there


def downloads(bucket: Bucket) -> list[str]:
    return [line for line in bucket.questions if "alt=media" in line]


def test_restarted_pod_copies_only_missing_files(bucket: Bucket, tmp_path: Path) -> None:
    target = tmp_path / "weights"
    main(SOURCE, target)
    assert {file.name: file.read_bytes() for file in target.iterdir()} == {
        file.name: file.read_bytes() for file in (tmp_path / "model").iterdir()
    }
    first = len(downloads(bucket))
    (target / "model.safetensors").write_bytes(b"cut off")
    main(SOURCE, target)
    assert len(downloads(bucket)) == first + 1
    assert (target / "model.safetensors").read_bytes() == (tmp_path / "model" / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("lacking", "named"),
    [("config.json", "config.json missing"), ("model.safetensors", "*.safetensors missing")],
)
def test_incomplete_export_is_not_served(bucket: Bucket, tmp_path: Path, lacking: str, named: str) -> None:
    del bucket.objects[f"{FOLDER}/{lacking}"]
    with pytest.raises(ValueError, match="is not a complete model") as refused:
        main(SOURCE, tmp_path / "weights")
    assert str(refused.value) == f"{SOURCE} is not a complete model: {named}"


@pytest.mark.loopback
def test_copy_program_names_the_missing_shard(bucket: Bucket, tmp_path: Path) -> None:
    index = {"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}
    bucket.objects[f"{FOLDER}/{INDEX}"] = json.dumps(index).encode()
    argv = (sys.executable, "-c", text_of("xsft.workers.copy_weights"), SOURCE, str(tmp_path / "weights"))
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: {SOURCE} is not a complete model: model-2.safetensors missing\n"
