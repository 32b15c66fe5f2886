"""Sequences that the blocks of flash attention do not divide."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checks.factory import FLAGSHIP, ids, problems, spec
from xsft.checks.mesh import check_attention as check
from xsft.checks.mesh import misfit
from xsft.spec.model import WorkloadSpec


def long(tokens: int, **given: object) -> WorkloadSpec:
    return spec(train={"max_target_length": tokens}, overrides={"maxtext": given})


@pytest.mark.parametrize("tokens", [64, 100, 128, 384, 512, 1024, 4096])
def test_lengths_that_blocks_divide_have_no_problem(tokens: int) -> None:
    assert ids(check, long(tokens)) == set()


@pytest.mark.parametrize(
    ("tokens", "fix"),
    [
        (1000, "Use max_target_length 512 or 1024."),
        (2560 + 128, "Use max_target_length 2560 or 3072."),
        (500, "Use max_target_length 384 or 512."),
        (200, "Use max_target_length 128 or 256."),
    ],
)
def test_lengths_that_blocks_do_not_divide_are_reported(tokens: int, fix: str) -> None:
    (problem,) = problems(check, long(tokens))
    assert (problem.id, problem.severity, problem.where) == ("attention-blocks", "error", "train.max_target_length")
    assert fix in problem.fix


def test_short_sequences_use_flash_only_on_request() -> None:
    assert ids(check, long(100, attention="flash")) == {"attention-blocks"}


def test_block_sizes_of_the_workload_are_checked() -> None:
    (problem,) = problems(check, long(1024, sa_block_kv=512, sa_block_kv_compute=384))
    assert "sa_block_kv_compute 384 does not divide sa_block_kv 512" in problem.message
    assert problem.fix == "Use another length, or change sa_block_kv, sa_block_kv_compute."
    assert ids(check, long(640, **dict.fromkeys(BLOCKS, 128))) == set()


BLOCKS = [
    f"sa_block_{name}" for name in ("q", "q_dkv", "q_dq", "kv", "kv_dkv", "kv_dq", "kv_compute", "kv_dkv_compute")
]


IN_ORDER: dict[str, Any] = {
    "parallelism": {"ici": {"context": 2}},
    "overrides": {"maxtext": {"context_parallel_load_balance": False}},
}


def test_other_attention_and_local_runs_are_not_checked() -> None:
    assert ids(check, long(1000, attention="dot_product")) == set()
    assert ids(check, spec(train={"max_target_length": 1000}, target="local")) == set()
    assert ids(check, spec(train={"max_target_length": 1000}, **IN_ORDER)) == set()


def test_sequence_split_over_an_axis_needs_context_order() -> None:
    assert ids(check, spec(parallelism=IN_ORDER["parallelism"])) == {"context-order"}
    assert ids(check, spec(**IN_ORDER)) == set()
    assert ids(check, spec(FLAGSHIP)) == set()


def test_blocks_are_cut_to_the_sequence_length() -> None:
    assert misfit(256, dict.fromkeys(BLOCKS, 512)) is None


def test_sequence_beyond_the_context_of_the_model_is_reported() -> None:
    assert ids(check, spec(train={"max_target_length": 65536})) == {"sequence-beyond-context"}
    assert ids(check, spec(train={"max_target_length": 40960})) == set()
    assert ids(check, spec(FLAGSHIP, train={"max_target_length": 196608})) == {"sequence-beyond-context"}
    yarn = {"rope_type": "yarn", "override_model_config": True}
    assert ids(check, spec(train={"max_target_length": 65536}, overrides={"maxtext": yarn})) == set()
    assert ids(check, spec(train={"max_target_length": 65536}, model={"name": "a-model"})) == set()
