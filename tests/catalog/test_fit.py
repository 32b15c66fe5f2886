from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.catalog import fit, models
from xsft.catalog.tpu import parse_tpu_type
from xsft.fit.step import NOT_COUNTING

ROW_A: dict[str, object] = {
    "ici_fsdp_parallelism": 16,
    "ici_expert_parallelism": 16,
    "dcn_fsdp_parallelism": 2,
    "per_device_batch_size": 1,
    "max_target_length": 1024,
    "mu_dtype": "bfloat16",
    "ragged_buffer_factor": 2.0,
    "param_scan_axis": 0,
    "use_iota_embed": True,
    "attention": "flash",
    "eval_interval": -1,
    "steps": 1000,
}
"""The flagship, as the design writes it."""

COUNTING = sorted((*fit.COUNTING_KEYS, fit.TOKENS))
ROW_IDS = [row["id"] for row in fit._fit_rows()]


def verdict(keys: dict[str, object], *, tpu_type: str = "v6e-256", num_slices: int = 2) -> fit.CompilerVerdict | None:
    return fit.known_verdict(model="deepseek3-671b", tpu_type=tpu_type, num_slices=num_slices, keys=keys)


def test_flagship_fits_by_its_row() -> None:
    compiler_verdict = verdict(ROW_A)
    assert compiler_verdict is not None
    assert (
        compiler_verdict.id,
        compiler_verdict.outcome,
        compiler_verdict.peak_gib,
        compiler_verdict.sum_gib,
        compiler_verdict.limit_gib,
    ) == ("A", "fits", 26.85, 30.22, 31.24)
    assert verdict(ROW_A | {"dcn_data_parallelism": 1}) == compiler_verdict, "what MaxText makes of -1 on two slices"
    assert verdict(ROW_A | {"use_iota_embed": "true", "per_device_batch_size": 1.0}) == compiler_verdict
    assert verdict(ROW_A, tpu_type="v6e-16x16") == compiler_verdict


@given(st.sampled_from(COUNTING))
def test_a_verdict_holds_for_no_other_value_of_a_key_that_counts(key: str) -> None:
    compiler_verdict = verdict(ROW_A | {key: "something else"})
    assert compiler_verdict is None


def test_verdict_holds_for_no_other_slices_type_model_or_mesh() -> None:
    assert verdict(ROW_A, num_slices=4) is None
    assert verdict(ROW_A, tpu_type="v6e-128") is None
    assert fit.known_verdict(model="deepseek3.2-671b", tpu_type="v6e-256", num_slices=2, keys=ROW_A) is None
    assert verdict(ROW_A | {"sa_block_q": 2048}) is None
    assert verdict(ROW_A | {"dcn_fsdp_parallelism": 1}) is None


@given(tokens=st.integers(1, 10**6), row_id=st.sampled_from(ROW_IDS))
def test_verdict_extends_to_fewer_tokens_if_fits_and_to_more_if_not(tokens: int, row_id: str) -> None:
    """And nothing else is told: neither that more tokens fit, nor that fewer do not, nor what is marginal, nor what has
    other blocks."""
    row = next(row for row in fit._fit_rows() if row["id"] == row_id)
    keys = fit.row_keys(row)
    compiled = int(fit._token_limit(keys))
    compiler_verdict = fit.known_verdict(
        model=row["model"], tpu_type=row["tpu"], num_slices=row["slices"], keys={**keys, fit.TOKENS: tokens}
    )
    is_expected = tokens == compiled or (row["verdict"] == "fits" and tokens < compiled)
    is_expected = is_expected or (row["verdict"] == "no" and tokens > compiled)
    is_expected = is_expected and (tokens == compiled or tokens >= fit.DEFAULT_BLOCK)
    assert (compiler_verdict is not None and compiler_verdict.id == row_id) == is_expected
    if compiler_verdict is not None and compiler_verdict.tokens != tokens:
        assert compiler_verdict.outcome == ("fits" if tokens < compiler_verdict.tokens else "no")


def test_verdict_comes_from_the_nearest_row() -> None:
    def told(tokens: int) -> str | None:
        compiler_verdict = fit.known_verdict(
            model="qwen3-8b", tpu_type="v6e-8", num_slices=1, keys={**PLAIN, fit.TOKENS: tokens}
        )
        return compiler_verdict.id if compiler_verdict else None

    assert (told(1024), told(2048), told(2049)) == ("qwen3-8b-v6e-8", "qwen3-8b-v6e-8", None)


PLAIN: dict[str, object] = {"per_device_batch_size": 1}


def places(model: str, **keys: object) -> list[tuple[str, int]]:
    compiler_verdicts = fit.compiled_on_default_mesh(model=model, keys={**PLAIN, **keys})
    return [(place.tpu_type, place.num_slices) for place in compiler_verdicts]


def test_runs_that_differ_in_slice_and_tokens_are_listed() -> None:
    assert places("qwen3-14b") == places("qwen3-14b", max_target_length=1024) == [("v6e-8", 1), ("v6e-16", 1)]
    assert places("llama3.1-8b") == [("v6e-8", 1), ("v6e-256", 1)], "the fewest chips first"
    assert places("qwen3-14b", weight_dtype="bfloat16") == []
    assert places("deepseek3-671b") == [("v6e-256", 1)], "what fits there has a mesh of its own"
    assert places("qwen3-14b", ici_tensor_parallelism=4) == places("qwen3-14b")


@pytest.mark.parametrize("row_id", ROW_IDS)
def test_each_row_is_found_and_exceeds_the_lower_bound(row_id: str) -> None:
    row = next(row for row in fit._fit_rows() if row["id"] == row_id)
    keys, run = fit.row_keys(row), parse_tpu_type(row["tpu"])
    compiler_verdict = fit.known_verdict(model=row["model"], tpu_type=row["tpu"], num_slices=row["slices"], keys=keys)
    assert compiler_verdict is not None
    assert compiler_verdict.id == row_id
    params_b = models.model(row["model"]).params_b
    assert params_b is not None
    bound = fit.minimum_gib_per_chip(params_b=params_b, run=run, num_slices=row["slices"], keys=keys)
    assert bound < (compiler_verdict.peak_gib or compiler_verdict.sum_gib or 0), (
        "a lower bound is below what the compiler found"
    )
    assert (compiler_verdict.outcome == "no") == ((compiler_verdict.peak_gib or 0) > compiler_verdict.limit_gib)


@pytest.mark.parametrize(
    ("slices", "keys", "gib"),
    [
        (1, {}, 39.1),
        (2, {}, 39.1),
        (2, {"dcn_fsdp_parallelism": 2}, 19.5),
        (1, {"mu_dtype": "bfloat16"}, 34.2),
        (1, {"weight_dtype": "bfloat16"}, 19.5),
        (1, {"opt_type": "sgd"}, 19.5),
        (1, {"opt_type": "muon", "mu_dtype": "bfloat16"}, 24.4),
        (1, {"weight_dtype": "bfloat16", "lora.enable_lora": "true"}, 9.8),
        (1, {"weight_dtype": "bfloat16", "lora.enable_lora": True, "lora.lora_weight_qtype": "nf4"}, 1.22),
        (1, {"trainable_parameters_mask": ["x"]}, 9.77),
    ],
)
def test_minimum_memory_of_deepseek_matches_the_study(slices: int, keys: dict[str, object], gib: float) -> None:
    """source: aot_fit.md §0.1, "Lower bounds"."""
    run = parse_tpu_type("v6e-256")
    bound = fit.minimum_gib_per_chip(params_b=671.03, run=run, num_slices=slices, keys=keys)
    assert bound == pytest.approx(gib, abs=0.06)


@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from(["v6e-8", "v6e-256", "v5p-512", "tpu7x-128"]))
def test_slices_help_only_where_the_state_is_sharded_over_them(slices: int, tpu_type: str) -> None:
    run = parse_tpu_type(tpu_type)
    assert fit.chips_sharing(run=run, num_slices=slices, keys={}) == run.chips
    sharded = {"dcn_data_parallelism": 1, "dcn_fsdp_parallelism": -1}
    assert fit.chips_sharing(run=run, num_slices=slices, keys=sharded) == run.chips * slices


def test_verdict_of_an_invalid_axis_is_none() -> None:
    assert verdict(ROW_A | {"ici_fsdp_parallelism": "many"}) is None


@pytest.mark.contract
def test_counting_keys_have_the_defaults_of_the_installed_maxtext(maxtext_facts: dict[str, Any]) -> None:
    counting = {**fit.COUNTING_KEYS, fit.TOKENS: fit.DEFAULT_TOKENS}
    top_level = {key: value for key, value in counting.items() if "." not in key}
    assert top_level == {key: maxtext_facts["base"][key] for key in top_level}
    axes = {key: value for key, value in maxtext_facts["base"].items() if key.startswith(("ici_", "dcn_"))}
    unset = {key: value for key, value in axes.items() if key.endswith("_parallelism") and value != 1}
    assert unset == {"dcn_data_parallelism": -1, "ici_fsdp_parallelism": -1}


@pytest.mark.contract
def test_ignored_keys_are_keys_of_the_installed_maxtext(maxtext_facts: dict[str, Any]) -> None:
    assert {key for key in NOT_COUNTING if "." not in key} <= set(maxtext_facts["keys"])
