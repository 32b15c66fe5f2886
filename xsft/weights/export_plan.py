"""The plan of `xsft checkpoint export`. Pure data."""

from __future__ import annotations

from msgspec import Struct

from xsft.spec.export_inputs import HF_PREFIX, ExportInputs
from xsft.weights.export_record import ExportRecord


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
