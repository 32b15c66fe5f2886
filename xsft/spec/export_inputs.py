"""The inputs of an export, and their digest. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from xsft.base.errors import UsageError

ExportForm = Literal["full", "adapters", "merged"]
"""`full`: all weights of a full fine-tuning. `adapters`: LoRA's matrices for PEFT. `merged`: the base model with LoRA's
update added."""
FORMS: tuple[ExportForm, ...] = ("full", "adapters", "merged")

ExportDtype = Literal["bfloat16", "float32"]
DTYPES: tuple[ExportDtype, ...] = ("bfloat16", "float32")
DIGITS = 12
REPOSITORY = r"[A-Za-z0-9][-._A-Za-z0-9]*/[-._A-Za-z0-9]+"
"""A repository of the hub, `owner/name`."""
HF_PREFIX = "hf://"
"""Start of a destination on the hub; source: maxtext@0.2.5 checkpoint_conversion/to_huggingface.py."""


class LoraScale(Struct, frozen=True, kw_only=True):
    """The update is alpha / rank times the product of the two matrices."""

    rank: int
    alpha: float


class ExportSource(Struct, frozen=True, kw_only=True):
    """The Hugging Face model whose weights the training started from."""

    repo: str
    """`owner/name`, or the absolute path of a folder."""
    revision: str | None = None
    """Commit, branch or tag that was converted; None: the hub's default branch, or a folder."""
    guessed: bool = False
    """Whether it is only MaxText's repository for the model: nothing recorded where the weights came from."""


class ExportInputs(Struct, frozen=True, kw_only=True):
    """The values that decide which bytes an export writes."""

    training: str
    """run_name of the training."""
    training_digest: str
    """spec_digest of the training, 64 hex digits."""
    step: int
    weights: str
    """Path of the checkpoint, `…/checkpoints/<step>/model_params`."""
    content: str
    """sha256 over the checkpoint's small files, 64 hex digits: another save has another one."""
    form: ExportForm
    dtype: ExportDtype
    release: str
    """Release of MaxText."""
    model: str
    """MaxText's model_name."""
    keys: tuple[str, ...]
    """Arguments of MaxText that change the model's arrays, `key=value`."""
    base: str | None
    """load_parameters_path of the training; None if it began from random weights."""
    tokenizer: str
    """Folder or repository of the tokenizer that the training used."""
    tokenizer_name: str = ""
    """The relative path by which the workload names the folder; empty: it names it in another way."""
    tokenizer_revision: str | None = None
    """Commit, branch or tag that the training copied; None: the hub's default branch, or a folder."""
    pad_token: str = ""
    """Replaces the tokenizer's own; empty: its own."""
    bos_token: str = ""
    template: str | None = None
    """Chat template of the training; None: the tokenizer's own."""
    lora: LoraScale | None = None
    """None after a full fine-tuning."""
    hub: str | None = None
    """Repository of the hub that gets the files, `owner/name`; None: the export's folder has them."""
    source: ExportSource | None = None
    """Has the config.json of the exported model, and is the base of adapters; None: the exporter's."""

    @property
    def digest(self) -> str:
        """Return 64 hex digits over the inputs that decide the result, without paths, because folders may move. The
        training's digest covers its source."""
        left_out = {"weights", "base", "source", "tokenizer_name"}
        left_out |= {name for name in ("hub", "tokenizer_revision") if getattr(self, name) is None}  # of older records
        inputs = {**msgspec.to_builtins(self), "tokenizer": self.tokenizer_name or self.tokenizer}
        return _sha256({name: value for name, value in inputs.items() if name not in left_out})


def destination(to: str | None) -> tuple[str | None, str | None]:
    """Return the destination's repository on the hub, and its folder: at most one of them. Raises UsageError for any
    other address."""
    if to is None or "://" not in to or to.startswith("gs://"):
        return None, to
    repo = to.removeprefix(HF_PREFIX)
    if not to.startswith(HF_PREFIX) or re.fullmatch(REPOSITORY, repo) is None:
        fix = "Give a folder, gs://bucket/path, or hf://owner/name."
        raise UsageError(f"{to} is not a valid destination for an export.", fix=fix, id="export-destination")
    return repo, None


def directory_of(inputs: ExportInputs, *, output: str) -> str:
    """Return the folder of the first attempt: `<output>/<training>-export/<12 hex digits>`."""
    return f"{output.rstrip('/')}/{inputs.training}-export/{inputs.digest[:DIGITS]}"


def content_of(files: Mapping[str, bytes]) -> str:
    """Return the digest of a checkpoint's small files, by name."""
    return _sha256({name: hashlib.sha256(content).hexdigest() for name, content in files.items()})


def _sha256(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
