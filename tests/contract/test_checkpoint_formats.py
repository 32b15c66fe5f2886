"""Checkpoints that MaxText's converter and SFT trainer wrote: how each is described, and what may start from it.

One process in MaxText's environment writes them all, sharded over four devices; it is killed amid four more saves.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tests import hfmodels
from tests.checks.factory import FLAGSHIP, GOOD, ids, merged, spec
from tests.maxtext import worker
from xsft.checks import checkpoint
from xsft.checks.facts import Facts
from xsft.records.record_files import record_store
from xsft.spec.facts import CheckpointFacts
from xsft.spec.model import WorkloadSpec
from xsft.weights.checkpoint_report import CheckpointReport
from xsft.weights.inspect import inspect_checkpoint
from xsft.weights.read_checkpoint import read_checkpoint

pytestmark = [pytest.mark.contract, pytest.mark.maxtext]

WRITER = Path(__file__).parent / "write_checkpoints.py"


class Written(Struct, frozen=True, kw_only=True):
    root: Path
    held: Mapping[str, Mapping[str, Any]]
    """What the writer says of each folder: parameters, bytes of their values, dtypes."""
    largest: Mapping[str, float]
    """Of the weights that MaxText read, by the dtype they are stored in."""
    rank: int
    """Of the adapters in a run of rank 8 that took those of rank 4."""

    def look(self, name: str) -> CheckpointFacts:
        checkpoint_facts = read_checkpoint(str(self.root / name))
        assert checkpoint_facts.status == "read", checkpoint_facts.detail
        return checkpoint_facts

    def report(self, name: str) -> CheckpointReport:
        return inspect_checkpoint(str(self.root / name), store=record_store({"HOME": str(self.root)}))


@pytest.fixture(scope="module")
def written(maxtext_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Written:
    root = tmp_path_factory.mktemp("checkpoints")
    with worker(maxtext_python, WRITER) as started:
        answers = {part: started.ask({"folder": str(root), "part": part}) for part in PARTS}
    # the worker was killed: what stood still is torn
    arrays_of = {**answers["converted"], **answers["trained"], **answers["adapters"]}
    return Written(root=root, held=arrays_of, largest=answers["largest"], rank=answers["rank"]["rank"])


PARTS = ("converted", "trained", "adapters", "largest", "rank", "torn")


class Expected(Struct, frozen=True, kw_only=True):
    """The expected description of a checkpoint."""

    family: str
    zarr3: bool = False
    ocdbt: bool = False
    scan: bool = True
    axis: int = 1
    layout: str = "items"

    @property
    def modes(self) -> tuple[str, ...]:
        return ("mcjax",) if self.zarr3 or self.ocdbt else ("mcjax", "pathways")


CONVERTED = {
    "qwen3-z0o0": Expected(family="qwen3"),
    "qwen3-z0o1": Expected(family="qwen3", ocdbt=True),
    "qwen3-z1o0": Expected(family="qwen3", zarr3=True),
    "qwen3-z1o1": Expected(family="qwen3", zarr3=True, ocdbt=True),
    "qwen3-axis0": Expected(family="qwen3", axis=0),
    "qwen3-unscanned": Expected(family="qwen3", scan=False),
    "qwen3-int8": Expected(family="qwen3"),
    "qwen3-float8": Expected(family="qwen3", zarr3=True, ocdbt=True),
    "gemma2-z0o0": Expected(family="gemma2"),
    "gemma2-unscanned": Expected(family="gemma2", zarr3=True, ocdbt=True, scan=False),
    "mixtral-z0o1": Expected(family="mixtral", ocdbt=True),
    "mixtral-unscanned": Expected(family="mixtral", zarr3=True, scan=False),
}
TRAINED = {
    ("qwen3", "model_params"): Expected(family="qwen3", ocdbt=True, layout="model_params"),
    ("qwen3", "optimizer_state"): Expected(family="qwen3", ocdbt=True, layout="optimizer_state"),
    ("gemma2-unscanned", "model_params"): Expected(family="gemma2", ocdbt=True, scan=False, layout="model_params"),
    ("gemma2-unscanned", "optimizer_state"): Expected(
        family="gemma2", ocdbt=True, scan=False, layout="optimizer_state"
    ),
    ("mixtral-pathways", "model_params"): Expected(family="mixtral", layout="model_params"),
    ("mixtral-pathways", "optimizer_state"): Expected(family="mixtral", layout="optimizer_state"),
    ("lora", "model_params"): Expected(family="qwen3", ocdbt=True, layout="adapters"),
}
ALL = {
    **{f"converted/{name}/0/items": expected for name, expected in CONVERTED.items()},
    **{f"trained/{run}/checkpoints/2/{item}": expected for (run, item), expected in TRAINED.items()},
}


def test_every_written_checkpoint_is_tested(written: Written) -> None:
    assert set(written.held) == set(ALL)


@pytest.mark.parametrize("name", ALL)
def test_each_format_is_identified(written: Written, name: str) -> None:
    expected, arrays_of, report = ALL[name], written.held[name], written.report(name)
    assert (report.status, report.detail, report.layout) == ("complete", "", expected.layout)
    assert report.step == (0 if "converted" in name else 2)
    assert (report.use_zarr3, report.use_ocdbt, report.modes) == (expected.zarr3, expected.ocdbt, expected.modes)
    assert report.scan_layers is expected.scan
    assert report.param_scan_axis == (expected.axis if expected.scan else None)
    if expected.layout != "optimizer_state":
        assert report.dtypes == tuple(arrays_of["dtypes"])
    assert report.parameters == arrays_of["parameters"]


@pytest.mark.parametrize("name", ALL)
def test_no_value_of_an_array_is_read(written: Written, name: str) -> None:
    """What is read goes with the number of arrays, however large they are."""
    report = written.report(name)
    assert report.bytes is not None
    assert report.bytes_read < 2000 + 1500 * report.arrays
    if ALL[name].layout in ("items", "model_params"):
        assert report.bytes_read < report.bytes / 10


def test_the_converter_records_scanning_and_the_trainer_does_not(written: Written) -> None:
    assert written.look("converted/qwen3-unscanned/0/items").scan_recorded
    assert not written.look("trained/gemma2-unscanned/checkpoints/2/model_params").scan_recorded


def test_maxtext_casts_integers_and_fp8_silently(written: Written) -> None:
    """Which is why `checkpoint-dtype` is an error: these weights are noise of a standard deviation of 50."""
    assert written.largest == {"int8": 128, "float8": pytest.approx(224, abs=32)}


def test_maxtext_takes_adapters_of_another_rank_silently(written: Written) -> None:
    assert written.rank == 4


TORN = {
    "folder-arrays": "2.orbax-checkpoint-tmp/model_params.orbax-checkpoint-tmp",
    "folder-commit": "2.orbax-checkpoint-tmp/model_params",
    "bucket-arrays": "2/model_params",
    "bucket-commit": "2/model_params",
}


@pytest.mark.parametrize("save", TORN)
def test_a_save_that_was_killed_is_torn(written: Written, save: str) -> None:
    folder = written.root / "torn" / save / "checkpoints"
    for path in (folder / TORN[save], (folder / TORN[save]).parent):
        checkpoint_facts = read_checkpoint(str(path))
        assert checkpoint_facts.status == "torn"
        assert ids(checkpoint.check_checkpoint, tiny("qwen3"), Facts(checkpoint=checkpoint_facts)) == {
            "checkpoint-torn"
        }
        assert ids(checkpoint.check_weights, tiny("qwen3"), Facts(checkpoint=checkpoint_facts)) == set()
    above = read_checkpoint(str(folder))
    assert (above.status, above.near) == ("torn", None)


def test_a_checkpoint_that_lost_a_file_is_torn(written: Written, tmp_path: Path) -> None:
    for name, deleted in (
        ("z0o1", "manifest.ocdbt"),
        ("z0o0", "params.params.token_embedder.embedding"),
        ("z1o1", "d"),
    ):
        copy = tmp_path / name / "0"
        shutil.copytree(written.root / "converted" / f"qwen3-{name}" / "0", copy)
        (copy / "items" / deleted).rename(copy / "elsewhere")
        assert read_checkpoint(str(copy / "items")).status == "torn", deleted


SIZES = {**hfmodels.SIZES, "base_num_decoder_layers": 6}
FAMILIES = {"qwen3": "qwen3-0.6b", "gemma2": "gemma2-2b", "mixtral": "mixtral-8x7b"}


def tiny(family: str, *, scan: bool = True, axis: int = 1, mode: str = "mcjax") -> WorkloadSpec:
    """A workload for the models that were written."""
    base = GOOD if mode == "mcjax" else merged(FLAGSHIP, {"overrides": {"maxtext": {"param_scan_axis": axis}}})
    experts = {"num_experts": 4, "base_moe_mlp_dim": 128} if family == "mixtral" else {}
    return spec(
        base,
        model={"name": FAMILIES[family], "scan_layers": scan},
        overrides={"maxtext": {**SIZES, **experts, "param_scan_axis": axis}},
    )


WORKLOADS = {
    f"{family}-{'axis' + str(axis) if scan else 'unscanned'}-{mode}": (family, scan, axis, mode)
    for family in FAMILIES
    for scan, axis in ((True, 1), (True, 0), (False, 1))
    for mode in ("mcjax", "pathways")
}


def wrong(name: str, family: str, scan: bool, axis: int, mode: str) -> Iterator[str]:
    """The id of everything in which checkpoint and workload differ."""
    expected = ALL[name]
    if mode == "pathways":
        yield from ("checkpoint-ocdbt",) if expected.ocdbt else ()
        yield from ("checkpoint-zarr3",) if expected.zarr3 else ()
    if expected.layout in ("optimizer_state", "adapters"):
        yield {"optimizer_state": "checkpoint-optimizer", "adapters": "checkpoint-adapters"}[expected.layout]
        return
    if "int8" in name or "float8" in name:
        yield "checkpoint-dtype"
    if family != expected.family:
        yield "checkpoint-model"
    if scan != expected.scan:
        yield "checkpoint-scan"
    elif scan and axis != expected.axis:
        yield "checkpoint-axis"


@pytest.mark.parametrize("name", ALL)
def test_each_wrong_pairing_has_its_own_id_and_each_right_pairing_none(written: Written, name: str) -> None:
    facts = Facts(checkpoint=written.look(name))
    for workload, needs in WORKLOADS.items():
        family, scan, axis, mode = needs
        workload_spec = tiny(family, scan=scan, axis=axis, mode=mode)
        reported = ids(checkpoint.check_checkpoint, workload_spec, facts) | ids(
            checkpoint.check_weights, workload_spec, facts
        )
        assert reported == set(wrong(name, *needs)), workload


@pytest.mark.parametrize("key", [key for key in SIZES if key != "override_model_config"])
@pytest.mark.parametrize("name", ["converted/qwen3-z1o1/0/items", "trained/qwen3/checkpoints/2/model_params"])
def test_checks_compare_every_size_of_an_override(written: Written, name: str, key: str) -> None:
    other = spec(overrides={"maxtext": {**SIZES, key: 2 * SIZES[key]}})
    assert ids(checkpoint.check_weights, other, Facts(checkpoint=written.look(name))) == {"checkpoint-model"}


@pytest.mark.parametrize(
    ("wrong_path", "meant"),
    [
        ("converted/qwen3-z0o0", "converted/qwen3-z0o0/0/items"),
        ("converted/qwen3-z0o0/0", "converted/qwen3-z0o0/0/items"),
        ("converted/qwen3-z0o0/items", "converted/qwen3-z0o0/0/items"),
        ("converted/qwen3-z0o0/0/model_params", "converted/qwen3-z0o0/0/items"),
        ("converted/qwen3-z0o0/0/items/_METADATA", "converted/qwen3-z0o0/0/items"),
        ("converted/qwen3-z0o0/0/items/params.params.token_embedder.embedding", "converted/qwen3-z0o0/0/items"),
        ("trained/qwen3", "trained/qwen3/checkpoints/2/model_params"),
        ("trained/qwen3/checkpoints", "trained/qwen3/checkpoints/2/model_params"),
        ("trained/qwen3/checkpoints/2", "trained/qwen3/checkpoints/2/model_params"),
        ("trained/qwen3/checkpoints/3/model_params", "trained/qwen3/checkpoints/2/model_params"),
        ("trained/qwen3/checkpoints/2/items", "trained/qwen3/checkpoints/2/model_params"),
        ("trained/qwen3/checkpoints/2/model_params/d", "trained/qwen3/checkpoints/2/model_params"),
    ],
)
def test_a_path_at_a_wrong_level_is_reported_with_the_right_path(written: Written, wrong_path: str, meant: str) -> None:
    checkpoint_facts = read_checkpoint(str(written.root / wrong_path))
    assert checkpoint_facts.status in {"not-a-checkpoint", "missing"}
    assert checkpoint_facts.near == str(written.root / meant)
