"""Hugging Face weights to a MaxText checkpoint, as one command on a CPU machine. Pure."""

from __future__ import annotations

from xsft.catalog.models import pins
from xsft.spec.resolve import Run, converted_directory
from xsft.trainers.arguments import argument


def conversion_argv(run: Run) -> tuple[str, ...] | None:
    """`python3 -m …to_maxtext …`; None when the workload names a checkpoint or trains from scratch.

    Written without OCDBT and zarr3: such a checkpoint is readable in both modes.
    """
    directory = converted_directory(run.spec, run.output)
    if run.spec.model.hf is None or directory is None:
        return None
    release = run.release
    config = (release.base_config,) if release.layout == "legacy" else ()
    return ("python3", "-m", release.to_maxtext, *config, *_keys(run, directory), *_flags(run))


def _keys(run: Run, directory: str) -> tuple[str, ...]:
    scan = run.spec.model.scan_layers is not False
    axis = run.spec.overrides.maxtext.get("param_scan_axis")
    legacy = run.release.layout == "legacy"
    keys = {
        "model_name": run.spec.model.name,
        "hf_access_token": "none" if run.release.hf_access_token_none else None,
        "base_output_directory": directory,
        "scan_layers": scan,
        "param_scan_axis": axis,
        "use_multimodal": None if legacy or _is_multimodal(run) else False,
        "hardware": None if legacy else "cpu",
        "checkpoint_storage_use_zarr3": False,
        "checkpoint_storage_use_ocdbt": False,
        "skip_jax_distributed_system": True,
    }
    return tuple(argument(key, value) for key, value in keys.items() if value is not None)


def _flags(run: Run) -> tuple[str, ...]:
    hf, release = run.spec.model.hf, run.release
    lazy = ("--lazy_load_tensors=True",) if release.lazy_load_flag and not release.lazy_load_default else ()
    if _is_multimodal(run):
        lazy = ("--lazy_load_tensors=False",)
    if hf is None or release.layout == "legacy":
        return lazy
    source = (f"--hf_model_path={hf.repo}",) if _names_other_weights(run) else ()
    revision = (f"--revision={hf.revision}",) if hf.revision else ()
    dtype = ("--save_dtype=bfloat16",)
    return (*lazy, *dtype, *source, *revision)


def _is_multimodal(run: Run) -> bool:
    """MaxText refuses use_multimodal=False for a model that sets it, and loading lazily where it is on.

    source: maxtext@0.2.5 configs/pyconfig.py validate_no_keys_overridden_twice, checkpoint_conversion/to_maxtext.py
    """
    return pins(run.spec.model.name).get("use_multimodal") is True


def _names_other_weights(run: Run) -> bool:
    """MaxText has its own choice of weights for a model (gemma3-* is -it); the repository a user wrote must win."""
    hf = run.spec.model.hf
    return hf is not None and (run.model is None or run.model.hf_id != hf.repo)
