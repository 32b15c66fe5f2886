"""Verifies a converted checkpoint against its Hugging Face weights: by logits, or tensor by tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from xsft.base.errors import RunFailed
from xsft.environments.installed import BuiltEnvironment
from xsft.launch.local_machine import Machine
from xsft.machine.chance import random_hex
from xsft.machine.memory import memory_bytes
from xsft.machine.scratch import scratch_folder
from xsft.stages.export_verify import compare_logits
from xsft.stages.export_work import ExportShop, ask_worker
from xsft.stages.served_model import reads_type
from xsft.weights.conversion_plan import SOURCE, ConversionPlan, source_job
from xsft.weights.engines import UNLOADED, model_type
from xsft.weights.export_verification import LOGITS_BOUNDS, LogitsVerdict, logits_memory, logits_problems
from xsft.weights.exporter import forward_argv


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
        _refuse(plan, tuple(logits_problems(verdict, bound=LOGITS_BOUNDS[plan.inputs.dtype])))
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
        return None if verdict.unloaded else verdict


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
