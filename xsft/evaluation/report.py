"""The result of an evaluation, `evaluation.json`: the measurement and the verdict. Pure.

The JSON Schema is xsft/schemas/evaluation.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from xsft.base.reporting import WorkEvent
from xsft.evaluation.inputs import FIRST_TURNS, Conversation, EvaluationPlan
from xsft.workers.delivery import pod_argv, programs_digest
from xsft.workers.evaluation_verdict import Judgement

SCHEMA = "xsft.evaluation/1"
MAX_BYTES = 1 << 26


class MeasuredAnswer(Struct, frozen=True, kw_only=True):
    """The greedy answer to one prompt."""

    tokens: tuple[int, ...]
    text: str
    """Without special tokens."""
    ended: Literal["stop", "length", "context"]
    """`stop`: by the token that ends an answer; `length`: max_new_tokens; `context`: max_target_length is full."""
    prompt_cut: bool = False
    """Whether the start of the prompt was left out, because it is longer than max_target_length."""


class MeasuredWeights(Struct, frozen=True, kw_only=True):
    """The measured values of the base or the tuned weights."""

    answers: tuple[MeasuredAnswer, ...]
    loss: float | None
    """Mean cross-entropy in nats over the trained targets of the held-out rows; None without a split, and if it is
    not finite."""
    targets: int
    """Number of those targets."""
    rows: int


class Measurement(Struct, frozen=True, kw_only=True):
    """The answer of the program in MaxText's environment."""

    prompts: tuple[Conversation, ...]
    base: MeasuredWeights | None
    """None if only the tuned weights were asked."""
    tuned: MeasuredWeights


class EvaluationReport(WorkEvent, frozen=True, kw_only=True):
    """The content of evaluation.json. Unknown keys are ignored."""

    run_name: str
    training: str
    step: int
    """Step of the tuned checkpoint."""
    digest: str
    """Digest of all that decides the evaluation, 64 hex digits; its folder's name has 12 of them."""
    weights: str
    """The tuned checkpoint."""
    base_weights: str
    """The checkpoint that the training started from, or that its weights were random."""
    max_new_tokens: int
    finished_at: str
    """UTC, ISO 8601."""
    prompts: tuple[Conversation, ...]
    base: MeasuredWeights
    tuned: MeasuredWeights
    judgement: Judgement
    worker: str
    """sha256 of the program that measured, 64 hex digits."""


def measurement_of(found: dict[str, Any]) -> Measurement:
    """Return the worker's answer. Raises msgspec.ValidationError for another document."""
    models = found["models"]
    told = {"prompts": found["prompts"], "base": models.get("base"), "tuned": models["tuned"]}
    return msgspec.convert(told, Measurement)


def known_before(plan: EvaluationPlan, *, worker: str) -> dict[str, Any]:
    """Return the fields of evaluation.json that are known before the measurement."""
    return {
        "schema": SCHEMA,
        "run_name": plan.run_name,
        "training": plan.training,
        "step": plan.inputs.step,
        "digest": plan.digest,
        "weights": plan.weights,
        "base_weights": plan.base,
        "max_new_tokens": plan.inputs.max_new_tokens,
        "worker": worker,
    }


_REPORT = msgspec.json.Decoder(EvaluationReport)


def from_json(content: bytes) -> EvaluationReport | None:
    """Return the report; None for other or incomplete content."""
    try:
        return _REPORT.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


PROGRAM = "xsft.workers.measure_weights"
"""The program that measures on this machine."""
IN_POD = "xsft.workers.evaluation_container"
"""The program that measures and judges on a cluster; it runs the same functions."""


def program_job(plan: EvaluationPlan) -> dict[str, Any]:
    """Return the question to the program, as its docstring explains it."""
    return {
        "models": [{"name": "base", "argv": plan.base_argv}, {"name": "tuned", "argv": plan.tuned_argv}],
        "prompts": msgspec.to_builtins(plan.inputs.prompts),
        "most_prompts": FIRST_TURNS,
        "max_new_tokens": plan.inputs.max_new_tokens,
        "rows": plan.inputs.rows,
    }


def evaluation_argv(plan: EvaluationPlan, *, end: Mapping[str, Any], carried: str | None) -> tuple[str, ...]:
    """Return the command that measures on a host of a cluster, judges, and writes to the plan's output. `end`: how the
    program records the end of the run's attempt (`launcher.cpujob`); `carried`: as in `pod_argv`."""
    noted = known_before(plan, worker=programs_digest())
    notes = {**program_job(plan), **end, "noted": noted, "rules": msgspec.to_builtins(plan.inputs.rules)}
    return pod_argv(IN_POD, notes, (plan.result,), carried=carried)
