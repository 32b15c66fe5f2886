"""The stages around the training: convert, evaluate, export, serve. A pipeline does them in order; the training's
digest has none of them.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from xsft.spec.base import ImageRef, Section, Storage

MOST_NEW_TOKENS = 2**16
"""Maximum tokens of one answer of an evaluation; greedy decoding here has no cache, so long answers take hours."""
MOST_ROWS = 10**6
"""Maximum rows whose loss is measured."""

Prompt = Annotated[str, StringConstraints(min_length=1)]
"""The text of one user turn."""


def _expression(value: str) -> str:
    """Return the value; raise an error for text that is no regular expression."""
    try:
        re.compile(value)
    except re.error as wrong:
        raise ValueError(f"{value!r} is no regular expression: {wrong}") from None
    return value


Expression = Annotated[str, StringConstraints(min_length=1), AfterValidator(_expression)]
"""A regular expression, as Python's `re.search` reads it."""


class ConvertStage(Section):
    """Conversion of `model.hf`. A workload with `model.hf` has this stage even if it does not name it."""


class AnswerRule(Section):
    """One requirement on the tuned model's answers."""

    prompt: int = Field(ge=0)
    """Number of the prompt, from 0."""
    matches: Expression
    """Regular expression that the answer must contain."""


class EvaluateStage(Section):
    """Answers and losses of the base and the tuned model, side by side, and a verdict."""

    prompts: list[Prompt] | Storage | None = None
    """Prompts, or a FILE.jsonl of them; if unset, the first five user turns of the held-out split."""
    max_new_tokens: int = Field(default=128, ge=1, le=MOST_NEW_TOKENS)
    """Maximum tokens of one answer."""
    split: str | None = None
    """Split whose loss is measured; if unset, `data.hf_eval_split`."""
    rows: int = Field(default=200, ge=1, le=MOST_ROWS)
    """Rows of the split whose loss is measured, from the first one."""
    require: list[AnswerRule] = Field(default_factory=list)
    """Rules for the tuned model's answers; a missed one ends the pipeline with exit status 6."""
    max_eval_loss: float | None = Field(default=None, gt=0)
    """Highest loss of the tuned model on the split that passes."""


class ExportStage(Section):
    """Export to Hugging Face's format, with the tokenizer and the chat template of the training."""

    to: Storage | None = None
    """Destination folder; if unset, `<output>/<run_name>-export/<12 hex digits of what is exported>`."""
    what: Literal["full", "adapters", "merged"] | None = None
    """Weights to export; if unset, `full`, and `merged` for a workload with `lora`."""
    verify: Literal["tensors", "logits"] = "tensors"
    """How the export is compared with the checkpoint: by its tensors, or also by logits in an independent engine."""


class ServeStage(Section):
    """An OpenAI-compatible server of the export."""

    image: ImageRef | None = None
    """Image of the server on a cluster, pinned by digest."""
    max_model_len: int | None = Field(default=None, ge=1)
    """Maximum tokens of prompt and answer; if unset, `train.max_target_length`."""


class Stages(Section):
    """What surrounds the training. A stage is done if it is named, be it with an empty section (`export: {}`)."""

    convert: ConvertStage | None = None
    evaluate: EvaluateStage | None = None
    export: ExportStage | None = None
    serve: ServeStage | None = None
