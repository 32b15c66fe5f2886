"""Verifies exports and conversions: headers here, values and logits in the environments that can read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from xsft.base.errors import RunFailed
from xsft.catalog.weights import UNLOADED, model_type
from xsft.environments.ask import Interpreter, ProgramFailed, ask
from xsft.environments.installed import BuiltEnvironment
from xsft.launch.local_machine import Machine, program_environment
from xsft.machine.memory import memory_bytes
from xsft.machine.paths import random_hex, scratch_folder
from xsft.spec.export_inputs import ExportDtype
from xsft.spec.keypath import printable
from xsft.stages.served_model import reads_type
from xsft.weights.conversion_plan import SOURCE, ConversionPlan, source_job
from xsft.weights.export_record import LOGITS_BOUNDS, ExportPlan, LogitsVerdict, Verification, logits_memory
from xsft.weights.exporter import forward_argv, logits_argv, merged_dtype
from xsft.workers.export_judging import logits_problems

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
    return tuple(LogitsVerdict(**{**one, "worst": tuple(one["worst"])}, engine=name) for one in answer["folders"])


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


def with_logits(found: Verification, verdict: LogitsVerdict, *, dtype: ExportDtype) -> Verification:
    return replace(found, logits=verdict, problems=(*found.problems, *problems_of_logits(verdict, dtype=dtype)))


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
                return _compare_tensors(plan, checkpoint, shop)
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


def _compare_tensors(plan: ConversionPlan, checkpoint: str, shop: ExportShop) -> str:
    size = plan.estimate.output if plan.estimate else None
    job = source_job(plan.inputs, checkpoint, seed=int(random_hex(4), 16), size=size)
    answer = ask_worker(SOURCE, job, shop, online=not plan.inputs.source.is_folder)
    _refuse(plan, answer["problems"])
    return f"{answer['compared']} of {answer['all']} tensors equal the source's"


def _refuse(plan: ConversionPlan, problems: Sequence[str]) -> None:
    if problems:
        raise RunFailed(
            f"The converted checkpoint is not its source: {'; '.join(problems)}.",
            fix=f"Convert with another MaxText release, or report it with the model's name, {plan.inputs.model}.",
        )
