"""Check LoRA: settings that stop MaxText's adapters before the first step. Pure.

source: measured with maxtext@0.2.5 and qwix@0.1.8 (ahead-of-time compilation, and arrays on a CPU)
"""

from __future__ import annotations

from collections.abc import Iterator

from xsft.base.problems import Problem, error, note, warning
from xsft.catalog.releases import at_least
from xsft.checks.facts import Facts
from xsft.checks.trainer_keys import is_on, number, where_of
from xsft.spec.base import Keys
from xsft.spec.resolve import Run


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check the settings of LoRA, if adapters are requested."""
    del facts
    if not is_on(keys.get("lora.enable_lora", False)):
        return
    yield from _check_lora_release(run, keys)
    yield from _check_adapter_dtype(keys)
    if keys.get("attention") == "flash":
        message = (
            "attention=flash stops LoRA: MaxText adds adapters by tracing one token, and flash requires multiples of "
            "128."
        )
        fix = "Remove it: the default, autoselected, uses flash from 128 tokens up."
        yield error("lora-flash", where_of("attention", run), message, fix)
    yield from _check_module_pattern(run, keys)
    alpha, rank = number(keys.get("lora.lora_alpha")) or 0, number(keys.get("lora.lora_rank")) or 0
    if rank > 0 and alpha / rank > MOST_SCALE:
        message = f"alpha / rank is {alpha / rank:g}: adapters are added at that scale, and the model breaks down."
        fix = f"Set lora.alpha to {2 * rank:g}, or give a reason under checks:."
        yield warning("lora-scale", where_of("lora.lora_alpha", run), message, fix)


def _check_lora_release(run: Run, keys: Keys) -> Iterator[Problem]:
    if not at_least(run.release.version, "0.2.3"):
        message = f"MaxText {run.release.version} does not support LoRA; 0.2.3 and newer do."
        yield error("lora-release", "lora", message, "Use an image with MaxText 0.2.3 or newer, or remove the section.")
    # Check that the release restores adapters under Pathways. source: maxtext@0.2.3 utils/lora_utils.py
    # [restore_lora_from_path] hands Orbax the arrays' own shardings, 0.2.4 named ones of the mesh, which Pathways
    # reads checkpoints with.
    version = run.release.version
    if keys.get("lora.lora_restore_path") and run.mode.single_controller and (not at_least(version, "0.2.4")):
        message = (
            f"MaxText {version} restores adapters without the mesh's shardings, which Pathways needs; 0.2.4 has them."
        )
        fix = "Use an image with MaxText 0.2.4 or newer, or mode: mcjax."
        yield warning("lora-restore-pathways", "lora.restore_path", message, fix)


MOST_SCALE = 32
"""Published fine-tunings use an alpha of half the rank to four times it, a few sixteen times."""


def _check_adapter_dtype(keys: Keys) -> Iterator[Problem]:
    """Check the adapters' dtype: a scan over layers carries activations (bfloat16), and float32 adapters return
    float32."""
    mixed = keys.get("weight_dtype", "float32") == "float32" and keys.get("dtype", "bfloat16") == "bfloat16"
    if not mixed or not is_on(keys.get("scan_layers", True)):
        return
    message = (
        "LoRA with float32 weights stops with TypeError: scan body carry bfloat16 against float32 (float32 is "
        "MaxText's default)."
    )
    yield error("lora-float32", "train.weight_dtype", message, "Set train.weight_dtype: bfloat16.")


def _check_module_pattern(run: Run, keys: Keys) -> Iterator[Problem]:
    if run.model is None:
        return
    if keys.get("lora.lora_module_path"):
        if run.model.moe and keys["lora.lora_module_path"] == run.model.lora_module_path:
            yield note(
                "lora-attention-only",
                "lora.module_path",
                "These adapters change attention only; the experts are not trained.",
            )
        return
    if run.model.lora_module_path:
        message = (
            f"MaxText's own LoRA pattern finds no module in {run.model.name}: it stops with 'no LoRA parameters found'."
        )
        fix = f"Set lora.module_path: '{run.model.lora_module_path}' (attention only; compiled for v6e-256)."
        yield error("lora-module-path", "lora.module_path", message, fix)
    elif not run.model.lora_verified and run.spec.on_cluster:
        message = (
            f"MaxText has no LoRA pattern for {run.model.name} and falls back to a general one, which may find nothing."
        )
        fix = "Set lora.module_path, or try it first with target: local."
        yield warning("lora-module-path-unknown", "lora.module_path", message, fix)
