"""Documents about evaluations and samples."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from xsft.commands.interface_base import Document


class PromptTurnDocument(Document):
    """One message of a prompt."""

    role: str
    content: str


class AnswerDocument(Document):
    """The greedy answer to one prompt."""

    tokens: list[int]
    text: str
    """Without special tokens."""
    ended: Literal["stop", "length", "context"]
    """`stop`: by the token that ends an answer; `length`: max_new_tokens; `context`: max_target_length is full."""
    prompt_cut: bool
    """Whether the start of the prompt was left out, because it is longer than max_target_length."""


class SampledPrompt(Document):
    """One prompt and its answers."""

    prompt: list[PromptTurnDocument]
    base: AnswerDocument | None
    """Of the weights before the training; null without --base."""
    tuned: AnswerDocument


class SampleDocument(Document):
    """`xsft sample RUN --prompt TEXT --json`."""

    schema_: Literal["xsft.sample/1"] = Field(alias="schema")
    run_name: str
    step: int
    """Step of the checkpoint."""
    weights: str
    """Path of the checkpoint."""
    samples: list[SampledPrompt]


class MeasuredWeightsDocument(Document):
    """What was measured of the base or the tuned weights."""

    answers: list[AnswerDocument]
    """One a prompt."""
    loss: float | None
    """Mean cross-entropy in nats over the trained targets of the held-out rows; null without a split, and if it is
    not finite."""
    targets: int
    """Number of those targets."""
    rows: int


class RuleOutcomeDocument(Document):
    """One rule, and whether it holds."""

    rule: str
    passed: bool
    why: str
    """The values compared."""


class JudgementDocument(Document):
    """The verdict, and the rules behind it."""

    verdict: Literal["passed", "failed", "not-judged"]
    """`not-judged`: nothing was compared, because there is neither a rule nor a held-out split."""
    rules: list[RuleOutcomeDocument]


class EvaluationDocument(Document):
    """The file `evaluation.json` of an evaluate stage."""

    schema_: Literal["xsft.evaluation/1"] = Field(alias="schema")
    run_name: str
    """Run name of the evaluation: `<training>-evaluate`."""
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
    prompts: list[list[PromptTurnDocument]]
    base: MeasuredWeightsDocument
    tuned: MeasuredWeightsDocument
    judgement: JudgementDocument
    worker: str
    """sha256 of the program that measured, 64 hex digits."""
