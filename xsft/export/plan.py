"""The plan of `xsft checkpoint export`. Pure data."""

from __future__ import annotations

from msgspec import Struct

from xsft.export.inputs import ExportInputs
from xsft.export.record import ExportRecord


class ExportPlan(Struct, frozen=True, kw_only=True):
    """One attempt of an export: a run of its own, `<training>-export`."""

    run_name: str
    output: str
    """Folder of this machine; the export's own files are in `<output>/<run_name>/xsft/`."""
    inputs: ExportInputs
    first: str
    """Folder of the first attempt, which names the export."""
    directory: str
    """The Hugging Face folder of this attempt."""
    argv: tuple[str, ...]
    """`python3 -m …to_huggingface …`."""
    trainer_argv: tuple[str, ...]
    """Command of the training: MaxText's model is built by it when logits are compared."""
    weights_bytes: int | None = None
    """Bytes of the checkpoint's files; None if unknown."""
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
    def training(self) -> str:
        return self.inputs.training
