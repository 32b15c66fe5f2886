"""Estimate the memory and disk that an export takes, from the size of its weights. Pure. Estimates are generous, not
exact.

source: maxtext@0.2.5 checkpoint_conversion/to_huggingface.py loads the whole checkpoint and holds every exported array
beside it until the files are written. Measured with a tiny model: 0.75 GB, nearly all of it Python, JAX and MaxText.
"""

from __future__ import annotations

from msgspec import Struct

from xsft.spec.export_inputs import ExportInputs

GIB = 2**30
WIDTH = {"bfloat16": 2, "float32": 4}
"""Bytes of one parameter."""
PROCESS_BYTES = GIB
"""Bytes of Python, JAX and MaxText without any weights."""
FACTOR = 1.2
"""Memory, relative to the checkpoint and the export together."""
FILES_BYTES = GIB
"""Bytes of the tokenizer, the hub's cache and other files without weights."""


class ExportEstimate(Struct, frozen=True, kw_only=True):
    """Estimated bytes."""

    memory: int
    """Memory at the peak."""
    disk: int
    """Size of the model, on the machine that writes it."""


def estimate_export(
    inputs: ExportInputs, *, parameters: int | None, weights_bytes: int | None
) -> ExportEstimate | None:
    """Return the estimate; None if the size is unknown. `parameters`: of the whole model; `weights_bytes`: of
    the checkpoints that are read, None before they are saved."""
    if inputs.form == "adapters" and weights_bytes is not None:
        written = loaded = weights_bytes
    elif parameters is not None:
        written = parameters * WIDTH[inputs.dtype]
        loaded = weights_bytes or parameters * WIDTH["float32"]
    elif weights_bytes is not None:
        written = loaded = weights_bytes
    else:
        return None
    return ExportEstimate(memory=int((loaded + written) * FACTOR) + PROCESS_BYTES, disk=written + FILES_BYTES)
