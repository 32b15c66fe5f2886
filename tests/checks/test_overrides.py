"""Keys set through overrides follow the rules of their fields."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checks.factory import DROP, GOOD, merged, run_of, spec
from tests.everything import OTHER
from xsft.base.problems import Problem
from xsft.checks.facts import Facts
from xsft.checks.overrides import PATHS, apply_overrides
from xsft.checks.subjects import check_run
from xsft.checks.trainer_keys import FIELD_OF, IDENTITY
from xsft.spec.model import WorkloadSpec
from xsft.trainer.maxtext import trainer_keys

LORA = {"lora.enable_lora": True, "lora.lora_rank": 16, "lora.lora_alpha": 32.0}
BF16 = {"train": {"weight_dtype": "bfloat16"}}


def overriding(keys: dict[str, Any], **changes: Any) -> WorkloadSpec:
    return spec(overrides={"maxtext": keys}, **changes)


def said(keys: dict[str, Any], **changes: Any) -> tuple[Problem, ...]:
    return apply_overrides(run_of(overriding(keys, **changes))).problems


def ids(workload: WorkloadSpec) -> set[str]:
    return {p.id for p in check_run(run_of(workload), Facts())}


def test_shuffle_seed_override_is_refused_from_the_first_attempt() -> None:
    """A run that may not be restarted has none on its command line, and its next attempt would be refused."""
    once = {"restarts": {"max": 0}}
    (problem,) = said({"data_shuffle_seed": 5}, **once)
    assert (problem.id, problem.where) == ("override-has-field", "overrides.maxtext.data_shuffle_seed")
    assert problem.fix == "Remove the override and set data.shuffle_seed."
    assert said({"data_shuffle_seed": 5}, restarts={"max": 0, "data": "repeat"}) == ()


def test_good_overrides_have_no_problems() -> None:
    assert said({"remat_policy": "full", "learning_rate": 1e-5, "eval_interval": -1, "profiler": ""}) == ()
    assert said({"jax_cache_dir": ""}) == ()
    assert said(LORA) == ()
    assert said({"ici_fsdp_parallelism": 8, "ici_context_usp_ulysses_parallelism": 1}) == ()


@pytest.mark.parametrize("missing", ["lora.lora_rank", "lora.lora_alpha"])
def test_lora_needs_its_rank_and_alpha(missing: str) -> None:
    (problem,) = said({key: value for key, value in LORA.items() if key != missing})
    assert (problem.id, problem.severity, problem.where) == ("missing-key", "error", f"overrides.maxtext.{missing}")
    assert problem.fix == f"Add overrides.maxtext.{missing}."


def test_lora_without_rank_and_alpha_reports_both() -> None:
    assert [p.where for p in said({"lora.enable_lora": "true"})] == [
        "overrides.maxtext.lora.lora_rank",
        "overrides.maxtext.lora.lora_alpha",
    ]


OUTSIDE: dict[str, Any] = {
    "lora.lora_rank": 0,
    "lora.lora_alpha": 0,
    "lora.lora_weight_qtype": "int3",
    "learning_rate": 0,
    "max_target_length": 0,
    "gradient_accumulation_steps": 0,
    "weight_dtype": "float8",
    "profiler": "nsys",
    "num_epoch": 0,
    "packing": "maybe",
    "data_shuffle_seed": "soon",
    "eval_per_device_batch_size": -1,
    "eval_steps": -2,
    "hf_eval_split": 3,
    "ici_fsdp_parallelism": -2,
    "dcn_data_parallelism": 0.5,
}


@pytest.mark.parametrize("key", OUTSIDE)
def test_override_out_of_the_range_of_its_field_is_refused(key: str) -> None:
    (problem,) = said({**LORA, "eval_interval": 10, key: OUTSIDE[key]})
    assert problem.severity == "error"
    assert problem.where == f"overrides.maxtext.{key}"


SECTIONS = {"lora": {"rank": 1, "alpha": 1.0}, "eval": {"interval": 1}, "train": {"max_target_length": DROP}}
ON = merged(GOOD, {**SECTIONS, "tpu": {"num_slices": 4}})
"""Every section is on."""

RENDERED = {
    *("eval_interval", "eval_steps", "eval_data_columns", "hf_path", "train_data_columns", "train_split"),
    *("lora.lora_alpha", "lora.lora_rank", "per_device_batch_size", "data_shuffle_seed"),
}
"""Keys that are on the command line whenever their section is on, so that an override would win over the field; the
seed is on that of a later attempt.
"""


@pytest.mark.parametrize("key", sorted(set(PATHS) - RENDERED))
def test_override_counts_as_its_field(key: str) -> None:
    """The checks see the run of a file that has the field instead, and the trainer gets the same keys."""
    path = PATHS[key]
    value = 4 if path.startswith("parallelism.") else OTHER[path] or "xplane"
    by_field = WorkloadSpec.model_validate(merged(ON, _tree(path, value)))
    by_override = WorkloadSpec.model_validate(merged(ON, {"overrides": {"maxtext": {key: value}}}))
    overridden = apply_overrides(run_of(by_override))
    assert overridden.problems == ()
    assert overridden.run.spec.model_copy(update={"overrides": by_field.overrides}) == by_field
    ours, theirs = trainer_keys(run_of(by_override)), trainer_keys(run_of(by_field))
    differing = {name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)}
    assert differing <= {"dcn_data_parallelism"}  # which a field of another axis sets to 1


@pytest.mark.parametrize("key", sorted(RENDERED))
def test_key_that_is_always_rendered_cannot_be_overridden(key: str) -> None:
    (problem,) = said({key: OTHER[PATHS[key]]}, lora=ON["lora"], eval=ON["eval"])
    assert (problem.id, problem.where) == ("override-has-field", f"overrides.maxtext.{key}")


def _tree(path: str, value: Any) -> dict[str, Any]:
    first, _, below = path.partition(".")
    return {first: _tree(below, value) if below else value}


def test_checks_see_values_of_overrides() -> None:
    """Each of these reads the field, and was blind to the override."""
    rows = {"rows": 800, "packing": DROP}
    assert "packing-shortens" in ids(overriding({}, data=rows, train={"steps": 100}))
    assert "packing-shortens" not in ids(overriding({"packing": False}, data=rows, train={"steps": 100}))
    assert "steps-beyond-data" not in ids(overriding({"num_epoch": 9}, data=rows, train={"steps": 700}))
    (problem,) = (p for p in _problems({"hf_eval_split": "x[:1%]", "eval_interval": 5}) if p.id == "split-slice")
    assert problem.where == "overrides.maxtext.hf_eval_split"
    (problem,) = (p for p in _problems({"hf_train_files": "./x.json"}) if p.id == "local-path")
    assert problem.where == "overrides.maxtext.hf_train_files"


def _problems(keys: dict[str, Any]) -> tuple[Problem, ...]:
    return check_run(run_of(overriding(keys)), Facts())


def test_evaluation_turned_on_by_an_override_uses_the_data_fields() -> None:
    """They were dropped: MaxText would have evaluated on UltraChat's test_sft."""
    keys = trainer_keys(run_of(overriding({"eval_interval": 50}, data={"hf_eval_split": "test_gen"})))
    assert (keys["eval_interval"], keys["hf_eval_split"], keys["eval_data_columns"]) == (50, "test_gen", ["messages"])
    off = trainer_keys(run_of(overriding({"eval_interval": -1}, data={"hf_eval_split": "test_gen"})))
    assert "hf_eval_split" not in off


def test_lora_keys_without_lora_train_the_whole_model() -> None:
    (problem,) = said({"lora.lora_rank": 16})
    assert (problem.id, problem.where) == ("lora-off", "overrides.maxtext.lora.lora_rank")
    assert {p.id for p in said({**LORA, "lora.enable_lora": False})} == {"lora-off"}
    assert said({"lora.enable_lora": False, "lora.lora_rank": 0, "lora.lora_module_path": ""}) == ()
    assert said({"lora.lora_tile_size": 64}, lora={"rank": 8, "alpha": 16}) == ()


def test_a_lora_section_may_be_completed_by_overrides_and_not_contradicted() -> None:
    section = {"rank": 8, "alpha": 16}
    assert said({"lora.lora_module_path": "decoder/.*"}, lora=section) == ()
    assert [p.id for p in said({"lora.lora_rank": 4}, lora=section)] == ["override-has-field"]
    assert [p.id for p in said({"lora.enable_lora": False}, lora=section)] == ["override-has-field"]


@pytest.mark.parametrize("key", sorted(IDENTITY))
def test_overrides_of_identity_keys_are_refused_even_if_the_field_is_unset(key: str) -> None:
    reported = [p for p in said({key: 1}) if p.id == "override-has-field"]
    assert [p.where for p in reported] == [f"overrides.maxtext.{key}"]
    assert FIELD_OF[key] in reported[0].fix


def test_override_of_a_key_that_its_field_sets_is_refused() -> None:
    assert [p.id for p in said({"learning_rate": 2e-5}, train={"learning_rate": 1e-5})] == ["override-has-field"]
    assert said({"learning_rate": 2e-5}) == ()


def test_evaluation_may_be_switched_off_by_an_override_unless_there_is_an_eval_section() -> None:
    assert said({"eval_interval": -1}) == ()
    assert [p.id for p in said({"eval_interval": -1}, eval={"interval": 10})] == ["override-has-field"]


def test_keys_of_a_local_run_may_be_overridden() -> None:
    assert said({"hardware": "gpu"}, target="local") == ()


def test_override_of_hf_access_token_is_refused_once() -> None:
    for release in ("0.1.0", "0.2.5"):
        workload = overriding({"hf_access_token": "x"}, image={"maxtext": release})
        assert [p.id for p in check_run(run_of(workload), Facts()) if "hf_access_token" in p.where] == [
            "hf-access-token"
        ]
