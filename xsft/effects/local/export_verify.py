"""Verifies an exported folder: its headers here, its values and logits in the environments that can read them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from xsft.effects.environments.installed import BuiltEnvironment
from xsft.effects.local.export_work import ExportShop, ask_worker
from xsft.effects.machine.chance import random_hex
from xsft.effects.machine.regular import open_regular, read_bytes
from xsft.export.plan import ExportPlan
from xsft.export.safetensors import LENGTH_BYTES, TensorHeader, header_length, parse_header
from xsft.export.verification import (
    ALL_BELOW_BYTES,
    SAMPLE,
    LogitsVerdict,
    Verification,
    base_problems,
    config_problems,
    header_problems,
    logits_problems,
    values_problems,
)
from xsft.trainers.export import checked_argv, logits_argv

MAX_CONFIG = 16 << 20
PROMPTS = ("What is 2 + 3?", "Name a colour of the sky.", "Write one short sentence about the sea.")
"""Prompts whose logits are compared."""
LENGTH = 32
"""Tokens of each prompt that are compared, at most."""


def verify(plan: ExportPlan, shop: ExportShop) -> Verification:
    """Compare the folder of this attempt with the checkpoint; raises as `ask_worker`."""
    (found,) = verify_folders(plan, (Path(plan.directory),), shop)
    return found


def verify_folders(plan: ExportPlan, folders: Iterable[Path], shop: ExportShop) -> tuple[Verification, ...]:
    """Compare several folders with the checkpoint by one start of MaxText."""
    listed = tuple(folders)
    answer = ask_worker("export_worker", _job(plan, listed), shop)
    return tuple(_judged(plan, path, answer, one) for path, one in zip(listed, answer["folders"], strict=True))


def verify_logits(
    plan: ExportPlan, folders: Iterable[Path], shop: ExportShop, *, engine: BuiltEnvironment
) -> tuple[LogitsVerdict, ...]:
    """Compare the logits of the checkpoint in MaxText with those of each folder in the engine, all in float32."""
    listed = tuple(folders)
    file = shop.scratch / "logits.npz"
    tokens = {"tokenizer": str(listed[0]), "prompts": list(PROMPTS), "length": LENGTH}
    ask_worker("logits_worker", {"argv": list(logits_argv(plan)), "file": str(file), **tokens}, shop)
    job = {"folders": list(map(str, listed)), "file": str(file)}
    answer = ask_worker("engine_logits_worker", job, shop, python=engine.python)
    return tuple(_logits(one, engine) for one in answer["folders"])


def with_logits(found: Verification, verdict: LogitsVerdict) -> Verification:
    return replace(found, logits=verdict, problems=(*found.problems, *logits_problems(verdict)))


def read_headers(folder: Path) -> dict[str, TensorHeader]:
    """Return all tensors of the folder. Raises ValueError, naming the file, for one that is cut off."""
    found: dict[str, TensorHeader] = {}
    for path in sorted(folder.glob("*.safetensors")):
        try:
            found |= _header(path)
        except ValueError as wrong:
            raise ValueError(f"{path.name}: {wrong}") from wrong
    return found


def _header(path: Path) -> dict[str, TensorHeader]:
    with open_regular(path) as file:
        length = header_length(file.read(LENGTH_BYTES))
        text = file.read(length)
        return parse_header(text, data_bytes=path.stat().st_size - LENGTH_BYTES - length)


def _job(plan: ExportPlan, folders: tuple[Path, ...]) -> dict[str, Any]:
    inputs = plan.inputs
    is_large = (plan.weights_bytes or 0) >= ALL_BELOW_BYTES
    return {
        "argv": list(checked_argv(inputs)),
        "form": inputs.form,
        "dtype": inputs.dtype,
        "weights": inputs.weights,
        "base": inputs.base,
        "scaling": inputs.lora.alpha / inputs.lora.rank if inputs.lora else None,
        "folders": list(map(str, folders)),
        "sample": SAMPLE if is_large else None,
        "seed": int(random_hex(4), 16),
    }


def _judged(plan: ExportPlan, folder: Path, answer: dict[str, Any], one: dict[str, Any]) -> Verification:
    expected = {name: tuple(shape) for name, shape in answer["expected"].items()}
    try:
        headers, config = read_headers(folder), _config(folder)
    except (OSError, ValueError) as wrong:
        return Verification(problems=(str(wrong),))
    return Verification(
        problems=(
            *header_problems(headers, expected=expected, dtype=plan.inputs.dtype),
            *(config_problems(config, names=headers) if config is not None else ()),
            *values_problems({**one, "unexported": answer["unexported"]}),
            *base_problems(one),
        ),
        tensors=len(headers),
        compared=one["compared"],
        sampled=answer["targets"] < answer["all_targets"],
        trained=one["trained"],
        changed=one["changed"],
        base=one["base"],
    )


def _config(folder: Path) -> dict[str, Any] | None:
    """Return config.json; None for an adapter, which has none. Raises ValueError if it is no JSON object."""
    path = folder / "config.json"
    if not path.exists() and (folder / "adapter_config.json").exists():
        return None
    found = json.loads(read_bytes(path, limit=MAX_CONFIG))
    return found if isinstance(found, dict) else {}


def _logits(one: dict[str, Any], engine: BuiltEnvironment) -> LogitsVerdict:
    return LogitsVerdict(
        greatest_difference=one["greatest_difference"],
        greatest_logit=one["greatest_logit"],
        positions=one["positions"],
        same_argmax=one["same_argmax"],
        engine=f"mlx-lm {engine.version}",
    )
