"""The step of a run, as the TPU compiler is given it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from xsft.fit.step import StepToCompile, blocks_at, compiler_name, counting, tokens_of
from xsft.spec.base import Value
from xsft.spec.resolve import Run
from xsft.trainers.arguments import argument
from xsft.trainers.trainer import trainer_of


def step_to_compile(run: Run) -> StepToCompile | None:
    """Return the step; None for a run of this machine, one without a slice, or one of no valid length."""
    keys = trainer_of(run).trainer_keys(run)
    tokens = tokens_of(keys)
    if run.spec.on_this_machine or run.slice is None or tokens is None:
        return None
    return StepToCompile(
        topology=compiler_name(run.slice),
        num_slices=run.num_slices,
        devices_per_chip=run.slice.devices // run.slice.chips,
        arguments=_arguments(keys),
        tokens=tokens,
        xla_flags=tuple(run.spec.xla_flags),
        blocks=blocks_at(keys, tokens),
    )


def _arguments(keys: Mapping[str, Value]) -> tuple[str, ...]:
    return tuple(argument(key, cast("Value", value)) for key, value in counting(keys).items())
