from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.checks.factory import run_of, spec
from xsft.catalog.tpu import parse_tpu_type
from xsft.fit.alternatives import (
    MOST_CHANGES,
    SHORTEST,
    Alternative,
    SearchLimits,
    TunableRun,
    alternatives,
    preference,
)
from xsft.fit.trainer_step import tunable_run


def tunable(model: str = "qwen3-14b", tpu: str = "v6e-8", **changes: object) -> TunableRun:
    run_found = tunable_run(run_of(spec(model={"name": model}, tpu={"type": tpu})))
    assert run_found is not None
    return replace(run_found, **changes)


def settings(choices: list[Alternative]) -> list[dict[str, object]]:
    return [dict(alternative.settings) for alternative in choices]


def test_alternatives_of_a_dense_run_begin_with_lossless_changes() -> None:
    choices = alternatives(tunable(batch=2.0, tokens=1024), SearchLimits(max_chips=16))
    offloaded = {"overrides.maxtext.remat_policy": "custom", "overrides.maxtext.decoder_layer_input": "offload"}
    mesh = {"parallelism.ici.fsdp": 4, "parallelism.ici.tensor": 2}
    larger = {"tpu.type": "v6e-16", "train.per_device_batch_size": 1}
    assert settings(choices)[:4] == [mesh, offloaded, {**mesh, **offloaded}, larger]
    assert {"train.weight_dtype", "lora.rank"} <= choices[-1].settings.keys()


def test_lossy_changes_come_in_the_documented_order() -> None:
    run = tunable(batch=2.0, tokens=1024)
    alone = alternatives(run, SearchLimits(keep=("tpu", "parallelism", "remat_policy")))
    first = [next(iter(alternative.settings)) for alternative in alone if len(alternative.changes) == 1]
    assert first == [
        "overrides.maxtext.mu_dtype", "train.per_device_batch_size", "train.max_target_length", "train.weight_dtype",
        "lora.rank",
    ]  # fmt: skip


def test_expert_axis_divides_the_slice_and_the_model() -> None:
    choices = alternatives(tunable("qwen3-30b-a3b", "v6e-16"), SearchLimits(keep=("tpu.type", "tpu.num_slices")))
    meshes = [alternative.run.ici for alternative in choices if len(alternative.changes) == 1 and alternative.run.ici]
    assert {"fsdp": 1, "expert": 16} in meshes
    assert {"fsdp": 4, "expert": 4} in meshes
    split = {
        str(alternative.run.ici): "overrides.maxtext.allow_split_physical_axes" in alternative.settings
        for alternative in choices
    }
    assert (split["{'fsdp': 4, 'expert': 4}"], split["{'fsdp': 2, 'expert': 8}"]) == (False, True)


def test_tensor_axis_takes_what_fsdp_cannot_divide() -> None:
    choices = alternatives(tunable("gpt-oss-20b", "v6e-256"), SearchLimits(max_chips=256))
    assert {"fsdp": 64, "tensor": 4} in [
        alternative.run.ici for alternative in choices if len(alternative.changes) == 1
    ]


def test_state_is_sharded_over_slices_and_given_axes_follow_the_slice() -> None:
    run = tunable("deepseek3-671b", "v6e-128", num_slices=2, ici={"fsdp": 8, "expert": 16}, dcn={"fsdp": 2})
    choices = alternatives(run, SearchLimits(types=(parse_tpu_type("v6e-256"),), slices=(2, 4)))
    assert all(
        alternative.run.ici.get("fsdp", 0) * alternative.run.ici.get("expert", 1) == 256 for alternative in choices
    )
    assert {alternative.run.dcn["fsdp"] for alternative in choices} == {2, 4}


def test_dcn_axes_are_adjusted_to_the_number_of_slices() -> None:
    run = tunable("deepseek3-671b", "v6e-256", num_slices=1, ici={"fsdp": 16, "expert": 16}, dcn={"fsdp": 2})
    choices = [
        alternative
        for alternative in alternatives(run, SearchLimits(types=(run.tpu,)))
        if alternative.run.ici == run.ici
    ]
    assert {(alternative.run.num_slices, alternative.run.dcn["fsdp"]) for alternative in choices} == {(1, 1), (2, 2)}


@pytest.mark.parametrize(
    ("keep", "gone"),
    [
        ("tpu", "tpu.type"),
        ("train.max_target_length", "train.max_target_length"),
        ("mu_dtype", "overrides.maxtext.mu_dtype"),
        ("lora", "lora.rank"),
    ],
)
def test_a_kept_key_stays(keep: str, gone: str) -> None:
    run = tunable(batch=2.0)
    assert any(gone in alternative.settings for alternative in alternatives(run, SearchLimits()))
    assert not any(gone in alternative.settings for alternative in alternatives(run, SearchLimits(keep=(keep,))))


RUNS = st.builds(
    tunable,
    st.sampled_from(["qwen3-14b", "qwen3-30b-a3b", "gpt-oss-20b"]),
    st.sampled_from(["v6e-8", "v6e-64", "v5p-16"]),
    num_slices=st.integers(1, 2),
    batch=st.sampled_from([0.5, 1.0, 6.0, 16.0]),
    tokens=st.sampled_from([256, 1024, 3000, 8192]),
    lora=st.booleans(),
    weights=st.sampled_from(["float32", "bfloat16"]),
)


@given(RUNS)
def test_alternatives_differ_change_little_and_are_sorted_by_preference(run: TunableRun) -> None:
    choices = alternatives(run, SearchLimits())
    assert len({alternative.words for alternative in choices}) == len(choices) < 4000
    for alternative in choices:
        assert 0 < len(alternative.changes) <= MOST_CHANGES
        assert alternative.run != run
        assert alternative.run.chips <= 2 * run.chips
        assert alternative.run.tokens >= min(run.tokens, SHORTEST)
    assert all(preference(a, run) <= preference(b, run) for a, b in pairwise(choices))
