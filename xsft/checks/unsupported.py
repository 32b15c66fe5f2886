"""Check for keys that MaxText accepts and its SFT trainer ignores, or that cannot work there. Pure.

source: maxtext@0.2.5 trainers/post_train/sft/train_sft.py (a Tunix PeftTrainer; pre_train/train.py never runs)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType

from msgspec import Struct

from xsft.base.problems import Problem, error, warning
from xsft.catalog.data import catalog_text
from xsft.catalog.releases import DEFAULT, at_least, defects
from xsft.checks.facts import Facts
from xsft.checks.trainer_keys import is_on, number, same, where_of
from xsft.spec.base import Keys, Value
from xsft.spec.resolve import Run

NO_OPS: Mapping[str, tuple[Value, str]] = MappingProxyType(
    {
        "enable_checkpointing": (True, "Tunix saves regardless of it"),
        "max_num_checkpoints_to_keep": (None, "how many Tunix keeps depends on its version: all, or the latest three"),
        "save_checkpoint_on_start": (True, "Tunix has its own rule"),
        "save_checkpoint_on_completion": (True, "the last step is always saved"),
        "enable_autocheckpoint": (False, "it works in MaxText's pre-training loop only"),
        "enable_emergency_checkpoint": (False, "it works in MaxText's pre-training loop only"),
        "enable_multi_tier_checkpointing": (False, "MaxText starts it but never saves through it"),
        "enable_continuous_checkpointing": (False, "it works in MaxText's pre-training loop only"),
        "eval_start_step": (0, "only MaxText's pre-training loop reads it"),
        "routed_bias_update_rate": (0, "Tunix's training step drops the updates of the routers' bias"),
        "use_chat_template": (False, "only decoding reads it"),
        "use_vertex_tensorboard": (False, "only MaxText's pre-training loop uploads to Vertex AI"),
    }
)
"""Key -> MaxText's default, and why another value changes nothing in SFT."""

COMPUTED = frozenset(
    {"emb_dim", "mlp_dim", "moe_mlp_dim", "num_decoder_layers", "num_kv_heads", "num_query_heads", "num_target_devices"}
    | {"ici_parallelism", "dcn_parallelism", "checkpoint_dir", "metrics_dir", "tensorboard_dir"}
    | {f"{size}_batch_size_to_{use}_on" for size in ("global", "micro") for use in ("train", "eval")}
    | {"global_batch_size_to_load", "global_batch_size_to_load_eval"}
)
"""Keys that MaxText computes from others, and overwrites. source: maxtext@0.2.5 configs/types.py [DerivedValues]"""
OTHER_PIPELINES = re.compile(
    r"dataset_path|dataset_name|eval_dataset_name|eval_split|grain_(train|eval)_files|grain_file_type|(mmap|olmo|blend)_.*"
)
"""Keys of other pipelines than Hugging Face's. source: maxtext@0.2.5 input_pipeline/hf_data_processing.py"""
FOR_TESTS: Mapping[str, str] = MappingProxyType(
    {
        "reuse_example_batch": "every step trains on the first batch; it measures speed without reading data",
        "use_random_routing": "tokens go to experts at random, which the trained router never did; it is for tests",
    }
)
"""Switches with which the loss falls, although the model learns nothing from the data. source: maxtext@0.2.5
configs/base.yml"""

MARKS: Mapping[str, str] = MappingProxyType({"add_bos": "BOS", "add_eos": "EOS"})
"""Keys that add BOS and EOS; both are on by default. Hugging Face's pipeline ignores them in SFT; Grain's puts the
tokens around each prompt and each answer, although the chat template has its own.

source: maxtext@0.2.5 input_pipeline/hf_data_processing.py (`if not use_sft`), input_pipeline/data_processing_utils.py
[get_tokenizer_and_pad_id]; tests/contract/test_special_tokens.py asks both.
"""


class UnsupportedKey(Struct, frozen=True, kw_only=True):
    """A key that must not have some value."""

    id: str
    key: str
    applies: Callable[[Value, Run], bool]
    why: str
    fix: str


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check for keys that have no effect without an error, or that stop the run."""
    del facts
    for key, (default, why) in NO_OPS.items():
        if key in keys and not same(keys[key], default):
            message = f"{key}={keys[key]} has no effect in SFT: {why}."
            yield warning("no-op-key", where_of(key, run), message, "Remove it.")
    if not run.release.gradient_clipping and "gradient_clipping_threshold" in keys:
        message = f"gradient_clipping_threshold changes nothing in MaxText {run.release.version}'s SFT trainer."
        yield warning("no-op-key", where_of("gradient_clipping_threshold", run), message, "Remove it.")
    yield from _check_unread_keys(run, keys)
    for key, why in FOR_TESTS.items():
        if is_on(keys.get(key, False)) or (number(keys.get(key)) or 0) > 0:
            yield warning("key-for-tests", where_of(key, run), f"{key}={keys[key]}: {why}.", "Remove it.")
    yield from _check_marks(run, keys)
    # Refused values; the model's own configuration counts too: vision models switch use_multimodal on.
    for refusal in REFUSALS:
        setting = keys.get(refusal.key, run.pins.get(refusal.key))
        if setting is not None and refusal.applies(setting, run):
            message = f"{refusal.key}={setting}: {refusal.why}"
            yield error(refusal.id, where_of(refusal.key, run) or "model.name", message, refusal.fix)
    yield from _check_release_defects(run, keys)
    yield from _check_dataset_type(run, keys)
    if is_on(keys.get("convert_checkpoint_if_possible")):
        message = "convert_checkpoint_if_possible converts in one process while every chip of every slice waits."
        fix = "Convert before the run: name the weights under model.hf, and the plan shows the command."
        yield warning("conversion-in-trainer", where_of("convert_checkpoint_if_possible", run), message, fix)


def _check_unread_keys(run: Run, keys: Keys) -> Iterator[Problem]:
    if run.release.version != DEFAULT:
        return
    for key in run.spec.overrides.maxtext:
        if key in COMPUTED:
            why = "MaxText computes it from other keys"
        elif key in unread_keys() and key not in NO_OPS:
            why = "no code that SFT runs reads it"
        elif OTHER_PIPELINES.fullmatch(key) and keys.get("dataset_type", "hf") == "hf":
            why = "Hugging Face's pipeline does not read it; the data comes from data.hf_path and its fields"
        else:
            continue
        if keys.get(key) not in (None, False, "", 0, -1):
            yield warning("no-op-key", where_of(key, run), f"{key} has no effect in SFT: {why}.", "Remove it.")


@cache
def unread_keys() -> frozenset[str]:
    """Return the keys that MaxText accepts and its SFT trainer never reads."""
    return frozenset(line for line in catalog_text("unread_keys.txt").splitlines() if not line.startswith("#"))


def _check_dataset_type(run: Run, keys: Keys) -> Iterator[Problem]:
    """Check `dataset_type`: Grain is chosen by the field data.pipeline; an override does not change the other data
    fields."""
    pipeline = str(keys.get("dataset_type") or "hf")
    if pipeline == "hf" or run.spec.data.pipeline == "grain":
        return
    message = f"dataset_type={pipeline}: data.hf_path and the other data fields are then ignored."
    field = (
        "Write data.pipeline: grain with data.hf_path and data.hf_train_files instead" if pipeline == "grain" else ""
    )
    fix = f"{field or 'Remove it'}, or accept this under `checks:`."
    yield warning("dataset-type", where_of("dataset_type", run), message, fix)


def _check_marks(run: Run, keys: Keys) -> Iterator[Problem]:
    pipeline = str(keys.get("dataset_type", "hf"))
    if pipeline == "hf":
        for key in MARKS:
            if not is_on(keys.get(key, True)):
                message = f"{key}={keys[key]} changes nothing: chat data gets its markers from the chat template."
                yield warning("no-op-key", where_of(key, run), message, "Remove it.")
    elif pipeline == "grain" and (added := [key for key in MARKS if is_on(keys.get(key, True))]):
        tokens = " and ".join(MARKS[key] for key in added)
        message = (
            f"dataset_type=grain: MaxText adds {tokens} around each prompt and each answer, besides the template's."
        )
        fix = f"Set overrides.maxtext: {{{', '.join(f'{key}: false' for key in added)}}}."
        yield warning("grain-marks", where_of(added[0], run) or where_of("dataset_type", run), message, fix)


def _check_release_defects(run: Run, keys: Keys) -> Iterator[Problem]:
    """Check for known defects of the image's release that this workload would meet."""
    settings = {**run.pins, **keys}
    for defect in defects(run.release.version):
        converts = run.conversion is not None or not defect.converts
        met = all(any(_meets(settings.get(key), case) for case in cases) for key, cases in defect.when.items())
        if converts and met and run.spec.model.name.startswith(defect.models):
            ways = [f"Use MaxText {defect.fixed} or newer (image.maxtext)"] if defect.fixed else []
            fix = f"{'; or '.join([*ways, defect.way_round] if defect.way_round else ways)}."
            where = next((place for key in defect.when if (place := where_of(key, run))), None)
            message = f"MaxText {run.release.version}: {defect.what}."
            problem = error("release-defect", where or "image.maxtext", message, fix, kind="disputable")
            yield replace(problem, severity=defect.severity)


def _meets(setting: Value, case: str) -> bool:
    """Return whether a key's value is `on`, `off` (given, and off), `unset`, `> N`, or the text itself."""
    match case:
        case "on":
            return is_on(setting)
        case "off":
            return setting is not None and not is_on(setting)
        case "unset":
            return setting is None
        case _ if case.startswith("> "):
            return (number(setting) or 0) > float(case[2:])
        case _:
            return same(setting, case)


def _is_switched_on(value: Value, _run: Run) -> bool:
    return is_on(value)


def _is_switched_off(value: Value, _run: Run) -> bool:
    return not is_on(value)


def _gpu_kernel(value: Value, run: Run) -> bool:
    return run.spec.on_cluster and str(value).startswith(("cudnn_", "te_"))


def _below_one(value: Value, _run: Run) -> bool:
    amount = number(value)
    return amount is not None and amount < 1


REFUSALS: tuple[UnsupportedKey, ...] = (
    UnsupportedKey(
        id="refused-elastic",
        key="elastic_enabled",
        applies=_is_switched_on,
        why="the SFT trainer never retries in the process; only MaxText's pre-training loop does.",
        fix="Remove it; restarts.max restarts the run from its last checkpoint.",
    ),
    UnsupportedKey(
        id="refused-colocated-python",
        key="colocated_python_data_input",
        applies=_is_switched_on,
        why="it needs a sidecar on every worker, with a pinned pair of images that xsft does not deploy.",
        fix="Remove it; the head reads the data.",
    ),
    UnsupportedKey(
        id="refused-colocated-python",
        key="colocated_python_checkpointing",
        applies=_is_switched_on,
        why="it needs a sidecar on every worker, with a pinned pair of images that xsft does not deploy.",
        fix="Remove it; Pathways' persistence writes from the workers already.",
    ),
    UnsupportedKey(
        id="optimizer-offload",
        key="optimizer_memory_host_offload",
        applies=lambda value, run: is_on(value) and at_least(run.release.version, "0.2.3"),
        why="MaxText's SFT trainer refuses it since 0.2.3.",
        fix="Remove it; mu_dtype: bfloat16 or more slices with parallelism.dcn.fsdp save memory.",
    ),
    UnsupportedKey(
        id="load-full-state",
        key="load_full_state_path",
        applies=lambda value, _run: value not in (None, ""),
        why="the SFT trainer reads only load_parameters_path, and MaxText refuses both together.",
        fix="Remove it; set model.checkpoint. A run resumes from its own output folder automatically.",
    ),
    UnsupportedKey(
        id="not-sft",
        key="use_sft",
        applies=_is_switched_off,
        why="xsft starts the SFT trainer; without use_sft its data would be read as plain text.",
        fix="Remove it.",
    ),
    UnsupportedKey(
        id="not-sft",
        key="use_dpo",
        applies=_is_switched_on,
        why="MaxText refuses use_dpo together with use_sft, which the SFT trainer sets.",
        fix="Remove it; xsft trains by SFT only.",
    ),
    UnsupportedKey(
        id="not-sft",
        key="tokenize_train_data",
        applies=_is_switched_off,
        why="SFT's rows are texts; MaxText would not tokenise them, and fail on the first row.",
        fix="Remove it.",
    ),
    UnsupportedKey(
        id="not-sft",
        key="training_objective",
        applies=lambda value, _run: value != "causal_lm",
        why="SFT's batches have no masks for it, and MaxText's loss fails without masks.",
        fix="Remove it: causal_lm is MaxText's default.",
    ),
    UnsupportedKey(
        id="safetensors-pathways",
        key="source_checkpoint_layout",
        applies=lambda value, run: value == "safetensors_dynamic" and run.mode.single_controller,
        why="MaxText refuses it under Pathways.",
        fix="Convert the weights first (model.hf), or use mode: mcjax.",
    ),
    UnsupportedKey(
        id="multimodal-packing",
        key="use_multimodal",
        applies=lambda value, run: (
            is_on(value) and (run.spec.data.packing is not False or run.spec.data.completion_only is False)
        ),
        why="MaxText refuses multimodal SFT with packing or with loss on the prompt, and sft.yml packs.",
        fix="Set data.packing: false and keep data.completion_only true; or use_multimodal: false for text alone.",
    ),
    UnsupportedKey(
        id="multimodal-converted",
        key="use_multimodal",
        applies=lambda setting, run: (
            is_on(setting) and run.conversion is not None and run.pins.get("use_multimodal") is not True
        ),
        why="model.hf is converted for text alone (use_multimodal=False), without the weights of the vision encoder.",
        fix="Remove it to train on text; or convert with use_multimodal=True, and name the result in model.checkpoint.",
    ),
    UnsupportedKey(
        id="hardware-not-tpu",
        key="hardware",
        applies=lambda value, run: run.spec.on_cluster and value != "tpu",
        why="MaxText would connect the hosts as another platform, but the slices are TPUs.",
        fix="Remove it; tpu is MaxText's default.",
    ),
    UnsupportedKey(
        id="hardware-not-tpu",
        key="attention",
        applies=_gpu_kernel,
        why="this kernel is cuDNN's, for GPUs; the slices are TPUs.",
        fix="Set flash, or remove it: MaxText selects the kernel.",
    ),
    UnsupportedKey(
        id="hardware-not-tpu",
        key="quantization",
        applies=_gpu_kernel,
        why="it needs Transformer Engine, which runs on GPUs only; the slices are TPUs.",
        fix="Remove it, or use one for TPUs: int8, fp8_full.",
    ),
    UnsupportedKey(
        id="log-period",
        key="log_period",
        applies=_below_one,
        why="MaxText divides the step number by it, and fails with ZeroDivisionError after the first step.",
        fix="Set at least 1, or remove it (100).",
    ),
    UnsupportedKey(
        id="grain-workers",
        key="grain_worker_count",
        applies=lambda value, run: (number(value) or 0) > 1 and run.spec.data.pipeline != "grain",
        why="MaxText refuses more than one worker for Hugging Face data, because rows would be duplicated.",
        fix="Set 1, or 0 for none.",
    ),
)
