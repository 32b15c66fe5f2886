"""The plan of an export, and the record beside the exported model: its inputs, its files and its verification. Pure.

`<folder>/xsft/export.json`. Only a record whose outcome is `completed` makes the folder complete: it is written last,
after the verification.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

import msgspec
from msgspec import Struct, field

from xsft.base.stage import ResultRecord, decode_record
from xsft.spec.export_inputs import HF_PREFIX, ExportInputs

ALL_BELOW_BYTES = 20 * 10**9
"""Below this size of the checkpoint the values of all tensors are compared."""
SAMPLE = 64
"""Slices that are compared of a larger one, chosen by chance."""
LOGITS_BOUNDS: Mapping[str, float] = MappingProxyType({"float32": 2.0**-12, "bfloat16": 2.0**-11})
"""Largest difference of a position's logits, relative to its greatest one, by the data type of the weights. Both sides
compute in float32. Measured: 5e-5 for the true sizes of llama3.1, qwen2.5 and gpt-oss, between right readers 1e-4; a
wrong layout or position embedding gives 1e-2 to 1."""


LOGITS_FACTOR = 2.5
"""Memory of a comparison of logits, relative to the weights in float32: the model, and a copy while it is read."""
PROCESS_BYTES = 2**30
"""Bytes of Python, JAX and MaxText without any weights."""


def logits_memory(weights_bytes: int | None) -> int | None:
    """Return the bytes that comparing logits takes, for weights of two bytes each; None if their size is unknown. Both
    engines compute in float32."""
    return None if weights_bytes is None else int(weights_bytes * 2 * LOGITS_FACTOR) + PROCESS_BYTES


class LogitsVerdict(Struct, frozen=True, kw_only=True):
    """A comparison of the checkpoint's logits in MaxText with the export's in the engine, both in float32."""

    greatest_difference: float
    greatest_logit: float
    positions: int
    """Token positions compared."""
    same_argmax: int
    """Positions at which both choose the same token."""
    engine: str
    """Name and version."""

    differing: int = 0
    """Positions whose logits differ by more than the bound."""
    worst: tuple[str, ...] = ()
    """The positions that differ most, with the difference relative to the greatest logit."""
    unloaded: str = ""
    """Why the engine could not load the export, in its own words."""

    @property
    def relative(self) -> float:
        return self.greatest_difference / self.greatest_logit if self.greatest_logit else float("inf")


class Verification(Struct, frozen=True, kw_only=True):
    """The checks that were done, and the errors that they found."""

    problems: tuple[str, ...] = ()
    """Errors; empty if the export equals the checkpoint."""
    tensors: int = 0
    """In the safetensors headers."""
    compared: int = 0
    """Tensors of which every value was compared."""
    sampled: bool = False
    """Whether only a part was compared, because the model is large."""
    trained: int | None = None
    """Tensors that the training may change; None if the base was not compared."""
    changed: int | None = None
    """Compared tensors that differ from the base."""
    base: str = ""
    """Why the base was not compared; empty if it was."""
    config: str = ""
    """Why config.json is the exporter's; empty if it is the source model's."""
    logits: LogitsVerdict | None = None
    logits_skipped: str = ""
    """Why logits were not compared."""

    @property
    def passed(self) -> bool:
        return not self.problems


def verification_text(verified: Verification | None) -> str:
    """Return the verification as text for people."""
    if verified is None:
        return "its record contains no verification"
    sampled = " (chosen by chance)" if verified.sampled else ""
    base = verified.base
    if verified.trained:
        base = f"{verified.changed} of {verified.trained} trained ones differ from the base"
    logits = verified.logits
    agree = f"; logits agree to {logits.relative:.1e} of the greatest" if logits else ""
    skipped = f"; {verified.logits_skipped}" if verified.logits_skipped else ""
    config = f"; config.json is MaxText's: {verified.config}" if verified.config else ""
    compared = f"{verified.compared} of {verified.tensors} tensors{sampled} equal the checkpoint"
    return f"{compared}; {base}{agree}{skipped}{config}"


FILE = "xsft/export.json"
MAX_BYTES = 8 << 20


class ExportRecord(ResultRecord, frozen=True, kw_only=True):
    """Record of an export. Its inputs are `ExportInputs`."""

    SCHEMA: ClassVar[str] = "xsft.export/1"

    files: dict[str, int] = field(default_factory=dict)
    """Bytes of each file of the model, by its name in the folder."""
    verification: Verification | None = None
    commit: str | None = None
    """Commit of the hub's repository that has the files; None: they are in the folder."""


def missing_files(record: ExportRecord, *, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """Return the names of recorded files that the folder lacks, or holds with another size."""
    return tuple(name for name, size in record.files.items() if sizes.get(name) != size)


_RECORD = msgspec.json.Decoder(ExportRecord)
"""Made once: two threads in which msgspec describes a type at the same time crash the process (msgspec@0.22.0)."""


def from_json(content: bytes) -> ExportRecord | None:
    """Return the record; None for other or incomplete content."""
    return decode_record(content, _RECORD)


class ExportPlan(Struct, frozen=True, kw_only=True):
    """One attempt of an export: a run of its own, `<training>-export`."""

    run_name: str
    output: str
    """Folder or gs:// below which the exports are; on this machine `<output>/<run_name>/xsft/` has the run's files."""
    inputs: ExportInputs
    first: str
    """Folder of the first attempt, which names the export."""
    directory: str
    """The folder of this attempt: of its record, and of the Hugging Face files unless the hub has them."""
    folder: str
    """Folder that the exporter writes: `directory`, or in a pod a folder of its own disk."""
    argv: tuple[str, ...]
    """`python3 -m …to_huggingface …`."""
    trainer_argv: tuple[str, ...]
    """Command of the training, with which MaxText builds the model when logits are compared."""
    weights_bytes: int | None = None
    """Bytes of the files of the checkpoints that are read; None if unknown."""
    whole: str | None = None
    """The Hugging Face folder of an earlier export; None without a complete one."""
    recorded: ExportRecord | None = None
    """Its record; without a complete one, that of the newest attempt."""
    broken: tuple[str, ...] = ()
    """Folders of attempts that did not complete. They are kept."""

    @property
    def digest(self) -> str:
        """Return the digest, as `ExportInputs.digest`."""
        return self.inputs.digest

    @property
    def writes(self) -> str:
        """Return where the model is: the folder, or `hf://owner/name`."""
        return f"{HF_PREFIX}{self.inputs.hub}" if self.inputs.hub else self.directory

    @property
    def served(self) -> str:
        """Return what a server reads: the folder, or `owner/name@commit` of a complete export on the hub."""
        commit = f"@{self.recorded.commit}" if self.recorded and self.recorded.commit else ""
        return f"{self.inputs.hub}{commit}" if self.inputs.hub else self.directory

    @property
    def training(self) -> str:
        return self.inputs.training

    @property
    def why(self) -> str:
        """Return why the weights are exported now."""
        if self.broken:
            return f"{', '.join(self.broken)} is incomplete and is kept"
        return f"step {self.inputs.step} was not exported"
