"""The result of an evaluation, `evaluation.json`: the measurement and the verdict. Pure.

The JSON Schema is xsft/schemas/evaluation.json.
"""

from __future__ import annotations

import json
import math
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from xsft.evaluation.inputs import Conversation, EvaluationInputs
from xsft.evaluation.plan import EvaluationPlan
from xsft.evaluation.verdict import Judgement, Losses, Matches, judge_evaluation

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


class EvaluationReport(Struct, frozen=True, kw_only=True):
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


def judgement_of(inputs: EvaluationInputs, measured: Measurement, *, matches: Matches) -> Judgement:
    """Return the verdict on a measurement."""
    losses = Losses(base=measured.base.loss if measured.base else None, tuned=measured.tuned.loss)
    answers = tuple(one.text for one in measured.tuned.answers)
    return judge_evaluation(inputs.rules, answers=answers, losses=losses, matches=matches)


def report_of(
    plan: EvaluationPlan, measured: Measurement, judgement: Judgement, *, at: str, worker: str
) -> EvaluationReport:
    """Return the report. Raises ValueError if the base was not measured."""
    if measured.base is None:
        raise ValueError("the base weights were not measured")
    return EvaluationReport(
        **known_before(plan, worker=worker),
        finished_at=at,
        prompts=measured.prompts,
        base=_finite(measured.base),
        tuned=_finite(measured.tuned),
        judgement=judgement,
    )


def known_before(plan: EvaluationPlan, *, worker: str) -> dict[str, Any]:
    """Return the fields of the report that are known before the measurement."""
    return {
        "run_name": plan.run_name,
        "training": plan.training,
        "step": plan.inputs.step,
        "digest": plan.digest,
        "weights": plan.weights,
        "base_weights": plan.base,
        "max_new_tokens": plan.inputs.max_new_tokens,
        "worker": worker,
    }


def _finite(measured: MeasuredWeights) -> MeasuredWeights:
    """Return it with a loss that JSON can hold: NaN and infinity become null; the rule on it keeps the value."""
    finite = measured.loss is not None and math.isfinite(measured.loss)
    return measured if finite else replace(measured, loss=None)


def to_json(report: EvaluationReport) -> str:
    document = {"schema": SCHEMA, **msgspec.to_builtins(report)}
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


_REPORT = msgspec.json.Decoder(EvaluationReport)


def from_json(content: bytes) -> EvaluationReport | None:
    """Return the report; None for other or incomplete content."""
    try:
        return _REPORT.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
