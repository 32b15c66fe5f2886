"""What the trainer must see in its environment on this machine. Pure.

The rest (PATH, a private HF_HOME and TMPDIR) depends on the machine and is added by `effects.local_run`.
"""

from __future__ import annotations

from xsft.spec.resolve import Run

FILE_FORMATS = ("json", "parquet", "csv", "arrow", "text")
"""Loaders of Hugging Face's datasets that read files: as hf_path they want hf_train_files."""

OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


def local_env(run: Run) -> dict[str, str]:
    """JAX on the CPU, and no network where everything the run reads is named by a path."""
    return {"JAX_PLATFORMS": "cpu", **(OFFLINE if reads_only_files(run) else {})}


def reads_only_files(run: Run) -> bool:
    """Whether data, tokenizer and checkpoint are all paths of this machine."""
    data, model = run.spec.data, run.spec.model
    rows_are_files = _is_path(data.hf_path) or (data.hf_path in FILE_FORMATS and _is_path(data.hf_train_files))
    return (
        rows_are_files
        and _is_path(model.tokenizer)
        and model.hf is None
        and not (run.checkpoint or "").startswith("gs://")
    )


def _is_path(value: str | None) -> bool:
    """Hub ids (`org/name`) and relative paths look alike; a path says so by how it starts."""
    return value is not None and value.startswith(("/", "./", "../", "~", "xsft://"))
