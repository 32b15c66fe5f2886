"""The format of a checkpoint, read from its files."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.fakes.gcs import Bucket, serving
from xsft.base.errors import Unreachable
from xsft.spec.facts import CheckpointFacts
from xsft.weights.read_arrays import MAX_METADATA
from xsft.weights.read_checkpoint import read_checkpoint

KEY = {"key_metadata": [{"key": k} for k in ("params", "decoder", "layers", "mlp", "wo", "kernel")]}
NORM = {"key_metadata": [{"key": k} for k in ("params", "decoder", "layers", "norm", "scale")]}
TREE = {
    "a": {**KEY, "value_metadata": {"write_shape": [28, 128, 64]}},
    "b": {**NORM, "value_metadata": {"write_shape": [28, 64]}},
}
STEP = json.dumps({"custom_metadata": {"scan_layers": True}}).encode()


def metadata(**flags: bool) -> bytes:
    return json.dumps({"tree_metadata": TREE, **flags}).encode()


CONVERTED = {
    "0/_CHECKPOINT_METADATA": STEP,
    "0/commit_success.txt": b"",
    "0/items/_METADATA": metadata(use_ocdbt=False, use_zarr3=False),
    "0/items/params.decoder.layers.mlp.wo.kernel/.zarray": b"{}",
    "0/items/params.decoder.layers.norm.scale/.zarray": b"{}",
}
OTHER = b"?" * 16
"""A manifest of another format."""
TRAINED = {
    "checkpoints/9/commit_success.txt": b"",
    "checkpoints/10/commit_success.txt": b"",
    "checkpoints/9/model_params/_METADATA": metadata(use_ocdbt=True, use_zarr3=False),
    "checkpoints/10/_CHECKPOINT_METADATA": b'{"custom_metadata": {}}',
    "checkpoints/10/model_params/_METADATA": metadata(use_ocdbt=True, use_zarr3=False),
    "checkpoints/9/model_params/manifest.ocdbt": OTHER,
    "checkpoints/10/model_params/manifest.ocdbt": OTHER,
    "checkpoints/10/optimizer_state/_METADATA": b"{}",
}


class Memory:
    """Files by path below gs://my-bucket, without a server."""

    def __init__(self, files: Mapping[str, bytes], *, refuse: str = "\0") -> None:
        self._files = {f"gs://my-bucket/{name}": content for name, content in files.items()}
        self._refuse = refuse
        self.reads: list[str] = []

    def read(self, path: str, *, limit: int, start: int = 0) -> bytes | None:
        self.reads.append(path)
        if self._refuse in path:
            raise Unreachable(f"{path}: permission denied (HTTP 403)", fix="Ask.")
        content = self._files.get(path)
        return None if content is None else content[start : start + limit]

    def folders_with(self, folder: str, files: tuple[str, ...]) -> tuple[str, ...]:
        below = (name.removeprefix(f"{folder}/").split("/") for name in self._files if name.startswith(f"{folder}/"))
        return tuple(sorted({parts[0] for parts in below if len(parts) == 2 and parts[1] in files}))

    def size(self, folder: str) -> int | None:
        return sum(len(content) for name, content in self._files.items() if name.startswith(f"{folder}/"))

    def names(self, folder: str) -> tuple[str, ...]:
        below = [name.removeprefix(f"{folder}/") for name in self._files if name.startswith(f"{folder}/")]
        return tuple(sorted({n.partition("/")[0] + ("/" if "/" in n else "") for n in below}))


def look(files: Mapping[str, bytes], path: str, **more: str) -> CheckpointFacts:
    return read_checkpoint(f"gs://my-bucket/{path}", storage=Memory(files, **more))


def test_a_converted_checkpoint_has_its_format_and_layers() -> None:
    checkpoint_facts = look(CONVERTED, "0/items/")
    assert (checkpoint_facts.status, checkpoint_facts.use_ocdbt, checkpoint_facts.use_zarr3) == ("read", False, False)
    assert (checkpoint_facts.scan_layers, checkpoint_facts.scan_recorded, checkpoint_facts.param_scan_axis) == (
        True,
        True,
        0,
    )


def test_a_trained_checkpoint_has_layers_from_its_array_names() -> None:
    checkpoint_facts = look(TRAINED, "checkpoints/10/model_params")
    assert (
        checkpoint_facts.status,
        checkpoint_facts.use_ocdbt,
        checkpoint_facts.scan_layers,
        checkpoint_facts.scan_recorded,
    ) == ("read", True, True, False)


@pytest.mark.parametrize(
    ("files", "ocdbt", "zarr3"),
    [
        ({"c/_METADATA": metadata(), "c/manifest.ocdbt": OTHER}, True, None),
        ({"c/_METADATA": metadata(), "c/a.b/.zarray": b"{}"}, False, False),
        ({"c/_METADATA": metadata(), "c/a.b/zarr.json": b"{}", "c/array_metadatas/process_0": b""}, False, True),
        ({"c/_METADATA": metadata()}, False, None),
        ({"c/_METADATA": metadata(use_zarr3=True), "c/manifest.ocdbt": OTHER}, True, True),
    ],
    ids=["manifest", "zarr 2 array", "zarr 3 array", "metadata only", "zarr 3 in metadata"],
)
def test_missing_flags_are_derived_from_the_files(files: dict[str, bytes], ocdbt: bool, zarr3: bool | None) -> None:
    checkpoint_facts = look(files, "c")
    assert (checkpoint_facts.use_ocdbt, checkpoint_facts.use_zarr3) == (ocdbt, zarr3)


@pytest.mark.parametrize(
    ("files", "given_path", "status", "meant"),
    [
        (CONVERTED, "0", "not-a-checkpoint", "0/items"),
        ({f"model/{k}": v for k, v in CONVERTED.items()}, "model", "not-a-checkpoint", "model/0/items"),
        ({f"model/{k}": v for k, v in CONVERTED.items()}, "model/items", "missing", "model/0/items"),
        (CONVERTED, "0/model_params", "missing", "0/items"),
        (TRAINED, "checkpoints", "not-a-checkpoint", "checkpoints/10/model_params"),
        (TRAINED, "checkpoints/9", "not-a-checkpoint", "checkpoints/9/model_params"),
        ({f"run/{k}": v for k, v in TRAINED.items()}, "run", "not-a-checkpoint", "run/checkpoints/10/model_params"),
    ],
    ids=[
        "step of a conversion",
        "conversion",
        "items without step",
        "other item",
        "checkpoints of a run",
        "step of a run",
        "run",
    ],
)
def test_a_path_at_the_wrong_level_is_answered_with_the_right_path(
    files: dict[str, bytes], given_path: str, status: str, meant: str
) -> None:
    checkpoint_facts = look(files, given_path)
    assert checkpoint_facts.status == status
    assert checkpoint_facts.detail.endswith(f"there is a checkpoint at gs://my-bucket/{meant}")
    assert look(files, meant).status == "read"


def test_a_missing_checkpoint_is_reported() -> None:
    checkpoint_facts = look(CONVERTED, "elsewhere/items")
    assert (checkpoint_facts.status, checkpoint_facts.detail) == ("missing", "not found")


def test_a_path_without_a_checkpoint_is_not_a_checkpoint_with_a_reason() -> None:
    checkpoint_facts = look({"hf/config.json": b"{}", "hf/model.safetensors": b""}, "hf")
    assert checkpoint_facts.status == "not-a-checkpoint"
    assert "model.safetensors" in checkpoint_facts.detail
    assert "model.hf" in checkpoint_facts.detail
    assert look({"c/_METADATA": b"<html>"}, "c").status == "not-a-checkpoint"
    for nothing in (b"{}", b'{"tree_metadata": {}, "use_ocdbt": false, "use_zarr3": false}'):
        checkpoint_facts = look({"c/_METADATA": nothing}, "c")
        assert (checkpoint_facts.status, checkpoint_facts.detail) == (
            "not-a-checkpoint",
            "its _METADATA lists no arrays",
        )


def test_a_metadata_file_over_the_limit_is_not_read() -> None:
    huge = metadata(use_ocdbt=False).ljust(MAX_METADATA + 1)
    checkpoint_facts = look({"c/_METADATA": huge, "c/manifest.ocdbt": OTHER}, "c")
    assert (checkpoint_facts.status, checkpoint_facts.use_ocdbt, checkpoint_facts.use_zarr3) == ("read", True, None)
    assert f"more than {MAX_METADATA:,} bytes" in checkpoint_facts.detail


def test_a_forbidden_file_is_unreadable_with_a_reason() -> None:
    checkpoint_facts = look(CONVERTED, "0/items", refuse="_METADATA")
    assert checkpoint_facts.status == "unreadable"
    assert "permission denied (HTTP 403). Ask." in checkpoint_facts.detail


def test_a_bucket_is_unreadable_without_a_login() -> None:
    checkpoint_facts = read_checkpoint("gs://team-bucket/0/items", env={"HOME": "/nonexistent"})
    assert checkpoint_facts.status == "unreadable"
    assert "gcloud auth application-default login" in checkpoint_facts.detail


def test_read_checkpoint_makes_at_most_six_reads() -> None:
    storage = Memory(CONVERTED)
    read_checkpoint("gs://my-bucket/0/items", storage=storage)
    assert len(storage.reads) <= 6


def test_a_checkpoint_on_this_machine_is_read(tmp_path: Path) -> None:
    for name, content in CONVERTED.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    checkpoint_facts = read_checkpoint(str(tmp_path / "0" / "items"))
    assert (checkpoint_facts.status, checkpoint_facts.use_ocdbt, checkpoint_facts.scan_layers) == ("read", False, True)
    assert read_checkpoint(str(tmp_path)).detail.endswith(f"there is a checkpoint at {tmp_path}/0/items")


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    with serving(Bucket({**CONVERTED, "0/items/d/array": b"0" * 1_000_000})) as served:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", served.url)
        yield served


def test_a_checkpoint_is_read_through_the_real_client(bucket: Bucket) -> None:
    checkpoint_facts = read_checkpoint("gs://my-bucket/0/items")
    assert (
        checkpoint_facts.status,
        checkpoint_facts.use_ocdbt,
        checkpoint_facts.use_zarr3,
        checkpoint_facts.param_scan_axis,
    ) == ("read", False, False, 0)
    assert bucket.bytes_sent < 10_000
    wrong = read_checkpoint("gs://my-bucket/0")
    assert wrong.detail.endswith("there is a checkpoint at gs://my-bucket/0/items")
    assert read_checkpoint("gs://no-such-bucket/0/items").status == "missing"


def test_a_silent_bucket_is_unreadable_after_the_deadline(bucket: Bucket) -> None:
    bucket.delay_s = 20
    started = time.monotonic()
    checkpoint_facts = read_checkpoint("gs://my-bucket/0/items", deadline_s=0.1)
    assert time.monotonic() - started < bucket.delay_s
    assert (checkpoint_facts.status, "no answer within 0.1 s" in checkpoint_facts.detail) == ("unreadable", True)


TIMED = """
import sys
from xsft.weights.read_checkpoint import read_checkpoint
from xsft.machine import storage
def limited(seconds, ask, call_within=storage.call_within):
    assert seconds == 2.5
    loaded.append("google.cloud.storage" in sys.modules)
    return call_within(seconds, ask)
loaded, storage.call_within = ["google.cloud.storage" in sys.modules], limited
print(read_checkpoint("gs://my-bucket/0/items", deadline_s=2.5).status, loaded[:2], set(loaded[1:]))
"""


@pytest.mark.loopback
def test_slow_imports_do_not_count_towards_the_deadline(bucket: Bucket) -> None:
    """On a busy machine, imports took longer than the deadline, and submit refused a healthy bucket."""
    done = subprocess.run([sys.executable, "-c", TIMED], capture_output=True, text=True, check=True)
    assert done.stdout == "read [False, True] {True}\n"


def test_a_folder_with_only_an_interrupted_save_is_torn(tmp_path: Path) -> None:
    (tmp_path / "mine" / "0.orbax-checkpoint-tmp" / "items").mkdir(parents=True)
    checkpoint_facts = read_checkpoint(str(tmp_path / "mine"))
    assert (checkpoint_facts.status, checkpoint_facts.near) == ("torn", None)
    assert checkpoint_facts.detail == (
        "0.orbax-checkpoint-tmp is a temporary folder of an interrupted save, and no other save is beside it"
    )
