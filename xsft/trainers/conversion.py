"""Hugging Face weights to a MaxText checkpoint, as one command on a CPU machine. Pure."""

from __future__ import annotations

from xsft.spec.resolve import Run, converted_directory
from xsft.trainers.arguments import argument
from xsft.trainers.layouts import Layout, layout_named


def conversion_argv(run: Run) -> tuple[str, ...] | None:
    """`python3 -m …to_maxtext …`; None when the workload names a checkpoint or trains from scratch.

    Written without OCDBT and zarr3: such a checkpoint is readable in both modes.
    """
    directory = converted_directory(run.spec, run.output)
    if run.spec.model.hf is None or directory is None:
        return None
    layout = layout_named(run.layout)
    config = (layout.to_maxtext_config,) if layout.to_maxtext_config else ()
    return ("python3", "-m", layout.to_maxtext_module, *config, *_keys(run, layout, directory), *_flags(run, layout))


def _keys(run: Run, layout: Layout, directory: str) -> tuple[str, ...]:
    scan = run.spec.model.scan_layers is not False
    axis = run.spec.overrides.maxtext.get("param_scan_axis")
    keys = {
        "model_name": run.spec.model.name,
        "hf_access_token": layout.hf_access_token,
        "base_output_directory": directory,
        "scan_layers": scan,
        "param_scan_axis": axis,
        "use_multimodal": None if layout.name == "legacy" else False,
        "hardware": None if layout.name == "legacy" else "cpu",
        "checkpoint_storage_use_zarr3": False,
        "checkpoint_storage_use_ocdbt": False,
        "skip_jax_distributed_system": True,
    }
    return tuple(argument(key, value) for key, value in keys.items() if value is not None)


def _flags(run: Run, layout: Layout) -> tuple[str, ...]:
    hf = run.spec.model.hf
    assert hf is not None
    lazy = ("--lazy_load_tensors=True",) if layout.lazy_load_flag else ()
    dtype = ("--save_dtype=bfloat16",) if layout.save_dtype_flag else ()
    source = (f"--hf_model_path={hf.repo}",) if _names_other_weights(run) and layout.name == "current" else ()
    revision = (f"--revision={hf.revision}",) if hf.revision and layout.name == "current" else ()
    return (*lazy, *dtype, *source, *revision)


def _names_other_weights(run: Run) -> bool:
    """MaxText converts its own choice of weights for a model (gemma3-* is -it); the repository a user wrote must win."""
    hf = run.spec.model.hf
    return hf is not None and (run.model is None or run.model.hf_id != hf.repo)
