"""The stages around the training: convert, evaluate, export, serve. A pipeline runs them in order. They are not part of
the training's digest.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError

from xsft.base.errors import UsageError
from xsft.base.stage import STAGES, StageName
from xsft.catalog.machines import serving_types
from xsft.spec.base import DnsLabel, ImageRef, Section, StoragePath
from xsft.spec.export_inputs import destination
from xsft.spec.serving_inputs import Exposure, WeightsBy

MOST_NEW_TOKENS = 2**16
"""Maximum tokens of one answer of an evaluation; greedy decoding here has no cache, so long answers take hours."""
MOST_ROWS = 10**6
"""Maximum number of rows whose loss is measured."""

Prompt = Annotated[str, StringConstraints(min_length=1)]
"""The text of one user turn."""


def _expression(value: str) -> str:
    """Return the value; raise an error for text that is not a regular expression."""
    try:
        re.compile(value)
    except re.error as wrong:
        raise ValueError(f"{value!r} is not a valid regular expression: {wrong}") from None
    return value


Expression = Annotated[str, StringConstraints(min_length=1), AfterValidator(_expression)]
"""A regular expression, as Python's `re.search` reads it."""


class ConvertStage(Section):
    """Conversion of `model.hf`. A workload with `model.hf` always has this stage."""


class AnswerRule(Section):
    """A requirement for an answer of the tuned model."""

    prompt: int = Field(ge=0)
    """Number of the prompt, from 0."""
    matches: Expression
    """Regular expression that the answer must contain."""


class EvaluateStage(Section):
    """Answers and losses of the base model and the tuned model, and a verdict."""

    prompts: list[Prompt] | StoragePath | None = None
    """Prompts, or a .jsonl file with prompts; if unset, the first five user turns of the held-out split."""
    max_new_tokens: int = Field(default=128, ge=1, le=MOST_NEW_TOKENS)
    """Maximum tokens of one answer."""
    split: str | None = None
    """Split whose loss is measured; if unset, `data.hf_eval_split`."""
    rows: int = Field(default=200, ge=1, le=MOST_ROWS)
    """Number of rows, from the first row of the split, whose loss is measured."""
    require: list[AnswerRule] = Field(default_factory=list)
    """Rules for the tuned model's answers; if one is not met, the pipeline ends with exit status 6."""
    max_eval_loss: float | None = Field(default=None, gt=0)
    """Maximum loss of the tuned model on the split; above it, the verdict is `failed`."""
    limit_s: int = Field(default=7200, ge=60, le=7 * 24 * 3600)
    """Maximum seconds for the evaluation on a cluster, from the start of its pods; then the stage fails. After a
    preemption, if `restarts` allows it, the evaluation starts again with the same limit."""


def _export_form(value: str) -> str:
    """Return the value; raise an error if an export cannot be written to this address."""
    try:
        destination(value)
    except UsageError as wrong:
        raise ValueError(f"{wrong.message} {wrong.fix}") from None
    return value


ExportTo = Annotated[StoragePath, AfterValidator(_export_form)]


class ExportStage(Section):
    """Export to Hugging Face's format, with the tokenizer and the chat template of the training."""

    to: ExportTo | None = None
    """Destination; if unset, the run's output. A folder or gs:// path: the export is written below it, to
    `<run_name>-export/<12 hex digits>`. Or `hf://owner/name`: a new repository on the hub, written with the token of
    `secrets.hf_token` (on this machine, with the login of `hf auth login`)."""
    what: Literal["full", "adapters", "merged"] | None = None
    """Weights to export; if unset, `full`, or `merged` for a workload with `lora`."""
    verify: Literal["tensors", "logits"] = "tensors"
    """How the export is compared with the checkpoint: `tensors`, or `logits` too, computed by an independent engine."""


def _known_serving_type(name: str) -> str:
    """Return the name; raise an error with similar names if serving_shapes.toml does not have it."""
    allowed = serving_types()
    if name not in allowed:
        similar = get_close_matches(name, allowed, n=1)
        fix = f"Did you mean {similar[0]}?" if similar else "Give tpu or gpu for the smallest one that holds the model."
        context = {"known": ", ".join(allowed), "fix": fix}
        raise PydanticCustomError("serving_type_unknown", "no such accelerator; allowed: {known}", context)
    return name


ServingType = Annotated[
    str,
    AfterValidator(_known_serving_type),
    WithJsonSchema({"type": "string", "enum": list(serving_types())}),
]


class ServeStage(Section):
    """An OpenAI-compatible server of the export: vLLM on a cluster, mlx-lm on this machine."""

    image: ImageRef | None = None
    """Image with vLLM for a cluster, pinned by digest: `vllm/vllm-tpu@sha256:…`, or `vllm/vllm-openai@sha256:…` for
    GPUs."""
    type: ServingType = "tpu"
    """Accelerators of the server: `tpu` or `gpu` selects the smallest machine with enough memory; or name a machine,
    e.g. `v6e-4`, `l4-2`."""
    max_model_len: int | None = Field(default=None, ge=1)
    """Maximum tokens of prompt and answer together; if unset, `train.max_target_length`."""
    weights: WeightsBy = "copy"
    """How the pod reads an export on gs://. `copy`: a container copies it into the host's memory and checks it. `fuse`:
    the Cloud Storage FUSE CSI driver mounts the bucket; the cluster must have this add-on."""
    expose: Exposure = "cluster"
    """Access to the server. `cluster`: pods of the cluster. `vpc`: also machines in its VPC network, through an
    internal load balancer. The server has no login, so it is never public."""
    service_account: DnsLabel | None = None
    """Kubernetes service account with read access to the bucket; if unset, the namespace's default."""


class Stages(Section):
    """The stages around the training. A stage runs if it has a section, even an empty one (`export: {}`)."""

    convert: ConvertStage | None = None
    evaluate: EvaluateStage | None = None
    export: ExportStage | None = None
    serve: ServeStage | None = None


def later_stages(stages: Stages) -> tuple[StageName, ...]:
    """Return the stages after the training, in order. Serving reads an export, so it has an export stage."""
    exports = stages.export is not None or stages.serve is not None
    requested = {"evaluate": stages.evaluate is not None, "export": exports, "serve": stages.serve is not None}
    return tuple(name for name in STAGES if requested.get(name))
