"""The plan of `xsft checkpoint convert`, on this machine or on a cluster. Pure data."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from xsft.spec.conversion_inputs import ConversionInputs, ConversionRecord, items
from xsft.trainer.arguments import argument
from xsft.weights.estimates import ConversionEstimate
from xsft.weights.export_record import ALL_BELOW_BYTES, SAMPLE

SOURCE = "xsft.workers.compare_source"
"""Program that answers `source_job`."""


class ConversionPlan(Struct, frozen=True, kw_only=True):
    """One attempt of a conversion: a run of its own, `<run_name>-convert`."""

    run_name: str
    training: str
    """run_name of the run that starts from the result."""
    output: str
    """base_output_directory of both; the conversion's own files are in `<output>/<run_name>/xsft/`."""
    inputs: ConversionInputs
    first: str
    """Folder of the first attempt, which names the conversion."""
    directory: str
    """base_output_directory of this attempt."""
    argv: tuple[str, ...]
    """`python3 -m …to_maxtext …`."""
    estimate: ConversionEstimate | None
    """Estimated sizes; None if the model's size is unknown."""
    whole: str | None = None
    """load_parameters_path of an earlier conversion; None without a complete one."""
    recorded: ConversionRecord | None = None
    """Its record; None without one, as after a conversion by hand."""
    why_not: str = ""
    """Why the newest attempt is incomplete, or could not be read."""
    unread: bool = False
    """Whether the newest attempt could not be read, so that it may be complete."""
    broken: tuple[str, ...] = ()
    """Folders of attempts without a complete checkpoint. They are kept."""

    @property
    def checkpoint(self) -> str:
        """Return load_parameters_path of the training."""
        return items(self.directory)

    @property
    def digest(self) -> str:
        """Return the digest, as `ConversionInputs.digest`."""
        return self.inputs.digest

    @property
    def why(self) -> str:
        """Return why the weights are converted now."""
        if self.broken:
            return f"{', '.join(self.broken)} is incomplete and is kept"
        return "these weights were not converted with these flags before"


def source_job(inputs: ConversionInputs, checkpoint: str, *, seed: int | None, size: int | None) -> dict[str, Any]:
    """Return the question to SOURCE. `seed`: of the choice of tensors, where not all are compared; None: only the
    source's folder is asked for. `size`: estimated bytes of the checkpoint; None: unknown."""
    keys = {
        "model_name": inputs.model.replace("-Instruct", ""),
        "scan_layers": inputs.scan_layers,
        "param_scan_axis": inputs.param_scan_axis,
        **inputs.keys,
        "hardware": "cpu",
        "skip_jax_distributed_system": True,
    }
    is_large = size is None or size >= ALL_BELOW_BYTES
    compared = {
        "argv": ["python3", "-m", "maxtext.checkpoint_conversion.to_huggingface", *map(argument, keys, keys.values())],
        "form": "full",
        "dtype": inputs.dtype,
        "weights": checkpoint,
        "base": None,
        "scaling": None,
        "sample": SAMPLE if is_large else None,
        "seed": seed,
    }
    source = {"repo": inputs.source.repo, "revision": inputs.source.commit or inputs.source.revision}
    return {"source": source, "compared": None if seed is None else compared}
