"""Requests that `xsft checkpoint export RUN` refuses before MaxText starts: one error each, with the next step."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkpoints import small_files
from tests.exports import recorded, trainer_argv
from tests.hfmodels import SIZES
from tests.inprocess import xsft
from xsft.records.record_files import record_store

MODEL = "qwen3-0.6b"


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the weights of a training that completed, still empty."""
    monkeypatch.setenv("XSFT_STATE_DIR", str(tmp_path / "state"))
    argv = trainer_argv(tmp_path, "tiny", model=str(tmp_path / "model"), base="/base/0/items")
    recorded(record_store(os.environ), tmp_path, "tiny", argv)
    (tmp_path / "tiny" / "checkpoints" / "2").mkdir(parents=True)
    (tmp_path / "tiny" / "checkpoints" / "2" / "_CHECKPOINT_METADATA").write_text("{}")
    return tmp_path / "tiny" / "checkpoints" / "2" / "model_params"


def save(weights: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (weights / name).parent.mkdir(parents=True, exist_ok=True)
        (weights / name).write_bytes(content)


def enlarge(weights: Path, size: int) -> None:
    """A file of this size that takes no place."""
    (weights / "d").mkdir()
    (weights / "d" / "data").touch()
    os.truncate(weights / "d" / "data", size)


def test_export_refuses_a_torn_checkpoint(weights: Path, tmp_path: Path) -> None:
    save(weights, small_files(MODEL, given=SIZES))
    (weights / "_METADATA").write_bytes((weights / "_METADATA").read_bytes()[:100])
    done = xsft("checkpoint", "export", "tiny")
    assert done.returncode == 2
    assert "[export-torn]" in done.stderr
    assert "--step N" in done.stderr
    assert not (tmp_path / "tiny-export").exists()


def test_export_refuses_the_weights_of_another_model(weights: Path, tmp_path: Path) -> None:
    save(weights, small_files("qwen3-4b"))
    done = xsft("checkpoint", "export", "tiny")
    assert done.returncode == 2
    assert "[export-other-model]" in done.stderr
    assert "It holds qwen3-4b" in done.stderr
    assert not (tmp_path / "tiny-export").exists()


def test_export_exits_3_when_memory_is_too_small(weights: Path, tmp_path: Path) -> None:
    save(weights, small_files(MODEL, given=SIZES))
    enlarge(weights, 2**42)
    done = xsft("checkpoint", "export", "tiny")
    assert done.returncode == 3
    assert "[export-memory]" in done.stderr
    assert "Export on a larger machine" in done.stderr
    assert not list(tmp_path.glob("tiny-export/*/xsft"))


@pytest.mark.contract
def test_export_exits_3_when_the_disk_is_too_small(weights: Path, tmp_path: Path) -> None:
    """A filesystem of one megabyte, which only this process sees."""
    save(weights, small_files(MODEL, given=SIZES))
    enlarge(weights, 2**21)
    small = tmp_path / "small"
    small.mkdir()
    mount = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")
    script = 'mount -t tmpfs -o size=1m none "$0" && exec "$@"'
    argv = (*mount, script, str(small), sys.executable, "-m", "xsft", "checkpoint", "export", "tiny")
    done = subprocess.run((*argv, "--output", str(small)), capture_output=True, text=True, check=False)
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no filesystem can be mounted here: {done.stderr.strip()}")
    assert done.returncode == 3, done.stderr
    assert "[export-disk]" in done.stderr
    assert "Free some space" in done.stderr
