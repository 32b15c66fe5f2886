"""Memory checks; they never contradict the compiler's verdicts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checks.factory import DROP, FLAGSHIP, GOOD, ids, problems, run_of, spec
from xsft.catalog.data import toml
from xsft.catalog.tpu import parse_tpu_type
from xsft.checks.facts import Facts
from xsft.checks.memory import _check_gathered_experts, check, check_size
from xsft.checks.mesh import check_mesh as mesh
from xsft.fit.translate import InvalidStep
from xsft.fit.verdict import CompiledStep, DoesNotFit, Fits, Invalid, KnownStep, Marginal, NearStep, Verdict
from xsft.trainer.maxtext import trainer_keys

FITS = Fits(peak_gib=2.5, sum_gib=2.75, limit_gib=31.24, by=None)
ROWS: list[dict[str, Any]] = toml("fit.toml")["rows"]


def keys_of(row: dict[str, Any]) -> dict[str, Any]:
    named = {key: value for name in row["sets"] for key, value in toml("fit.toml")["sets"][name].items()}
    return {**named, **row.get("keys", {})}


def workload_of(row: dict[str, Any]):
    overrides = {key: value for key, value in keys_of(row).items() if key != "per_device_batch_size"}
    return spec(
        {**GOOD, "train": {"steps": 500, "per_device_batch_size": keys_of(row)["per_device_batch_size"]}},
        tpu={"type": row["tpu"], "num_slices": row["slices"]},
        model={"name": row["model"], "tokenizer": DROP},
        overrides={"maxtext": overrides},
    )


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_every_compiled_run_gets_its_own_verdict(row: dict[str, Any]):
    expected = {"fits": "fit-known", "marginal": "fit-marginal", "no": "fit-refused"}[row["verdict"]]
    assert (expected, row["verdict"]) in {(p.id, p.fit) for p in problems(check, workload_of(row))}


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_no_rule_refuses_what_the_compiler_accepted(row: dict[str, Any]):
    run = run_of(workload_of(row))
    keys = trainer_keys(run)
    assert run.model is not None
    assert run.slice is not None
    bound = [*check_size(run, run.model, run.slice, keys), *_check_gathered_experts(run.model, run.slice, run, keys)]
    if row["verdict"] != "no":
        assert bound == []
        assert not {p for p in problems(mesh, workload_of(row)) if p.severity == "error"}
    if row["id"] == "deepseek3-671b-x2-defaults":
        assert [p.id for p in bound] == ["experts-gathered"]


def test_flagship_fits_and_its_scan_axis_is_noted():
    fits, axis = sorted(problems(check, spec(FLAGSHIP)), key=lambda p: p.id)
    assert (fits.id, fits.severity, axis.id, axis.severity) == ("fit-known", "note", "param-scan-axis", "note")
    assert "30.22" in fits.message


def qwen(size: str, *, tokens: int, tpu: str = "v6e-8"):
    model = {"name": f"qwen3-{size}", "tokenizer": DROP}
    return spec(model=model, tpu={"type": tpu}, train={"max_target_length": tokens})


def test_fewer_tokens_than_a_fitting_row_fit():
    (problem,) = problems(check, qwen("8b", tokens=1024))
    assert (problem.id, problem.severity) == ("fit-known", "note")
    assert "this run with 2,048 tokens (row qwen3-8b-v6e-8)" in problem.message
    assert "It fits. Fewer tokens need less memory." in problem.message


def test_more_tokens_than_a_refused_row_do_not_fit():
    (problem,) = problems(check, qwen("14b", tokens=3000))
    assert (problem.id, problem.severity) == ("fit-refused", "error")
    assert "It does not fit. More tokens need more memory." in problem.message


@pytest.mark.parametrize(("tokens", "message"), [(1024, "fit-unknown"), (2048, "fit-refused")])
def test_fix_names_the_slice_where_the_run_fits(tokens: int, message: str):
    (problem,) = problems(check, qwen("14b", tokens=tokens))
    assert problem.id == message
    assert problem.fix.startswith("It fits v6e-16 × 1 with the same keys. ")
    (problem,) = problems(check, qwen("32b", tokens=1024, tpu="v6e-8"))
    assert (problem.id, "It fits v6e-32 × 1" in problem.fix) == ("does-not-fit", True)


def test_fitting_run_has_no_fix():
    (problem,) = problems(check, qwen("8b", tokens=2048))
    assert (problem.id, problem.fix) == ("fit-known", "")


def test_run_whose_state_exceeds_memory_does_not_fit():
    big = spec(model={"name": "llama3.1-70b", "tokenizer": DROP}, train={"max_target_length": 4096})
    (problem,) = problems(check, big)
    assert (problem.id, problem.severity, problem.fit) == ("does-not-fit", "error", "no")
    assert "16 bytes" in problem.message
    half = spec(big.model_dump(exclude_unset=True), train={"weight_dtype": "bfloat16"}, tpu={"type": "v6e-32"})
    assert ids(check, half) == {"fit-unknown"}


def test_more_slices_help_only_with_a_dcn_axis():
    base = {**FLAGSHIP, "parallelism": {"ici": {"fsdp": 16, "expert": 16}}}
    assert "does-not-fit" in ids(check, spec(base, overrides={"maxtext": {"param_scan_axis": DROP}}))


def test_experts_are_gathered_without_an_expert_axis():
    base = {**FLAGSHIP, "parallelism": {"ici": {"fsdp": 256}, "dcn": {"fsdp": 2}}}
    (problem,) = [p for p in problems(check, spec(base)) if p.id == "experts-gathered"]
    assert problem.severity == "error"
    llama4 = {"name": "llama4-17b-128e", "tokenizer": DROP}
    inferred = spec(tpu={"type": "v6e-256"}, model=llama4)
    assert [p.severity for p in problems(check, inferred) if p.id == "experts-gathered"] == ["warning"]


@pytest.mark.parametrize(
    ("tokens", "release", "message"),
    [
        (1024, "0.2.5", None),
        (1536, "0.2.5", "never compiled"),
        (1024, "0.2.4", "for MaxText 0.2.5, and the image has 0.2.4"),
    ],
)
def test_place_that_requires_a_verdict_refuses_unknown_fit(tokens: int, release: str, message: str | None):
    image = {**GOOD["image"], "maxtext": release}
    workload = spec(place={**GOOD["place"], "fit": "required"}, train={"max_target_length": tokens}, image=image)
    required_fits = [p for p in problems(check, workload) if p.id == "fit-required"]
    assert [(p.severity, p.where) for p in required_fits] == ([("error", "place")] if message else [])
    assert all(message in p.message for p in required_fits if message)
    assert "fit-required" not in ids(check, spec(train={"max_target_length": tokens}, image=image))


def test_refused_fit_is_reported_once_if_a_verdict_is_required():
    large = {"place": {**GOOD["place"], "fit": "required"}, "model": {"name": "qwen3-14b", "tokenizer": DROP}}
    assert ids(check, spec(**large, train={"max_target_length": 2048})) == {"fit-refused"}


def test_an_uncompiled_run_is_not_claimed_to_fit():
    (problem,) = problems(check, spec(train={"max_target_length": 1536}))
    assert (problem.id, problem.severity, problem.fit) == ("fit-unknown", "note", "likely")
    assert problem.message == (
        "This run was never compiled for v6e-8 × 1: at least 1.1 of 31.2 GiB per chip by arithmetic, about 2.7 with "
        "activations; compiled for v6e-8 × 1, 1,024 tokens, it took 2.0. It should fit."
    )


def test_a_batch_that_may_not_fit_is_a_warning():
    (problem,) = problems(check, spec(train={"per_device_batch_size": 24, "max_target_length": 2048}))
    assert (problem.id, problem.severity, problem.fit) == ("fit-unknown", "warning", "doubtful")
    assert problem.message.endswith(" It may not fit.")


def near(tpu: str, num_slices: int, *, tokens: int = 8192) -> Facts:
    entry = CompiledStep(verdict=FITS, tokens=tokens, versions={}, made_at="")
    return Facts(near_fits=(NearStep(entry=entry, tpu=parse_tpu_type(tpu), num_slices=num_slices),))


@pytest.mark.parametrize(
    ("facts", "fit"),
    [
        (near("v6e-4", 1), "likely"),
        (near("v6e-16", 1), "doubtful"),
        (near("v6e-4", 2), "doubtful"),
        (near("v6e-4", 1, tokens=4096), "doubtful"),
    ],
    ids=["fewer chips", "more chips", "more slices", "fewer tokens"],
)
def test_a_compiled_step_near_the_run_decides_only_for_runs_that_need_less(facts: Facts, fit: str):
    large = spec(train={"per_device_batch_size": 24, "max_target_length": 8192})
    (problem,) = problems(check, large, facts)
    assert problem.fit == fit
    assert "it took 2.5" in problem.message


def test_a_refusal_can_be_accepted():
    for large in (qwen("14b", tokens=2048), qwen("32b", tokens=1024)):
        (problem,) = problems(check, large)
        assert (problem.fit, problem.can_be_accepted) == ("no", True)


def test_changed_architecture_is_not_checked():
    assert ids(check, spec(overrides={"maxtext": {"override_model_config": True}})) == set()


def test_local_run_is_compared_with_the_memory_of_this_machine():
    small = Facts(memory_gib=8.0)
    large = Facts(memory_gib=64.0)
    assert ids(check, spec(target="local"), large) == set()
    assert ids(check, spec(target="local"), small) == {"local-memory"}
    assert ids(check, spec(target="local")) == set(), "unknown memory is no evidence"


def compiled(verdict: Verdict, *, tokens: int = 1536, maxtext: str = "0.2.5") -> Facts:
    entry = CompiledStep(verdict=verdict, tokens=tokens, versions={"maxtext": maxtext}, made_at="2026-11-23T03:00:00Z")
    return Facts(fit=KnownStep(entry=entry, derived=tokens != 1536))


NO = DoesNotFit(needed_gib=33.5, limit_gib=31.24, told_by="compiler")
INVALID = Invalid(because=InvalidStep(where="parallelism", message="3 does not divide 512.", fix="Take a divisor."))
UNCOMPILED = {"train": {"max_target_length": 1536}}
"""A run that the catalogue does not have."""


@pytest.mark.parametrize(
    ("verdict", "id", "severity", "where", "fit"),
    [
        (FITS, "fit-known", "note", "tpu", "fits"),
        (Marginal(peak_gib=28.0, sum_gib=33.0, limit_gib=31.24, by=None), "fit-marginal", "warning", "tpu", "marginal"),
        (NO, "fit-refused", "error", "tpu", "no"),
        (INVALID, "fit-invalid", "error", "parallelism", "invalid"),
    ],
    ids=["fits", "marginal", "does not fit", "invalid"],
)
def test_stored_verdict_is_used(verdict: Verdict, id: str, severity: str, where: str, fit: str):
    (problem,) = problems(check, spec(**UNCOMPILED), compiled(verdict))
    assert (problem.id, problem.severity, problem.where, problem.fit) == (id, severity, where, fit)
    assert problem.message.startswith("xsft fit compiled this run on 2026-11-23: ")


def test_verdict_of_another_length_is_explained():
    (yes,) = problems(check, spec(**UNCOMPILED), compiled(FITS, tokens=4096))
    assert "this run with 4,096 tokens on 2026-11-23: 2.50 GiB at the peak" in yes.message
    assert yes.message.endswith("It fits. Fewer tokens need less memory.")
    (no,) = problems(check, spec(**UNCOMPILED), compiled(NO, tokens=1024))
    assert no.message.endswith("It does not fit. More tokens need more memory.")


def test_catalogue_outranks_a_stored_verdict():
    (problem,) = problems(check, spec(), compiled(NO, tokens=1024))
    assert (problem.id, "row qwen3-0.6b-v6e-8" in problem.message) == ("fit-known", True)


CATALOGUED = {"model": {"name": "qwen3-14b", "tokenizer": DROP}, "train": {"max_target_length": 2048}}


@pytest.mark.parametrize("changes", [UNCOMPILED, CATALOGUED])
def test_refused_fit_of_another_release_is_only_a_warning(changes: dict[str, Any]):
    older = spec(**changes, image={"maxtext": "0.2.4"})
    (problem,) = problems(check, older, compiled(NO))
    assert (problem.id, problem.severity) == ("fit-refused", "warning")
    assert problem.message.endswith("It was compiled with MaxText 0.2.5; the image has 0.2.4.")
