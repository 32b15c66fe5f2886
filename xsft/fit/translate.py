"""Translates errors of MaxText and JAX into problems of the workload. Pure.

An unknown error gives no verdict: the machine or xsft's own program may have caused it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

LONGEST = 300


class InvalidStep(Struct, frozen=True, kw_only=True):
    """The reason why a step cannot be built, in the workload's words."""

    where: str
    """Key path in the workload; empty if the whole file is meant."""
    message: str
    fix: str
    said: str = ""
    """The first line of the error of MaxText or JAX."""


DescribeMatch = Callable[[re.Match[str]], tuple[str, str, str]]
"""Returns (where, message, fix) for the match."""

CONFIG = re.compile(r"^(ValueError|ValidationError|NotImplementedError|AssertionError|KeyError): ")
"""Errors with which MaxText refuses a configuration while it parses it."""


def invalid_because(error: str, *, phase: str) -> InvalidStep | None:
    """Return why the step cannot be built; None if the error is not about the step."""
    text = " ".join(error.split())[:LONGEST]
    for pattern, describe in KNOWN:
        if match := re.search(pattern, error, re.DOTALL):
            where, message, fix = describe(match)
            return InvalidStep(where=where, message=message, fix=fix, said=text)
    if phase == "configuring" and CONFIG.search(error):
        return InvalidStep(
            where="", message="MaxText refuses these keys.", fix="Correct the key that it names.", said=text
        )
    return None


def _topology(match: re.Match[str]) -> tuple[str, str, str]:
    message = f"MaxText has no slice {match['name']}, though libtpu may: it could not start a run there."
    return "tpu.type", message, f"Use one that it has{': ' + match['near'] if match['near'] else ''}."


def _indivisible(match: re.Match[str]) -> tuple[str, str, str]:
    ways, size = match["ways"], match["size"]
    message = f"An array's dimension of {size} is cut into {ways} parts, and {ways} does not divide {size}."
    return "parallelism", message, f"Use axes whose product divides {size} (fsdp, tensor and expert cut weights)."


def _physical(_found: re.Match[str]) -> tuple[str, str, str]:
    message = "The axes of parallelism.ici cannot be laid on the slice's physical axes."
    fix = "Set overrides.maxtext.allow_split_physical_axes: true, or axes that are products of physical ones."
    return "parallelism.ici", message, fix


def _adapters_float32(_found: re.Match[str]) -> tuple[str, str, str]:
    message = "LoRA with float32 weights: the adapters turn the layers' bfloat16 activations into float32."
    return "train.weight_dtype", message, "Set train.weight_dtype: bfloat16."


def _no_adapters(_found: re.Match[str]) -> tuple[str, str, str]:
    message = "No module of the model matches lora.module_path, so nothing would be trained."
    return "lora.module_path", message, "Set lora.module_path to modules of this model."


def _one_token(_found: re.Match[str]) -> tuple[str, str, str]:
    message = "attention=flash stops LoRA: MaxText adds adapters by tracing one token."
    return (
        "overrides.maxtext.attention",
        message,
        "Remove it: the default, autoselected, uses flash from 128 tokens up.",
    )


def _product(match: re.Match[str]) -> tuple[str, str, str]:
    group = match["group"].lower()
    message = f"The product of parallelism.{group} is not the number of {'slices' if group == 'dcn' else 'devices'}."
    return f"parallelism.{group}", message, "Correct an axis, or leave one at -1."


def _accumulator(_found: re.Match[str]) -> tuple[str, str, str]:
    message = "Tunix 0.1.7 has no gradient accumulator, which this MaxText's step needs."
    return "train.gradient_accumulation_steps", message, "Set it to 1, and raise per_device_batch_size."


def _flag(match: re.Match[str]) -> tuple[str, str, str]:
    message = f"libtpu's compiler has no flag --{match['flag']}."
    return "xla_flags", message, "Correct its name, or remove it: the run would stop when it starts."


def _flag_value(match: re.Match[str]) -> tuple[str, str, str]:
    message = f"{match['value']!r} is not a valid value of the flag --{match['flag']}."
    return "xla_flags", message, "Correct the value: the run would stop when it starts."


KNOWN: tuple[tuple[str, DescribeMatch], ...] = (
    (r"No such compile option: '(?P<flag>xla_[^']*)'", _flag),
    (r"Failed to parse '(?P<value>[^']*)' into flag (?P<flag>\w+)", _flag_value),
    (r"While setting option (?P<flag>\w+), '(?P<value>[^']*)' is not a valid", _flag_value),
    (r"^NoSuchSlice: (?P<name>\S+) near (?P<near>.*)$", _topology),
    (r"partitioned (?P<ways>\d+) times, but the dimension size is (?P<size>\d+)", _indivisible),
    (r"dimension (?P<size>\d+).{0,40}not divisible by (?P<ways>\d+)", _indivisible),
    (r"but (?P<ways>\d+) does not evenly divide (?P<size>\d+)", _indivisible),
    (r"Failed to find assignment for logical_axis_index", _physical),
    (r"scan body function carry.*(bfloat16.*float32|float32.*bfloat16)", _adapters_float32),
    (r"LoRA enabled but no LoRA parameters found", _no_adapters),
    (r"bkv_compute=1 must be a multiple of 128", _one_token),
    (r"does not match the product of the (?P<group>ICI|DCN) parallelism", _product),
    (r"'NoneType' object has no attribute 'add'", _accumulator),
)
"""Pattern in `Type: message` -> the workload's words. source: maxtext@0.2.5, jax@0.11.0, qwix@0.1.8, each seen once
(aot_fit.md §0.1, §2 and §4).
"""
