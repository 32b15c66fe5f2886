"""Problems of an export that are detected before it starts."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.hfmodels import SIZES
from tests.spec.test_export_inputs import INPUTS
from tests.stories import intent_of, spec_of, varied
from xsft.catalog.arrays import ArrayLayout, required
from xsft.checks.cpu_job import check_export_job, check_exported_weights
from xsft.spec.export_inputs import ExportInputs
from xsft.spec.facts import CheckpointFacts, SavedArray
from xsft.weights.estimates import ExportEstimate
from xsft.weights.export_record import ExportPlan

KEYS = tuple(f"{key}={value}" for key, value in SIZES.items())
NEEDS = ExportEstimate(memory=2**30, disk=2**30)


def saved(model: str, keys: dict[str, Any]) -> CheckpointFacts:
    wanted = required(model, keys, layout=ArrayLayout())
    assert wanted is not None
    arrays = tuple(
        SavedArray(path=("params", "params", *name.split(".")), shape=shape) for name, shape in wanted.arrays.items()
    )
    return CheckpointFacts(path="/out/tiny/checkpoints/2/model_params", status="read", arrays=arrays)


def ids(inputs: ExportInputs, checkpoint_facts: CheckpointFacts) -> list[str]:
    return [problem.id for problem in check_exported_weights(inputs, checkpoint_facts)]


def test_export_of_the_trained_model_has_no_problem() -> None:
    assert ids(replace(INPUTS, keys=KEYS), saved("qwen3-0.6b", SIZES)) == []
    assert ids(INPUTS, CheckpointFacts(path="/x", status="unreadable")) == []


def test_weights_of_another_model_are_refused_with_its_name() -> None:
    (problem,) = check_exported_weights(INPUTS, saved("qwen3-4b", {}))
    assert problem.id == "export-other-model"
    assert "does not hold qwen3-0.6b, which tiny trained" in problem.message
    assert "It holds qwen3-4b" in problem.message


def test_incomplete_checkpoint_is_refused() -> None:
    (problem,) = check_exported_weights(INPUTS, CheckpointFacts(path="/x", status="torn", detail="no commit"))
    assert (problem.id, problem.message) == ("export-torn", "/x is not complete: no commit")


def pod(*, inputs: ExportInputs = INPUTS, name: str = "tiny-export", **changes: Any) -> list[str]:
    plan = ExportPlan(
        run_name=name, output="gs://b/runs", inputs=inputs, first="", directory="", folder="", argv=(), trainer_argv=()
    )
    run = intent_of(varied(spec_of("gemma2_ultrachat"), changes)).run
    return [problem.id for problem in check_export_job(plan, run, NEEDS)]


@pytest.mark.parametrize(("secrets", "found"), [({}, ["export-token-missing"]), ({"hf_token": {"secret": "hf"}}, [])])
def test_export_to_the_hub_needs_a_token(secrets: dict[str, Any], found: list[str]) -> None:
    assert pod(inputs=replace(INPUTS, hub="me/tiny"), secrets=secrets) == found
    assert pod(secrets=secrets) == []


def test_export_refuses_long_names_and_models_without_a_machine() -> None:
    assert pod(name="a" * 39) == ["export-name"]
    plan = ExportPlan(
        run_name="a", output="", inputs=INPUTS, first="", directory="", folder="", argv=(), trainer_argv=()
    )
    run = intent_of(spec_of("gemma2_ultrachat")).run
    assert [problem.id for problem in check_export_job(plan, run, None)] == ["export-size"]
    large = ExportEstimate(memory=2**50, disk=1)
    assert [problem.id for problem in check_export_job(plan, run, large)] == ["export-machine"]
