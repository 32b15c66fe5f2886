"""The inputs of an evaluation, their digest, and the folder that it names. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

from xsft.workers.evaluation_verdict import AnswerPattern, EvaluationRules

DIGITS = 12
FIRST_TURNS = 5
"""Prompts taken from the held-out split if the workload names none."""


class PromptTurn(Struct, frozen=True, kw_only=True):
    """One message of a prompt."""

    role: str
    content: str


Conversation = tuple[PromptTurn, ...]
"""The messages before the answer, the user's last one at the end."""


class EvaluationInputs(Struct, frozen=True, kw_only=True):
    """The values that decide the content of an evaluation."""

    training: str
    """run_name of the training."""
    training_digest: str
    """spec_digest of the training, 64 hex digits."""
    step: int
    """Step of the tuned checkpoint."""
    release: str
    """Release of MaxText."""
    max_new_tokens: int
    prompts: tuple[Conversation, ...] | None
    """None: the turns before the first answer of the held-out split's first rows."""
    held_out: Mapping[str, Any] = field(default_factory=dict)
    """MaxText's keys that name the held-out split; empty without one."""
    rows: int = 0
    """Rows of the held-out split whose loss is measured, from the first one; 0 without a split."""
    require: tuple[AnswerPattern, ...] = ()
    max_eval_loss: float | None = None

    @property
    def rules(self) -> EvaluationRules:
        """Return the limits with which the measurement is compared."""
        return EvaluationRules(require=self.require, rows=self.rows, max_eval_loss=self.max_eval_loss)

    @property
    def digest(self) -> str:
        """Return 64 hex digits over the inputs that decide the result."""
        text = json.dumps(msgspec.to_builtins(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def turn(text: str) -> Conversation:
    """Return the prompt of one user turn."""
    return (PromptTurn(role="user", content=text),)


def directory_of(inputs: EvaluationInputs, *, output: str, run_name: str) -> str:
    """Return the folder of the first attempt: `<output>/<run_name>/<12 hex digits>`."""
    return f"{output.rstrip('/')}/{run_name}/{inputs.digest[:DIGITS]}"


FILE = "evaluation.json"


class EvaluationPlan(Struct, frozen=True, kw_only=True):
    """One evaluation: a run of its own, `<training>-evaluate`."""

    run_name: str
    output: str
    """base_output_directory of the training; the evaluation's own files are in `<output>/<run_name>/xsft/`."""
    inputs: EvaluationInputs
    directory: str
    """Folder of the first attempt; its name has 12 digits of the digest."""
    weights: str
    """The tuned checkpoint, `…/checkpoints/<step>/model_params`."""
    base: str
    """What the training started from, for readers: a checkpoint, or that the weights were random."""
    base_argv: tuple[str, ...]
    """The trainer's command line with the weights that the training started from, and the keys of a measurement."""
    tuned_argv: tuple[str, ...]
    """The same with the tuned weights."""

    @property
    def result(self) -> str:
        """Return the path of the report of the first attempt."""
        return f"{self.directory}/{FILE}"

    @property
    def digest(self) -> str:
        """Return the digest, as `EvaluationInputs.digest`."""
        return self.inputs.digest

    @property
    def training(self) -> str:
        return self.inputs.training
