"""The writer of a checkpoint, from xsft's record of the training or of the conversion."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.checkpoints import unpacked
from tests.fakes.gcs import Bucket, serving
from tests.localruns import FakeTrainer, local_plan
from xsft.base.stage import to_json
from xsft.launch.local_run import run_local
from xsft.records.record_files import record_store
from xsft.spec.conversion_inputs import RECORD_FILE, ConversionRecord
from xsft.verbs.checkpoint import checkpoint_lines
from xsft.weights.checkpoint_report import Writer
from xsft.weights.inspect import inspect_checkpoint

COMMIT = "0123456789abcdef0123456789abcdef01234567"
RECORD = ConversionRecord(
    digest="d" * 64,
    run_name="qwen-chat-convert",
    outcome="completed",
    inputs={"source": {"repo": "Qwen/Qwen3-0.6B", "commit": COMMIT}},
)
CONVERSION = Writer(run_name="qwen-chat-convert", spec_digest="d" * 64, source=f"Qwen/Qwen3-0.6B@{COMMIT}")


@pytest.fixture
def stores(tmp_path: Path) -> Path:
    return unpacked("stores", tmp_path / "stores")


def writer(path: str, home: Path) -> Writer | None:
    return inspect_checkpoint(path, store=record_store({"HOME": str(home)})).written_by


def test_the_writer_of_a_trained_checkpoint_is_its_training(stores: Path, tmp_path: Path) -> None:
    (tmp_path / "fake").mkdir()
    plan = local_plan(tmp_path / "out", train__steps=6, train__checkpoint_period=2)
    run_local(plan, machine=FakeTrainer(folder=tmp_path / "fake").machine(), on_event=lambda _: None)
    step = tmp_path / "out" / "tiny-local" / "checkpoints" / "6"
    shutil.rmtree(step)
    shutil.copytree(stores / "qwen3-trained" / "checkpoints" / "2", step)
    writer_found = writer(f"{step}/model_params", tmp_path)
    assert writer_found is not None
    assert (writer_found.run_name, writer_found.steps, writer_found.source) == ("tiny-local", 6, None)
    assert writer_found.spec_digest == plan.spec_digest


@pytest.fixture
def bucket(stores: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    folder = stores / "qwen3-converted"
    files = {f"c/{file.relative_to(folder)}": file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    with serving(Bucket({**files, f"c/{RECORD_FILE}": to_json(RECORD).encode()})) as served:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", served.url)
        yield served


def test_the_writer_of_a_converted_checkpoint_is_its_conversion(stores: Path, tmp_path: Path, bucket: Bucket) -> None:
    assert writer("gs://my-bucket/c/0/items", tmp_path) == CONVERSION
    folder = stores / "qwen3-converted"
    (folder / RECORD_FILE).parent.mkdir()
    (folder / RECORD_FILE).write_text(to_json(RECORD))
    assert writer(str(folder / "0" / "items"), tmp_path) == CONVERSION
    lines = checkpoint_lines(
        inspect_checkpoint(str(folder / "0" / "items"), store=record_store({"HOME": str(tmp_path)}))
    )
    assert f"written by  conversion qwen-chat-convert of Qwen/Qwen3-0.6B@{COMMIT}, digest dddddddddddd" in list(lines)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"digest": 1}', b"\xff"])
def test_a_damaged_or_missing_record_gives_no_writer(stores: Path, tmp_path: Path, content: bytes) -> None:
    folder = stores / "qwen3-converted"
    (folder / RECORD_FILE).parent.mkdir()
    (folder / RECORD_FILE).write_bytes(content)
    assert writer(str(folder / "0" / "items"), tmp_path) is None
    assert writer(str(stores / "qwen3-trained" / "checkpoints" / "2" / "model_params"), tmp_path) is None
