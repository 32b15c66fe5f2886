"""The initial checkpoint must exist, be readable in the mode, and be stacked as the run expects."""

from __future__ import annotations

import pytest

from tests.checks.factory import DROP, FLAGSHIP, GOOD, ids, problems, spec
from xsft.base.acceptance import accept_problems, for_submission
from xsft.base.problems import Problem
from xsft.checks.checkpoint import check_checkpoint as check
from xsft.checks.facts import Facts
from xsft.spec.facts import CheckpointFacts, SavedArray
from xsft.spec.model import WorkloadSpec

PATH = "gs://my-bucket/deepseek3-671b/0/items"


def facts(status: str = "read", **fields: object) -> Facts:
    arrays = (SavedArray(path=("params", "params", "decoder", "decoder_norm", "scale")),)
    return Facts(checkpoint=CheckpointFacts(path=PATH, status=status, **{"arrays": arrays, **fields}))


def one(workload: WorkloadSpec, facts_read: Facts) -> Problem:
    (problem,) = problems(check, workload, facts_read)
    return problem


def test_checkpoint_without_listed_arrays_is_unread():
    for detail in ("", "_METADATA has more than 16,777,216 bytes and was not read"):
        reported = one(spec(), facts(arrays=(), detail=detail))
        assert (reported.id, reported.severity) == ("checkpoint-unread", "warning")
        assert (detail or "lists no arrays") in reported.message


def test_matching_checkpoint_has_no_problem():
    fitting = facts(use_ocdbt=False, use_zarr3=False, scan_layers=True, scan_recorded=True, param_scan_axis=0)
    assert ids(check, spec(FLAGSHIP), fitting) == set()
    assert ids(check, spec(FLAGSHIP), facts()) == set()
    assert ids(check, spec(model={"checkpoint": DROP})) == set()


def test_pathways_refuses_ocdbt_and_zarr3():
    for flag, name in (("use_ocdbt", "checkpoint-ocdbt"), ("use_zarr3", "checkpoint-zarr3")):
        reported = one(spec(FLAGSHIP), facts(**{flag: True}))
        assert (reported.id, reported.severity, reported.where) == (name, "error", "model.checkpoint")


def test_mcjax_reads_every_format():
    assert ids(check, spec(GOOD, mode="mcjax"), facts(use_ocdbt=True, use_zarr3=True)) == set()


def test_array_larger_than_the_concurrent_read_limit_is_reported():
    def of(dtype: str | None) -> Facts:
        return facts(arrays=(SavedArray(path=("params", "params", "wi"), piece=(16384, 126, 53248), dtype=dtype),))

    reported = one(spec(), of("bfloat16"))
    assert (reported.id, reported.kind) == ("checkpoint-piece-large", "disputable")
    assert "220 GB" in reported.message
    roomy_keys = {"maxtext": {"checkpoint_storage_concurrent_gb": 221}}
    roomy = spec(overrides=roomy_keys)
    assert (
        ids(check, roomy, of("bfloat16")) == ids(check, spec(), of(None)) == ids(check, spec(FLAGSHIP), of("bfloat16"))
    )
    assert ids(check, spec(), of(None)) == set()
    small_hosts = one(spec(tpu={"type": "v5litepod-256"}, overrides=roomy_keys), of("bfloat16"))
    assert "206 GB of memory" in small_hosts.message
    assert "xsft checkpoint convert" in small_hosts.fix


@pytest.mark.parametrize(
    ("scan", "release", "recorded", "expected"),
    [
        (None, "0.2.5", True, set()),
        (None, "0.2.5", False, {"checkpoint-scan"}),
        (None, "0.2.3", True, {"checkpoint-scan"}),
        (False, "0.2.3", True, set()),
        (False, "0.2.5", False, set()),
        (True, "0.2.5", True, {"checkpoint-scan"}),
    ],
)
def test_unscanned_checkpoint_is_refused_where_the_run_scans(
    scan: bool | None, release: str, recorded: bool, expected: set[str]
):
    workload = spec(model={"scan_layers": scan}, image={"maxtext": release})
    facts_read = facts(scan_layers=False, scan_recorded=recorded)
    assert ids(check, workload, facts_read) == expected


def test_scanned_checkpoint_is_refused_where_the_run_does_not_scan():
    reported = one(spec(model={"scan_layers": False}), facts(scan_layers=True, scan_recorded=True))
    assert (reported.id, reported.where, reported.fix) == (
        "checkpoint-scan",
        "model.scan_layers",
        "Set model.scan_layers: true.",
    )


def test_scan_axis_of_the_checkpoint_must_equal_that_of_the_run():
    scanned = {"scan_layers": True, "scan_recorded": True}
    reported = one(spec(FLAGSHIP), facts(**scanned, param_scan_axis=1))
    assert (reported.id, reported.where) == ("checkpoint-axis", "overrides.maxtext.param_scan_axis")
    assert "param_scan_axis: 1" in reported.fix
    default = one(spec(), facts(**scanned, param_scan_axis=0))
    assert "axis 1 (MaxText's default)" in default.message
    assert ids(check, spec(), facts(**scanned, param_scan_axis=1)) == set()
    assert ids(check, spec(), facts(**scanned)) == set()
    odd = spec(overrides={"maxtext": {"param_scan_axis": "x"}})
    assert ids(check, odd, facts(**scanned, param_scan_axis=1)) == set()


def test_a_torn_save_is_refused():
    reported = one(spec(), facts("torn", detail="manifest.ocdbt is missing, which is written last"))
    assert (reported.id, reported.severity) == ("checkpoint-torn", "error")
    assert "manifest.ocdbt" in reported.message


@pytest.mark.parametrize(
    ("status", "id_"), [("missing", "checkpoint-missing"), ("not-a-checkpoint", "checkpoint-invalid")]
)
def test_fix_corrects_a_path_at_a_wrong_level(status: str, id_: str):
    reported = one(spec(), facts(status, detail=f"not found; there is a checkpoint at {PATH}", near=PATH))
    assert (reported.id, reported.severity, reported.fix) == (id_, "error", f"Set model.checkpoint: {PATH}")
    bare = one(spec(), facts(status, detail="not found"))
    assert "not found" in bare.message
    assert "model_params" in bare.fix


def test_hugging_face_weights_give_the_convert_command():
    reported = one(
        spec(), facts("not-a-checkpoint", detail="it holds model.safetensors: these are Hugging Face weights")
    )
    assert (reported.id, "xsft checkpoint convert" in reported.fix) == ("checkpoint-invalid", True)


def test_missing_conversion_is_a_warning_and_refused_at_submission():
    converting = spec(model={"checkpoint": DROP, "hf": {"repo": "Qwen/Qwen3-0.6B"}})
    reported = one(converting, facts("missing", detail="not found"))
    assert (reported.id, reported.severity, reported.where) == ("checkpoint-to-convert", "warning", "model.hf")
    for problems_ in ((reported,), accept_problems((reported,), {reported.id: "it will be"})):
        assert next(p.severity for p in for_submission(problems_)) == "error"
    assert ids(check, converting, facts()) == set()


def test_unread_checkpoint_is_a_warning():
    for facts_read in (facts("unreadable", detail="no Google Cloud login was found. Log in."), Facts()):
        reported = one(spec(), facts_read)
        assert (reported.id, reported.severity) == ("checkpoint-unread", "warning")


def test_checkpoint_path_outside_bucket_and_image_is_refused():
    hub = one(spec(model={"checkpoint": "Qwen/Qwen3-0.6B"}), Facts())
    assert (hub.id, hub.severity) == ("checkpoint-path", "error")
    assert "model.hf" in hub.fix
    for elsewhere in ("/models/0/items", "./here", "gs://my-bucket/0/items"):
        assert "checkpoint-path" not in ids(check, spec(model={"checkpoint": elsewhere}), Facts())
    assert ids(check, spec(model={"checkpoint": "models/0/items"}, target="local"), Facts()) == set()


def test_unread_path_at_a_wrong_level_is_mentioned():
    unread = facts("unreadable", detail="no Google Cloud login was found.")
    level = "this path does not"
    assert level in one(spec(model={"checkpoint": "gs://my-bucket/model/0"}), unread).message
    assert level not in one(spec(model={"checkpoint": "gs://my-bucket/model/0/items"}), unread).message
