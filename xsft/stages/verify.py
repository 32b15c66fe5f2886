"""Verifies exports and conversions: headers here, values and logits in the environments that can read them; and folders
with a Hugging Face model: whether they are complete, and whether the engine can read them.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from xsft.base.errors import RunFailed, UsageError
from xsft.catalog.weights import UNLOADED, model_type
from xsft.environments.ask import Interpreter, ProgramFailed, ask
from xsft.environments.installed import BuiltEnvironment
from xsft.launch.local_machine import Machine, program_environment
from xsft.machine.memory import memory_bytes
from xsft.machine.paths import random_hex, scratch_folder
from xsft.machine.regular import read_bytes
from xsft.spec.export_inputs import ExportDtype
from xsft.spec.keypath import printable
from xsft.stages.exported import read_folder
from xsft.weights.conversion_plan import SOURCE, ConversionPlan, source_job
from xsft.weights.export_record import LOGITS_BOUNDS, ExportPlan, LogitsVerdict, Verification, logits_memory
from xsft.weights.exporter import forward_argv, logits_argv, merged_dtype
from xsft.workers.export_judging import logits_problems, read_headers

OF_GOOGLE = (
    "GOOGLE_APPLICATION_CREDENTIALS",
    "CLOUDSDK_CONFIG",
    "GOOGLE_CLOUD_PROJECT",
    "STORAGE_EMULATOR_HOST",
    "TENSORSTORE_GCS_HTTP_URL",
)
"""Variables with which Google's clients and TensorStore find their login, or an emulator."""


class ExportShop(Struct, frozen=True, kw_only=True):
    """The functions and folders that the programs of one attempt need."""

    machine: Machine
    scratch: Path
    """A private folder."""
    logs: Path
    """Folder of the programs' output."""


def reads_bucket(plan: ExportPlan) -> bool:
    """Return whether the weights, or the base of adapters, are in a bucket."""
    return any(path.startswith("gs://") for path in (plan.inputs.weights, plan.inputs.base or ""))


def ask_worker(
    program: str, job: Mapping[str, Any], shop: ExportShop, *, python: Path | None = None, online: bool = False
) -> dict[str, Any]:
    """Return the answer of a program, which MaxText's interpreter runs, or `python`.

    Raises RunFailed, export-failed, if it ended without one, or with an error.
    """
    log = shop.logs / f"{program.rpartition('.')[2]}.log"
    interpreter = Interpreter(
        python=python or shop.machine.python,
        env=environment(shop, online=online),
        prefix=shop.machine.contain().prefix,
        log=log,
    )
    try:
        answer: dict[str, Any] = ask(interpreter, program, job)
    except ProgramFailed as failed:
        raise RunFailed(printable(failed.message), fix=f"Its whole output: {log}.", id="export-failed") from failed
    return answer


def environment(shop: ExportShop, *, online: bool) -> dict[str, str]:
    """Return a few of the user's variables, and private folders; no network unless `online`."""
    machine = shop.machine
    google = {name: machine.env[name] for name in OF_GOOGLE if online and name in machine.env}
    return {**program_environment(machine, shop.scratch, online=online), "JAX_PLATFORMS": "cpu", **google}


COMPUTER = "xsft.workers.compute_logits"
LOGITS_COMPARER = "xsft.workers.compare_logits"
PROMPTS = ("What is 2 + 3?", "Name a colour of the sky.", "Write one short sentence about the sea.")
"""Prompts whose logits are compared."""
LENGTH = 32
"""Tokens of each prompt that are compared, at most."""


def verify_logits(
    plan: ExportPlan, folders: Iterable[Path], shop: ExportShop, *, engine: BuiltEnvironment
) -> tuple[LogitsVerdict, ...]:
    """Compare the logits of the checkpoint in MaxText with those of each folder in the engine, all in float32."""
    listed = tuple(folders)
    inputs = plan.inputs
    return compare_logits(
        logits_argv(plan),
        listed,
        shop,
        engine=engine,
        dtype=inputs.dtype,
        merged=merged_dtype(inputs),
        online=reads_bucket(plan),
    )


def compare_logits(
    argv: tuple[str, ...],
    folders: tuple[Path, ...],
    shop: ExportShop,
    *,
    engine: BuiltEnvironment,
    dtype: str,
    merged: ExportDtype | None = None,
    online: bool = False,
) -> tuple[LogitsVerdict, ...]:
    """Compare the logits of MaxText's command `argv` with those of each folder in the engine. `dtype`: of the weights;
    `online`: whether MaxText reads them from a bucket."""
    file = shop.scratch / "logits.npz"
    tokens = {"tokenizer": str(folders[0]), "prompts": list(PROMPTS), "length": LENGTH}
    question = {"argv": list(argv), "merged": merged, "file": str(file), **tokens}
    ask_worker(COMPUTER, question, shop, online=online)
    job = {"folders": list(map(str, folders)), "file": str(file), "bound": LOGITS_BOUNDS[dtype]}
    answer = ask_worker(LOGITS_COMPARER, job, shop, python=engine.python)
    name = engine_name(engine)
    return tuple(
        LogitsVerdict(**{**verdict, "worst": tuple(verdict["worst"])}, engine=name) for verdict in answer["folders"]
    )


def logits_notes(plan: ExportPlan, *, engine: BuiltEnvironment, file: Path) -> dict[str, Any]:
    """Return how the export's own program compares the logits. `file`: a new one for those of MaxText."""
    inputs = plan.inputs
    bound = LOGITS_BOUNDS[inputs.dtype]
    tokens = {"tokenizer": plan.folder, "prompts": list(PROMPTS), "length": LENGTH}
    computed = {"argv": list(logits_argv(plan)), "merged": merged_dtype(inputs), "file": str(file), **tokens}
    compared = {"folders": [plan.folder], "file": str(file), "bound": bound}
    logits = {
        "computed": {"module": COMPUTER, "notes": computed},
        "compared": {"module": LOGITS_COMPARER, "notes": compared},
        "python": str(engine.python),
        "engine": engine_name(engine),
        "bound": bound,
    }
    return {"logits": logits}


def engine_name(engine: BuiltEnvironment) -> str:
    return f"mlx-lm {engine.version}"


def problems_of_logits(verdict: LogitsVerdict, *, dtype: str) -> tuple[str, ...]:
    return tuple(logits_problems(to_builtins(verdict), bound=LOGITS_BOUNDS[dtype]))


def with_logits(verification: Verification, verdict: LogitsVerdict, *, dtype: ExportDtype) -> Verification:
    return replace(
        verification, logits=verdict, problems=(*verification.problems, *problems_of_logits(verdict, dtype=dtype))
    )


class ConversionVerifier(Struct, frozen=True, kw_only=True):
    """Compares what a conversion wrote with its source."""

    machine: Callable[[], Machine]
    trainer_argv: tuple[str, ...]
    """Command of the training, with which MaxText builds the model."""
    engine: BuiltEnvironment | None
    """The engine that computes the source's logits; None: it is not installed."""

    def verify(self, plan: ConversionPlan) -> str:
        """Return what was compared: logits, or each tensor where the engine cannot compute the source's. Raises
        RunFailed if the checkpoint is not the source."""
        checkpoint = plan.whole or plan.checkpoint
        with scratch_folder("verify") as scratch:
            logs = Path(checkpoint).parent.parent / "xsft"
            shop = ExportShop(machine=self.machine(), scratch=scratch, logs=logs)
            verdict = self._logits(plan, checkpoint, shop)
            if verdict is None:
                size = plan.estimate.output if plan.estimate else None
                job = source_job(plan.inputs, checkpoint, seed=int(random_hex(4), 16), size=size)
                answer = ask_worker(SOURCE, job, shop, online=not plan.inputs.source.is_folder)
                _refuse(plan, answer["problems"])
                return f"{answer['compared']} of {answer['all']} tensors equal the source's"
        _refuse(plan, problems_of_logits(verdict, dtype=plan.inputs.dtype))
        return f"logits of the source in {verdict.engine} agree to {verdict.relative:.1e} of the greatest"

    def _can_forward(self, plan: ConversionPlan) -> bool:
        kind = model_type(plan.inputs.model)
        if kind is None or kind in UNLOADED or self.engine is None or not reads_type(self.engine, kind):
            return False
        memory = memory_bytes()
        needs = logits_memory(plan.estimate.output if plan.estimate else None)
        return memory is None or needs is None or needs <= memory

    def _logits(self, plan: ConversionPlan, checkpoint: str, shop: ExportShop) -> LogitsVerdict | None:
        """Return the comparison of logits; None if they cannot be computed here."""
        if self.engine is None or not self._can_forward(plan):
            return None
        dtype = plan.inputs.dtype
        weights = {"load_parameters_path": checkpoint, "weight_dtype": dtype, "lora.enable_lora": False}
        argv = forward_argv(self.trainer_argv, weights)
        question = source_job(plan.inputs, checkpoint, seed=None, size=None)
        try:
            folder = ask_worker(SOURCE, question, shop, online=not plan.inputs.source.is_folder)["folder"]
            (verdict,) = compare_logits(argv, (Path(folder),), shop, engine=self.engine, dtype=dtype)
        except RunFailed:  # e.g. a source without a tokenizer; the tensors decide
            return None
        if verdict.unloaded:
            return None
        return verdict


def _refuse(plan: ConversionPlan, problems: Sequence[str]) -> None:
    if problems:
        raise RunFailed(
            f"The converted checkpoint is not its source: {'; '.join(problems)}.",
            fix=f"Convert with another MaxText release, or report it with the model's name, {plan.inputs.model}.",
        )


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
    lacking: list[str] = []
    weights = next((name for name in WEIGHTS if (folder / name).is_file()), None)
    if weights is None:
        lacking.append(WEIGHTS[0])
    if weights == WEIGHTS[1]:  # the index of a model in several files names them
        shards = _read_json_object(folder / weights, folder=folder).get("weight_map")
        if isinstance(shards, dict):
            names = sorted(set(map(str, shards.values())))
            lacking += [name for name in names if not (folder / name).is_file()]
    if not any((folder / name).is_file() for name in TOKENIZERS):
        lacking.append(TOKENIZERS[0])
    if lacking:
        return f"{', '.join(lacking)} missing"
    try:
        read_headers(*read_folder(folder))
    except (OSError, ValueError) as wrong:
        return str(wrong)
    return ""


def _read_json_object(path: Path, *, folder: Path) -> Mapping[str, Any]:
    try:
        read = json.loads(read_bytes(path, limit=LARGEST))
    except (OSError, ValueError, RecursionError) as problem:
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
