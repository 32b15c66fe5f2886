"""Checks of mesh axes against the slice, the model and the batch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checks.factory import DROP, FLAGSHIP, GOOD, ids, problems, spec
from xsft.checks.mesh import check_mesh as check
from xsft.spec.model import WorkloadSpec

SPLIT = {"maxtext": {"allow_split_physical_axes": True}}


def flagship(ici: dict[str, int], dcn: dict[str, int] | None = None, **changes: object) -> WorkloadSpec:
    base = {**FLAGSHIP, "parallelism": {"ici": ici, **({"dcn": dcn} if dcn else {})}}
    return spec(base, **changes)


def gpt_oss(**ici: int) -> WorkloadSpec:
    model = {"name": "gpt-oss-120b", "tokenizer": "openai/gpt-oss-120b"}
    return spec(model=model, tpu={"type": "v6e-256"}, parallelism={"ici": ici}, overrides=SPLIT)


def test_axes_of_the_whole_slice_have_no_problem():
    assert ids(check, gpt_oss(fsdp=32, tensor=8)) == set()


def test_product_of_ici_axes_must_be_the_slice():
    (problem,) = problems(check, flagship({"fsdp": 16, "expert": 8}, {"fsdp": 2}))
    assert (problem.id, problem.where) == ("mesh-ici-product", "parallelism.ici")
    assert "256" in problem.message
    assert "fsdp: 32" in problem.fix
    assert "mesh-ici-product" in ids(check, flagship({"expert": 3}, {"fsdp": 2}))
    assert "mesh-ici-product" in ids(check, flagship({"fsdp": 0}, {"fsdp": 2}))
    assert ids(check, flagship({"expert": 16}, {"fsdp": 2})) == set(), "fsdp takes the rest"


def test_product_of_dcn_axes_must_be_the_number_of_slices():
    (problem,) = problems(check, flagship({"fsdp": 16, "expert": 16}, {"fsdp": 4}))
    assert (problem.id, problem.where) == ("mesh-dcn-product", "parallelism.dcn")
    assert ids(check, spec(parallelism={"dcn": {"fsdp": 2}})) == {"mesh-dcn-product"}


def test_only_one_axis_per_group_may_be_free():
    assert ids(check, flagship({"tensor": -1, "expert": 16}, {"fsdp": 2})) == {"mesh-two-free"}
    assert ids(check, flagship({"fsdp": -1, "expert": 16}, {"fsdp": -1})) == set()


def test_axis_that_the_release_lacks_is_refused():
    transposed = {"parallelism": {"ici": {"tensor_transpose": 1}}}
    assert ids(check, spec(**transposed)) == {"mesh-axis-unknown"}
    assert ids(check, spec(**transposed, image={"maxtext": "0.2.3"})) == set()


def test_slices_without_dcn_axes_are_replicas():
    assert ids(check, flagship({"fsdp": 16, "expert": 16})) == {"mesh-replicas"}


@pytest.mark.parametrize(("fsdp", "expert", "lies"), [(16, 16, True), (256, 1, True), (64, 4, False), (128, 2, False)])
def test_axes_must_divide_the_physical_axes_of_16x16(fsdp: int, expert: int, lies: bool):
    problem_ids = ids(check, flagship({"fsdp": fsdp, "expert": expert}, {"fsdp": 2}))
    assert ("mesh-physical-axes" in problem_ids) is not lies
    split = flagship({"fsdp": fsdp, "expert": expert}, {"fsdp": 2}, overrides=SPLIT)
    assert "mesh-physical-axes" not in ids(check, split)


def test_small_slices_accept_any_axes():
    assert ids(check, spec(parallelism={"ici": {"fsdp": 4, "tensor": 2}})) == set()


def test_a_fraction_of_a_sequence_needs_an_axis_that_does_not_split_the_batch():
    half = {"train": {"per_device_batch_size": 0.5}}
    assert ids(check, spec(**half)) == {"batch-not-divisible"}
    assert ids(check, spec(**half, parallelism={"ici": {"fsdp": 4, "tensor": 2}})) == set()
    assert ids(check, spec(train={"per_device_batch_size": 1.3})) == {"batch-not-divisible"}


def test_expert_axis_splits_the_batch():
    half = {"train": {"per_device_batch_size": 0.5}}
    assert ids(check, spec(**half, parallelism={"ici": {"fsdp": 4, "expert": 2}})) == {
        "batch-not-divisible",
        "mesh-no-experts",
    }


@given(per_device=st.integers(1, 64), fsdp=st.sampled_from([1, 2, 4, 8]))
def test_whole_sequences_always_divide(per_device: int, fsdp: int):
    workload = spec(train={"per_device_batch_size": per_device}, parallelism={"ici": {"fsdp": fsdp, "data": 8 // fsdp}})
    assert ids(check, workload) == set()


def test_axis_that_does_not_divide_a_dimension_is_refused():
    (problem,) = problems(check, gpt_oss(fsdp=256))
    assert problem.id == "mesh-not-dividing"
    assert "2880" in problem.message
    assert ids(check, gpt_oss(fsdp=64, tensor=4)) == set()


def test_low_rank_of_deepseek_must_be_divisible():
    four = {"tpu": {"num_slices": 4}}
    assert ids(check, flagship({"fsdp": 16, "expert": 16}, {"fsdp": 4}, **four)) == {"mesh-not-dividing"}
    assert ids(check, flagship({"fsdp": 16, "expert": 16}, {"data": 2, "fsdp": 2}, **four)) == set()


def test_axes_must_divide_experts_and_heads():
    gpt = {"name": "gpt-oss-20b", "tokenizer": "openai/gpt-oss-20b"}
    wide = spec(model=gpt, tpu={"type": "v6e-64"}, parallelism={"ici": {"expert": 64, "fsdp": 1}})
    assert ids(check, wide) == {"mesh-experts"}
    assert ids(check, spec(tpu={"type": "v6e-16"}, parallelism={"ici": {"expert": 4, "fsdp": 4}})) == {
        "mesh-no-experts"
    }
    assert ids(check, spec(tpu={"type": "v6e-16"}, parallelism={"ici": {"tensor": 16, "fsdp": 1}})) == {"mesh-heads"}
    assert ids(check, spec(parallelism={"ici": {"tensor": 8, "fsdp": 1}})) == set()


def test_changed_architecture_and_custom_mesh_are_not_checked():
    other = {"maxtext": {"allow_split_physical_axes": True, "override_model_config": True}}
    assert ids(check, spec(GOOD, overrides=other, parallelism={"ici": {"tensor": 8, "fsdp": 1}})) == set()
    rules = {"maxtext": {"custom_mesh": "hybrid_ring_64x4"}}
    assert ids(check, flagship({"fsdp": 64, "expert": 4}, {"fsdp": 2}, overrides=rules)) == set()


def test_model_with_its_own_sharding_rules_is_not_checked():
    batchsplit = {"name": "deepseek3-671b-batchsplit"}
    assert ids(check, flagship({"fsdp": 64, "expert": 4}, {"fsdp": 2}, model=batchsplit)) == set()


def test_local_run_ignores_the_mesh():
    assert ids(check, spec(target="local", parallelism={"ici": {"fsdp": 7}})) == {"mesh-ignored"}
    assert ids(check, spec(target="local", tpu=DROP)) == set()


def test_a_ring_needs_axes_of_its_shape():
    ring = {"overrides": {"maxtext": {"custom_mesh": "hybrid_ring_64x4"}}, "tpu": {"type": "v6e-256"}}
    assert ids(check, spec(**ring)) == {"mesh-custom"}
    assert ids(check, spec(**ring, parallelism={"ici": {"fsdp": 64, "tensor": 4}})) == set()
