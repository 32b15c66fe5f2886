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
    found = tunable_run(run_of(spec(model={"name": model}, tpu={"type": tpu})))
    assert found is not None
    return replace(found, **changes)


def settings(found: list[Alternative]) -> list[dict[str, object]]:
    return [dict(one.settings) for one in found]


def test_alternatives_of_a_dense_run_begin_with_lossless_changes() -> None:
    found = alternatives(tunable(batch=2.0, tokens=1024), SearchLimits(max_chips=16))
    offloaded = {"overrides.maxtext.remat_policy": "custom", "overrides.maxtext.decoder_layer_input": "offload"}
    mesh = {"parallelism.ici.fsdp": 4, "parallelism.ici.tensor": 2}
    larger = {"tpu.type": "v6e-16", "train.per_device_batch_size": 1}
    assert settings(found)[:4] == [mesh, offloaded, {**mesh, **offloaded}, larger]
    assert {"train.weight_dtype", "lora.rank"} <= found[-1].settings.keys()


def test_lossy_changes_come_in_the_documented_order() -> None:
    run = tunable(batch=2.0, tokens=1024)
    alone = alternatives(run, SearchLimits(keep=("tpu", "parallelism", "remat_policy")))
    first = [next(iter(one.settings)) for one in alone if len(one.changes) == 1]
    assert first == [
        "overrides.maxtext.mu_dtype", "train.per_device_batch_size", "train.max_target_length", "train.weight_dtype",
        "lora.rank",
    ]  # fmt: skip


def test_expert_axis_divides_the_slice_and_the_model() -> None:
    found = alternatives(tunable("qwen3-30b-a3b", "v6e-16"), SearchLimits(keep=("tpu.type", "tpu.num_slices")))
    meshes = [one.run.ici for one in found if len(one.changes) == 1 and one.run.ici]
    assert {"fsdp": 1, "expert": 16} in meshes
    assert {"fsdp": 4, "expert": 4} in meshes
    split = {str(one.run.ici): "overrides.maxtext.allow_split_physical_axes" in one.settings for one in found}
    assert (split["{'fsdp': 4, 'expert': 4}"], split["{'fsdp': 2, 'expert': 8}"]) == (False, True)


def test_tensor_axis_takes_what_fsdp_cannot_divide() -> None:
    found = alternatives(tunable("gpt-oss-20b", "v6e-256"), SearchLimits(max_chips=256))
    assert {"fsdp": 64, "tensor": 4} in [one.run.ici for one in found if len(one.changes) == 1]


def test_state_is_sharded_over_slices_and_given_axes_follow_the_slice() -> None:
    run = tunable("deepseek3-671b", "v6e-128", num_slices=2, ici={"fsdp": 8, "expert": 16}, dcn={"fsdp": 2})
    found = alternatives(run, SearchLimits(types=(parse_tpu_type("v6e-256"),), slices=(2, 4)))
    assert all(one.run.ici.get("fsdp", 0) * one.run.ici.get("expert", 1) == 256 for one in found)
    assert {one.run.dcn["fsdp"] for one in found} == {2, 4}


def test_dcn_axes_are_adjusted_to_the_number_of_slices() -> None:
    run = tunable("deepseek3-671b", "v6e-256", num_slices=1, ici={"fsdp": 16, "expert": 16}, dcn={"fsdp": 2})
    found = [one for one in alternatives(run, SearchLimits(types=(run.tpu,))) if one.run.ici == run.ici]
    assert {(one.run.num_slices, one.run.dcn["fsdp"]) for one in found} == {(1, 1), (2, 2)}


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
    assert any(gone in one.settings for one in alternatives(run, SearchLimits()))
    assert not any(gone in one.settings for one in alternatives(run, SearchLimits(keep=(keep,))))


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
    found = alternatives(run, SearchLimits())
    assert len({one.words for one in found}) == len(found) < 4000
    for one in found:
        assert 0 < len(one.changes) <= MOST_CHANGES
        assert one.run != run
        assert one.run.chips <= 2 * run.chips
        assert one.run.tokens >= min(run.tokens, SHORTEST)
    assert all(preference(a, run) <= preference(b, run) for a, b in pairwise(found))
