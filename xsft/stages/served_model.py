"""Checks a folder with a Hugging Face model: whether it is complete, and whether the engine can read it. Reads small
files only.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from xsft.base.errors import UsageError
from xsft.catalog.weights import UNLOADED
from xsft.environments.installed import BuiltEnvironment
from xsft.machine.regular import read_bytes
from xsft.stages.exported import read_folder
from xsft.workers.export_judging import read_headers

WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
TOKENIZERS = ("tokenizer.json", "tokenizer.model")
LARGEST = 64 << 20
"""Maximum bytes of a model's JSON file: the index names every array, and has megabytes for a large model."""


class ServedModel(Struct, frozen=True, kw_only=True):
    """A model that the engine can serve."""

    folder: Path
    """Absolute."""
    model_type: str
    """The architecture's name in config.json, e.g. `qwen3`."""


def served_model(folder: Path, *, engine: BuiltEnvironment) -> ServedModel:
    """Return the model. Raises UsageError: not-a-model, model-incomplete or engine-model-unknown."""
    config = _read_json_object(folder / "config.json", folder=folder)
    if why := _why_incomplete(folder):
        raise UsageError(
            f"{folder} is not a complete model: {why}",
            fix="Export or download it again, to a new folder.",
            id="model-incomplete",
        )
    model_type = str(config.get("model_type", ""))
    if not reads_type(engine, model_type):
        raise UsageError(
            f"{folder}: mlx-lm {engine.version} cannot read models of type {model_type!r}",
            fix="Serve it with another engine, such as vLLM; the folder has the Hugging Face layout.",
            id="engine-model-unknown",
        )
    return ServedModel(folder=folder.resolve(), model_type=model_type)


def refuse_unreadable(model_type: str | None, *, named: str, engine: BuiltEnvironment) -> None:
    """Raise UsageError, engine-model-unknown, if the engine cannot read models of this type; None: unknown."""
    why = UNLOADED.get(model_type or "", "")
    if why or (model_type is not None and not reads_type(engine, model_type)):
        raise UsageError(
            f"mlx-lm {engine.version} cannot read {named}, a model of type {model_type!r}{': ' if why else ''}{why}",
            fix="Compare its tensors only: --verify tensors.",
            id="engine-model-unknown",
        )


def _why_incomplete(folder: Path) -> str:
    """Return which file is missing or cut off; empty if none is."""
    if lacking := _missing_files(folder):
        return f"{', '.join(lacking)} missing"
    try:
        read_headers(*read_folder(folder))
    except (OSError, ValueError) as wrong:
        return str(wrong)
    return ""


def _missing_files(folder: Path) -> tuple[str, ...]:
    weights = next((name for name in WEIGHTS if (folder / name).is_file()), None)
    shards = _shards(folder) if weights == WEIGHTS[1] else ()
    absent = [name for name in shards if not (folder / name).is_file()]
    tokenizer = any((folder / name).is_file() for name in TOKENIZERS)
    return (
        *(() if weights else (WEIGHTS[0],)),
        *absent,
        *(() if tokenizer else (TOKENIZERS[0],)),
    )


def _shards(folder: Path) -> tuple[str, ...]:
    """Return the files that the index of a model in several files names."""
    where = _read_json_object(folder / WEIGHTS[1], folder=folder).get("weight_map")
    return tuple(sorted(set(map(str, where.values())))) if isinstance(where, dict) else ()


def _read_json_object(path: Path, *, folder: Path) -> Mapping[str, Any]:
    try:
        read = json.loads(read_bytes(path, limit=LARGEST))
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else "it is not JSON"
        raise _not_a_model(folder, f"{path.name} cannot be read ({why})") from problem
    if not isinstance(read, dict):
        raise _not_a_model(folder, f"{path.name} is not a JSON object")
    return read


def _not_a_model(folder: Path, why: str) -> UsageError:
    return UsageError(
        f"{folder} is not a Hugging Face model: {why}",
        fix="Give the folder that contains config.json, the safetensors files and the tokenizer.",
        id="not-a-model",
    )


def reads_type(engine: BuiltEnvironment, model_type: str) -> bool:
    """Return whether the engine has a module for the type, or for the one it is remapped to. source: mlx-lm@0.32.2
    utils.py _get_classes, MODEL_REMAPPING
    """
    package = next(engine.folder.glob("lib/python*/site-packages/mlx_lm"))
    name = _read_remapping(package / "utils.py").get(model_type, model_type)
    return name.isidentifier() and (package / "models" / f"{name}.py").is_file()


def _read_remapping(source: Path) -> Mapping[str, str]:
    """Return the remapping, read from the engine's source: importing it takes a second and its own environment."""
    for statement in ast.parse(source.read_text()).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="MODEL_REMAPPING")], value=value):
                mapping: Mapping[str, str] = ast.literal_eval(value)
                return mapping
            case _:
                continue
    return {}
