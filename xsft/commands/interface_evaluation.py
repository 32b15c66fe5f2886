"""Documents about evaluations and samples."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from xsft.commands.interface_base import Document
from xsft.evaluation.inputs import PromptTurn
from xsft.evaluation.report import EvaluationReport, MeasuredAnswer


class SampledPrompt(Document, frozen=True, kw_only=True):
    """One prompt and its answers."""

    prompt: list[PromptTurn]
    base: MeasuredAnswer | None
    """Of the weights before the training; null without --base."""
    tuned: MeasuredAnswer


class SampleDocument(Document, frozen=True, kw_only=True):
    """`xsft sample RUN --prompt TEXT --json`."""

    schema_: Literal["xsft.sample/1"] = field(name="schema")
    run_name: str
    step: int
    """Step of the checkpoint."""
    weights: str
    """Path of the checkpoint."""
    samples: list[SampledPrompt]


class EvaluationDocument(Document, EvaluationReport, frozen=True, kw_only=True):
    """The file `evaluation.json` of an evaluate stage."""

    schema_: Literal["xsft.evaluation/1"] = field(name="schema")
