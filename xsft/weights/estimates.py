"""Estimate the memory and disk that a conversion and an export take, from the size of the model. Pure. Estimates are
generous, not exact.

Conversion, measured: maxtext@0.2.5 to_maxtext holds every converted array in memory until the save ends
(checkpoint_conversion/utils/utils.py save_weights_to_checkpoint), even if it loads lazily, and 0.5 GB besides; a tiny
model peaks at 0.49 GB, one of 0.71 GB at 1.20 GB (0.99 GB of it anonymous). Reported: qwen3-235b (470 GB) ran out of
400 GB (maxtext issue 3418), Kimi K2.6 took 2.3 TB for 2 TB (issue 4071), a 405B model 1.6 to 2.9 TB in float32 (issue
864).

Export: maxtext@0.2.5 checkpoint_conversion/to_huggingface.py loads the whole checkpoint and holds every exported array
beside it until the files are written. Measured with a tiny model: 0.75 GB, nearly all of it Python, JAX and MaxText.
"""

from __future__ import annotations

from msgspec import Struct

from xsft.catalog.arrays import exact_parameters
from xsft.catalog.models import model, names
from xsft.spec.conversion_inputs import ConversionInputs
from xsft.spec.export_inputs import ExportInputs

GIB = 2**30
WIDTH = {"bfloat16": 2, "float32": 4}
"""Bytes of one parameter."""
PROCESS_BYTES = GIB
"""Bytes of Python, JAX and MaxText without any weights."""
LAZY = 1.2
EAGER = 2.2
"""Factors of the saved weights. Eager: the loaded weights are held beside the converted ones."""
DOWNLOAD = 1.1
"""Factor of the repository: the tokenizer and files in other formats are downloaded too."""


class ConversionEstimate(Struct, frozen=True, kw_only=True):
    """Estimated bytes at the peak."""

    memory: int
    output: int
    """Bytes of the checkpoint, in the output."""
    download: int
    """Bytes of the Hugging Face files, in the hub's cache; 0 for a folder of this machine."""


def estimate(inputs: ConversionInputs, *, lazy: bool, source_bytes: int | None = None) -> ConversionEstimate | None:
    """Return the estimate; None if the size of the model is unknown. `source_bytes`: of the safetensors files, if
    known."""
    parameters = parameters_of(inputs, source_bytes=source_bytes)
    if parameters is None:
        return None
    saved = parameters * WIDTH[inputs.dtype]
    download = 0 if inputs.source.is_folder else source_bytes or parameters * WIDTH["bfloat16"]
    factor = LAZY if lazy else EAGER
    return ConversionEstimate(
        memory=int(saved * factor) + PROCESS_BYTES, output=saved, download=int(download * DOWNLOAD)
    )


def parameters_of(inputs: ConversionInputs, *, source_bytes: int | None) -> int | None:
    """Return the parameters of the arrays that MaxText will save; else the catalogue's count, else what bfloat16 files
    would hold."""
    exact = exact_parameters(inputs.model, inputs.keys, release=inputs.release)
    if exact is not None or source_bytes is not None:
        return exact or (source_bytes or 0) // WIDTH["bfloat16"]
    params_b = model(inputs.model).params_b if inputs.model in names() else None
    return int(params_b * 1e9) if params_b else None


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
