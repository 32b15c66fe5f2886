"""The inputs of a conversion, their digest, and the folder that it names. Pure.

The folder is known without a network: a repository counts by its name and the revision in the workload. The commit from
the hub is recorded with the result, and is not part of the name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import Struct, field

from xsft.base.stage import ResultRecord, decode_record

BRANCH = "main"
"""The hub's default branch; source: huggingface_hub@1.0.0 constants.py DEFAULT_REVISION."""

COMMIT_DIGITS = 40
DIGITS = 12


class ConversionSource(Struct, frozen=True, kw_only=True):
    """Hugging Face weights: a repository of the hub, or a folder of this machine."""

    repo: str
    """`owner/name`, or the absolute path of the folder."""
    revision: str | None = None
    """Branch, tag or commit as the workload writes it; None: the hub's default branch. None for a folder."""
    commit: str | None = None
    """Commit by the hub's answer, 40 hex digits; None if it was not asked or did not answer."""
    content: str | None = None
    """sha256 over a folder's files. None for a repository, and for a folder that could not be read."""

    @property
    def is_folder(self) -> bool:
        return is_folder(self.repo)

    @property
    def pinned(self) -> bool:
        """Return whether the source is fixed: no later push can change what is converted."""
        return self.is_folder or is_commit(self.revision)

    @property
    def identity(self) -> Mapping[str, str]:
        """Return what identifies the source: a folder counts by its content, whatever its path."""
        if self.content is not None:
            return {"content": self.content}
        return {"repo": self.repo, "revision": self.revision or BRANCH}


class ConversionInputs(Struct, frozen=True, kw_only=True):
    """The values that decide which bytes a conversion writes."""

    source: ConversionSource
    model: str
    """MaxText's model_name."""
    release: str
    """Release of MaxText."""
    scan_layers: bool
    param_scan_axis: int
    use_zarr3: bool = False
    use_ocdbt: bool = False
    """Without both, each mode can read the result."""
    dtype: str = "bfloat16"
    """Data type of the saved weights."""
    keys: Mapping[str, Any] = field(default_factory=dict)
    """MaxText's keys that change the model's arrays."""
    sized: bool = False
    """Whether the converter's tables must get the workload's sizes in place of the named model's. It joins the digest
    only then: earlier conversions of other sizes were right."""

    @property
    def digest(self) -> str:
        """Return 64 hex digits over the inputs that decide the result, without the hub's answer."""
        inputs = {name: getattr(self, name) for name in self.__struct_fields__ if name != "source"}
        if not self.sized:
            del inputs["sized"]
        text = json.dumps({**inputs, "source": self.source.identity}, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def directory_of(inputs: ConversionInputs, *, output: str) -> str:
    """Return base_output_directory of the first attempt: `<output>/converted/<model>-<12 hex digits>`."""
    return f"{output.rstrip('/')}/converted/{inputs.model}-{inputs.digest[:DIGITS]}"


def items(directory: str) -> str:
    """Return the path of the checkpoint in the folder: conversions save as step 0. source: maxtext@0.2.5
    checkpoint_conversion/to_maxtext.py."""
    return f"{directory}/0/items"


def is_folder(repo: str) -> bool:
    """Return whether the weights are on this machine."""
    return repo.startswith(("/", "./", "../"))


def is_commit(revision: str | None) -> bool:
    return revision is not None and len(revision) == COMMIT_DIGITS and set(revision) <= set("0123456789abcdef")


RECORD_FILE = "xsft/conversion.json"
MAX_RECORD_BYTES = 1 << 20


class ConversionRecord(ResultRecord, frozen=True, kw_only=True):
    """Record of a conversion. Its inputs are `ConversionInputs`, with the commit that the hub answered."""

    SCHEMA: ClassVar[str] = "xsft.conversion/1"

    verified: str = ""
    """How the checkpoint was compared with its source; empty if it was not."""

    @property
    def commit(self) -> str | None:
        source = self.inputs.get("source")
        commit = source.get("commit") if isinstance(source, dict) else None
        return commit if isinstance(commit, str) else None


_RECORD = msgspec.json.Decoder(ConversionRecord)
"""Made once: two threads in which msgspec describes a type at the same time crash the process (msgspec@0.22.0)."""


def read_conversion(content: bytes) -> ConversionRecord | None:
    """Return the record; None for other or incomplete content."""
    return decode_record(content, _RECORD)
