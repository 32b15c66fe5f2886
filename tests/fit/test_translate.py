"""Errors of compilations by MaxText and JAX, explained in terms of the workload."""

from __future__ import annotations

import pytest

from xsft.fit.translate import invalid_because


@pytest.mark.parametrize(
    ("error", "where", "words"),
    [
        ("NoSuchSlice: v6e-512 near v6e-256, v5p-512", "tpu.type", "Use one that it has: v6e-256"),
        (
            "IndivisibleError: jit arguments ... axis 0 is partitioned 1024 times, but the dimension size is 512",
            "parallelism",
            "1024 does not divide 512",
        ),
        (
            "ValueError: shard_map applied ... to mesh axis 'expert' (of size 16), but 16 does not evenly divide 8",
            "parallelism",
            "16 does not divide 8",
        ),
        (
            "NotImplementedError: Failed to find assignment for logical_axis_index 1 of size 4",
            "parallelism.ici",
            "allow_split_physical_axes",
        ),
        (
            "TypeError: scan body function carry input ... bfloat16[1,1,4096] ... float32[1,1,4096]",
            "train.weight_dtype",
            "bfloat16",
        ),
        (
            "ValueError: LoRA enabled but no LoRA parameters found in decoder/model state.",
            "lora.module_path",
            "Set lora.module_path",
        ),
        ("ValueError: bkv_compute=1 must be a multiple of 128", "overrides.maxtext.attention", "autoselected"),
        ("JaxRuntimeError: INVALID_ARGUMENT: No such compile option: 'xla_tpu_x'", "xla_flags", "no flag --xla_tpu_x"),
        (
            "JaxRuntimeError: ...: Failed to parse 'abc' into flag xla_tpu_x: ",
            "xla_flags",
            "'abc' is not a valid value",
        ),
        ("JaxRuntimeError: ...: While setting option xla_x, 'abc' is not a valid bool value.", "xla_flags", "--xla_x"),
    ],
)
def test_known_errors_name_the_workload_key_and_the_fix(error: str, where: str, words: str) -> None:
    invalid_step = invalid_because(error, phase="tracing")
    assert invalid_step is not None
    assert invalid_step.where == where
    assert words in f"{invalid_step.message} {invalid_step.fix}"
    assert invalid_step.said.startswith(error[:20])


def test_configuration_error_of_maxtext_is_quoted() -> None:
    invalid_step = invalid_because("ValueError: opt_type must be one of adamw", phase="configuring")
    assert invalid_step is not None
    assert "opt_type must be one of adamw" in invalid_step.said


@pytest.mark.parametrize(
    ("error", "phase"),
    [
        ("MemoryError: ", "compiling"),
        ("ValueError: something of the harness", "tracing"),
        ("JaxRuntimeError: INTERNAL: RET_CHECK failure", "compiling"),
        ("ModuleNotFoundError: No module named 'maxtext'", "importing"),
    ],
)
def test_other_errors_do_not_make_the_step_invalid(error: str, phase: str) -> None:
    assert invalid_because(error, phase=phase) is None
