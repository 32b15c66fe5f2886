"""Checks of the values of MaxText's keys agree with MaxText's own parser: all of them in one command line."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.maxtext import Worker, ask
from xsft.catalog.releases import LATER, key_types
from xsft.checks.trainer_keys import SPLIT, misfit
from xsft.spec.base import Value
from xsft.trainer.arguments import argument

pytestmark = pytest.mark.maxtext

TRIED: tuple[Value, ...] = ("word", "7", "true", 2, -1, 0.5, 3.0, True, ["a"])
"""Each key gets one of these, in turn."""
LINE = ("python3", "-m", "maxtext.trainers.post_train.sft.train_sft", "run_name=x", "base_output_directory=out")
NOT_TRIED = {
    *(
        "run_name",
        "base_output_directory",
        "model_name",
        "hardware",
        "hf_access_token",
        "log_config",
        "skip_jax_distributed_system",
        *LATER,
        *SPLIT,
    ),
    *("use_jax_splash", "jax_cache_dir", "jax_debug_log_modules", "jax_profiler_port"),
    *(
        "compile_topology",
        "compile_topology_num_slices",
        "compiled_trainstep_file",
        "image_size_for_vit",
        "weight_block_size",
    ),
}
"""Keys that MaxText acts on before it has parsed the others, or gives itself; lists of numbers."""


def test_the_parser_refuses_what_the_check_refuses(maxtext: Worker) -> None:
    names = sorted(set(key_types()) - NOT_TRIED)
    settings = {name: TRIED[index % len(TRIED)] for index, name in enumerate(names)}
    expected = {name for name, value in settings.items() if misfit(value, key_types()[name])}
    (answer,) = ask([{"trainer": (*LINE, *(argument(name, value) for name, value in settings.items()))}], of=maxtext)
    refused = _named(answer, names)
    assert refused == expected, {name: settings[name] for name in refused ^ expected}


def _named(answer: dict[str, Any], names: list[str]) -> set[str]:
    """The keys that a ValidationError names, each at the start of its own line; of a union once for each type."""
    matches = re.findall(r"^([a-z][A-Za-z0-9_]*)(?:\.\S+)?$", answer["error"], re.MULTILINE)
    return set(matches) & set(names)
