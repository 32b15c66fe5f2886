"""The format is told right for checkpoints that MaxText's converter wrote, sharded over four devices."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from xsft.effects.facts.checkpoint import read_checkpoint
from xsft.effects.facts.inspect import inspect
from xsft.effects.local import namespace
from xsft.effects.machine import process
from xsft.effects.records.records import record_store
from xsft.facts import CheckpointFacts

pytestmark = pytest.mark.contract

WRITER = Path(__file__).parent / "write_checkpoints.py"


@pytest.fixture(scope="module")
def written(maxtext_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    contained = namespace.detect()
    namespace.refuse_where_harmful(contained)
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(folder), "JAX_PLATFORMS": "cpu"}
    argv = (*contained.prefix, str(maxtext_python), "-I", str(WRITER), str(folder / "written"))
    done = process.run(argv, env=env, cwd=folder, timeout_s=300)
    assert done.ok, done.stderr[-3000:]
    return folder / "written"


def look(written: Path, name: str) -> CheckpointFacts:
    found = read_checkpoint(str(written / name / "0" / "items"))
    assert found.status == "read", found.detail
    return found


@pytest.mark.parametrize("zarr3", [False, True])
@pytest.mark.parametrize("ocdbt", [False, True])
def test_every_format(written: Path, zarr3: bool, ocdbt: bool) -> None:
    found = look(written, f"z{zarr3:d}o{ocdbt:d}")
    assert (found.use_zarr3, found.use_ocdbt) == (zarr3, ocdbt)
    assert (found.scan_layers, found.scan_recorded, found.param_scan_axis) == (True, True, 1)


@pytest.mark.parametrize("zarr3", [False, True])
@pytest.mark.parametrize("ocdbt", [False, True])
def test_every_format_is_inspected_whole(written: Path, tmp_path: Path, zarr3: bool, ocdbt: bool) -> None:
    """With OCDBT the dtype is read out of the store, in MaxText's environment."""
    report = inspect(
        str(written / f"z{zarr3:d}o{ocdbt:d}" / "0" / "items"), store=record_store({"HOME": str(tmp_path)})
    )
    assert (report.status, report.layout, report.step, report.dtypes) == ("complete", "items", 0, ("float32",))
    assert report.parameters == 6 * (2 * 64 * 128 + 64) + 64 + 512 * 64
    assert report.modes == (("mcjax",) if zarr3 or ocdbt else ("mcjax", "pathways"))


def test_a_killed_writer_leaves_what_is_told_as_torn(written: Path, tmp_path: Path) -> None:
    """Orbax's folder as it is before its rename, and one that lost its manifest or an array."""
    torn = {
        tmp_path / "0.orbax-checkpoint-tmp": lambda _items: None,
        tmp_path / "a" / "0": lambda items: (items / "manifest.ocdbt").unlink(),
    }
    for folder, harm in torn.items():
        shutil.copytree(written / "z0o1" / "0", folder)
        harm(folder / "items")
        assert read_checkpoint(str(folder / "items")).status == "torn"
    shutil.copytree(written / "z0o0" / "0", tmp_path / "b" / "0")
    shutil.rmtree(tmp_path / "b" / "0" / "items" / "params.params.token_embedder.embedding")
    assert read_checkpoint(str(tmp_path / "b" / "0" / "items")).status == "torn"


def test_the_other_axis_and_no_scan(written: Path) -> None:
    assert look(written, "axis0").param_scan_axis == 0
    unscanned = look(written, "unscanned")
    assert (unscanned.scan_layers, unscanned.scan_recorded, unscanned.param_scan_axis) == (False, True, None)


def test_names_tell_what_is_not_recorded(written: Path, tmp_path: Path) -> None:
    """A run's own checkpoints record nothing: MaxText writes `{}` there."""
    for name, scan in (("axis0", True), ("unscanned", False)):
        shutil.copytree(written / name / "0" / "items", tmp_path / name / "model_params")
        found = read_checkpoint(str(tmp_path / name / "model_params"))
        assert (found.scan_layers, found.scan_recorded) == (scan, False)


def test_a_wrong_level_is_answered_with_the_right_one(written: Path) -> None:
    for wrong in (written / "z0o0", written / "z0o0" / "0", written / "z0o0" / "items"):
        found = read_checkpoint(str(wrong))
        assert found.status in {"not-a-checkpoint", "missing"}
        assert found.detail.endswith(f"a checkpoint lies at {written}/z0o0/0/items")
