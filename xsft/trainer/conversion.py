"""Convert Hugging Face weights to a MaxText checkpoint by one command on a CPU machine. Pure."""

from __future__ import annotations

from typing import Any

from xsft.catalog.releases import at_least
from xsft.spec.conversion_inputs import ConversionInputs
from xsft.spec.resolve import Run
from xsft.trainer.arguments import argument
from xsft.workers.delivery import text_of

SIZED = "xsft.workers.sized_converter"
"""Program that runs the converter with the workload's sizes."""


def conversion_argv(run: Run) -> tuple[str, ...] | None:
    """Return the `python3 -m …to_maxtext …` that converts the run's weights into the folder of the next attempt; None
    if the workload names a checkpoint or trains from scratch."""
    folder = run.next_try or run.converted
    if run.conversion is None or folder is None or run.output is None:
        return None
    release = run.release
    config = (release.base_config,) if release.layout == "legacy" else ()
    inputs = run.conversion
    keys = _conversion_keys(run, inputs, folder)
    program = ("-c", text_of(SIZED)) if inputs.sized else ("-m",)
    return ("python3", *program, release.to_maxtext, *config, *keys, *_flags(run, inputs))


def _conversion_keys(run: Run, inputs: ConversionInputs, directory: str) -> tuple[str, ...]:
    legacy = run.release.layout == "legacy"
    keys: dict[str, Any] = {
        "model_name": inputs.model,
        "hf_access_token": "none" if run.release.hf_access_token_none else None,
        "base_output_directory": directory,
        "scan_layers": inputs.scan_layers,
        "param_scan_axis": run.spec.overrides.maxtext.get("param_scan_axis"),
        "use_multimodal": None if legacy or _is_multimodal(run) else False,
        "hardware": None if legacy else "cpu",
        "checkpoint_storage_use_zarr3": inputs.use_zarr3,
        "checkpoint_storage_use_ocdbt": inputs.use_ocdbt,
        "skip_jax_distributed_system": True,
        **inputs.keys,
    }
    return tuple(argument(key, value) for key, value in keys.items() if value is not None)


def _flags(run: Run, inputs: ConversionInputs) -> tuple[str, ...]:
    release, source = run.release, inputs.source
    lazy = ("--lazy_load_tensors=True",) if release.lazy_load_flag and not release.lazy_load_default else ()
    if _is_multimodal(run):
        lazy = ("--lazy_load_tensors=False",)
    if release.layout == "legacy":
        return lazy
    named = (f"--hf_model_path={source.repo}",) if _names_other_weights(run, inputs) else ()
    takes_commit = at_least(release.version, "0.2.5")
    commit_or_revision = source.commit if takes_commit and source.commit else source.revision
    revision = (f"--revision={commit_or_revision}",) if commit_or_revision and not source.is_folder else ()
    return (*lazy, f"--save_dtype={inputs.dtype}", *named, *revision)


def loads_lazily(run: Run) -> bool:
    return not _is_multimodal(run) and (run.release.lazy_load_flag or run.release.lazy_load_default)


def _is_multimodal(run: Run) -> bool:
    """Return whether the model sets use_multimodal: MaxText refuses False for such a model, and lazy loading if it is
    on.

    source: maxtext@0.2.5 configs/pyconfig.py validate_no_keys_overridden_twice, checkpoint_conversion/to_maxtext.py
    """
    return run.pins.get("use_multimodal") is True


def _names_other_weights(run: Run, inputs: ConversionInputs) -> bool:
    """Return whether the workload names other weights than MaxText's default for the model (gemma3-* is -it), which
    must not replace them."""
    return run.model is None or run.model.hf_id != inputs.source.repo
