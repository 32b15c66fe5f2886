from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checks.factory import DROP, FLAGSHIP, GOOD, run_of, spec
from xsft.catalog.tpu import parse_tpu_type
from xsft.fit.step import StepToCompile, blocks_at, compiler_name
from xsft.fit.trainer_step import eval_step, step_to_compile


def step(*arguments: dict[str, Any], **changes: Any) -> StepToCompile:
    step_found = step_to_compile(run_of(spec(*arguments, **changes)))
    assert step_found is not None
    return step_found


def test_flagship_step_has_its_topology_and_arguments() -> None:
    flagship_step = step(FLAGSHIP)
    assert (flagship_step.topology, flagship_step.num_slices, flagship_step.tokens) == ("v6e-256", 2, 1024)
    assert flagship_step.arguments == (
        "attention=flash",
        "dcn_data_parallelism=1",
        "dcn_fsdp_parallelism=2",
        "ici_expert_parallelism=16",
        "ici_fsdp_parallelism=16",
        "model_name=deepseek3-671b",
        "mu_dtype=bfloat16",
        "param_scan_axis=0",
        "per_device_batch_size=1",
        "ragged_buffer_factor=2",
        "use_iota_embed=True",
    )


def test_the_step_of_an_evaluation_has_its_own_batch_and_family() -> None:
    evaluation = {"interval": 100, "per_device_batch_size": 4}
    run = run_of(spec(eval=evaluation))
    trained = step(eval=evaluation)
    step_found = eval_step(run, trained)
    assert step_found is not None
    assert (step_found.kind, step_found.tokens) == ("eval", trained.tokens)
    assert set(step_found.arguments) - set(trained.arguments) == {"eval_per_device_batch_size=4"}
    assert step_found.family != trained.family == step().family
    assert eval_step(run_of(spec()), step()) is None
    assert eval_step(run_of(spec(overrides={"maxtext": {"eval_interval": -1}})), step()) is None


def test_family_ignores_names_data_checkpoints_and_rates() -> None:
    other = step(
        name="another",
        train={"steps": 7, "learning_rate": 1e-3, "checkpoint_period": 3},
        data={"hf_path": "openai/gsm8k", "train_split": "train", "columns": ["question", "answer"]},
        model={"checkpoint": "gs://my-bucket/elsewhere/0/items", "tokenizer": "my/own"},
    )
    assert other.family == step().family


def test_family_ignores_the_mode() -> None:
    pathways = {"pathways": FLAGSHIP["place"]["pathways"]}
    assert step(mode="pathways", place={**GOOD["place"], **pathways}).family == step().family


@pytest.mark.parametrize(
    "changes",
    [
        {"tpu": {"type": "v6e-16"}},
        {"tpu": {"type": "v6e-8", "num_slices": 2}},
        {"train": {"per_device_batch_size": 2}},
        {"train": {"weight_dtype": "bfloat16"}},
        {"xla_flags": ["--xla_tpu_scoped_vmem_limit_kib=98304"]},
        {"overrides": {"maxtext": {"a_key_of_a_later_release": 1}}},
        {"overrides": {"maxtext": {"sa_block_q": 256}}},
    ],
)
def test_family_changes_with_everything_else(changes: dict[str, Any]) -> None:
    assert step(**changes).family != step().family


def test_family_ignores_a_key_at_its_default() -> None:
    assert step(overrides={"maxtext": {"remat_policy": "full"}}).family == step().family


def test_family_ignores_the_sequence_length() -> None:
    long = step(train={"max_target_length": 4096})
    assert (long.family, long.tokens) == (step().family, 4096)


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_lengths_with_other_attention_blocks_are_other_families(one: int, other: int) -> None:
    same = blocks_at({}, one) == blocks_at({}, other)
    assert same == (min(one, 512) == min(other, 512) or max(one, other) < 128)


def test_local_run_has_no_step_to_compile() -> None:
    assert step_to_compile(run_of(spec(target="local"))) is None
    assert (
        step_to_compile(
            run_of(spec(overrides={"maxtext": {"max_target_length": "many"}}, train={"max_target_length": DROP}))
        )
        is None
    )


def test_compiler_name_is_the_name_of_maxtext() -> None:
    assert compiler_name(parse_tpu_type("v5litepod-256")) == "v5e-256"
    assert compiler_name(parse_tpu_type("v6e-16x16")) == "v6e-256"
    assert compiler_name(parse_tpu_type("tpu7x-128")) == "tpu7x-128"
