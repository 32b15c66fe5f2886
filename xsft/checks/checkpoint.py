"""Check the initial checkpoint: it exists, in a format the mode can read, stacked as the run expects, and holds the
weights of the model that the workload names. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from xsft.base.problems import Problem, error, errors_in, warning
from xsft.catalog.arrays import ArrayLayout, required
from xsft.catalog.sizes import changed_sizes
from xsft.checks.facts import Facts
from xsft.checks.trainer_keys import is_on, number, where_of
from xsft.spec.base import Keys
from xsft.spec.facts import CheckpointFacts, SavedArray
from xsft.spec.resolve import Run
from xsft.weights.checkpoint_files import certain
from xsft.weights.checkpoint_report import (
    NUMBERS,
    ArrayMismatch,
    ResizedArray,
    in_collections,
    is_adapter,
    kind,
    layouts,
    mismatch,
    models,
    weights,
)

READ_LIMIT = "checkpoint_storage_concurrent_gb"
READ_LIMIT_GB = 96
"""Key of MaxText, and its default; source: maxtext@0.2.5 configs/base.yml, utils/model_creation_utils.py."""
GB = 10**9
WIDTHS = {"float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes of one number, by data type."""
DEFAULT_AXIS = 1
"""MaxText's param_scan_axis; source: maxtext@0.2.5 configs/base.yml."""


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    yield from check_checkpoint(run, keys, facts)
    yield from check_weights(run, keys, facts)


def check_checkpoint(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Yield the problems that the files show; what could not be read is a warning that `submit` does not accept."""
    if run.checkpoint is None:
        return
    yield from _check_own_output(run)
    checkpoint = facts.checkpoint
    if checkpoint is None:
        yield from _check_unread_path(run)
        return
    if run.spec.model.hf is not None and not run.spec.model.checkpoint:
        yield from _check_to_convert(run, facts)
        if checkpoint.status not in ("read", "unreadable"):
            return
    match checkpoint.status:
        case "read":
            yield from _check_format(run, checkpoint)
            yield from _check_pieces(run, keys, checkpoint)
            yield from _check_layers(run, keys, checkpoint)
        case "torn":
            message = f"{run.checkpoint} is incomplete: {checkpoint.detail}."
            fix = (
                "Use another step of that run, or convert again into another folder; check with `xsft checkpoint "
                "inspect`."
            )
            yield error("checkpoint-torn", initial_weights_key(run), message, fix)
        case "missing":
            yield error(
                "checkpoint-missing",
                initial_weights_key(run),
                f"{run.checkpoint}: {checkpoint.detail}.",
                right_level(checkpoint, "model.checkpoint"),
            )
        case "not-a-checkpoint":
            message = f"{run.checkpoint} is not an Orbax checkpoint: {checkpoint.detail}."
            yield error(
                "checkpoint-invalid", initial_weights_key(run), message, right_level(checkpoint, "model.checkpoint")
            )
        case "unreadable":
            message = f"{run.checkpoint} could not be read: {checkpoint.detail.rstrip('.')}. {UNKNOWN}"
            yield _checkpoint_unread(run, message)


UNKNOWN = "Unknown: whether it exists and is complete, its format, and the names and shapes of its arrays."


def _check_own_output(run: Run) -> Iterator[Problem]:
    """Check for weights that the run itself saves: it resumes from them, or deletes them when it keeps newer ones.
    source: github.com/marin-community/marin/issues/5319."""
    folder = f"{str(run.output).rstrip('/')}/{run.run_name}/"
    if run.output and str(run.checkpoint).startswith(folder):
        message = (
            f"{run.checkpoint} is in the output of this run itself, which would resume from its newest save and may"
            " delete these weights."
        )
        fix = "Use another name for this run, or remove model.checkpoint to go on with the run."
        yield warning("checkpoint-own-output", initial_weights_key(run), message, fix)


def _check_unread_path(run: Run) -> Iterator[Problem]:
    path = run.checkpoint or ""
    if path.startswith("gs://"):
        yield _checkpoint_unread(run, f"{path} was not read. {UNKNOWN}")
    elif run.spec.on_cluster and not path.startswith(("/", ".", "~", "xsft://")):  # reported by checks.data
        message = f"{path} is neither in a bucket nor a path in the image."
        fix = "Give gs://…/0/items; put Hugging Face weights under model.hf: {repo: …}."
        yield error("checkpoint-path", initial_weights_key(run), message, fix)


def _checkpoint_unread(run: Run, message: str) -> Problem:
    fix = "Make it readable from here, or accept it: checks: {checkpoint-unread: why}. Otherwise submit refuses it."
    if (run.checkpoint or "").rstrip("/").rsplit("/", 1)[-1] not in ("items", "model_params"):
        message += " MaxText's checkpoints end in /items (converted) or /model_params (fine-tuned); this path does not."
    return warning("checkpoint-unread", initial_weights_key(run), message, fix, kind="unread")


def _check_to_convert(run: Run, facts: Facts) -> Iterator[Problem]:
    """Check how much of the weights in model.hf has been converted."""
    checkpoint = facts.checkpoint
    hf = run.spec.model.hf
    if checkpoint is None or hf is None:
        return
    broken = facts.tries.broken if facts.tries else ()
    refused = errors_in(facts.source.problems) if facts.source else ()
    if (
        checkpoint.status not in ("read", "unreadable") and not refused
    ):  # else `convert` would only repeat the hub's refusal
        cut_off = f" (incomplete: {', '.join(broken)})" if broken else ""
        message = f"{run.checkpoint} does not exist: {hf.repo} has not been converted yet{cut_off}."
        fix = "Run `xsft run FILE`, which converts and trains, or `xsft checkpoint convert FILE` first."
        yield warning("checkpoint-to-convert", "model.hf", message, fix, kind="unmade")


def right_level(checkpoint: CheckpointFacts, key: str) -> str:
    """Return the advice for the key's value; the check of adapters gives it too."""
    if checkpoint.near:
        return f"Set {key}: {checkpoint.near}"
    if "Hugging Face" in checkpoint.detail:
        return f"Set model.hf: {{repo: …}} instead of {key}, and run `xsft checkpoint convert FILE`."
    return "Give the folder with _METADATA: …/0/items of a conversion, …/checkpoints/N/model_params of a run."


def _check_format(run: Run, checkpoint: CheckpointFacts) -> Iterator[Problem]:
    """Check that the checkpoint has array metadata, and a format that Pathways' workers read."""
    # MaxText needs the names and shapes, and stops without them.
    if not checkpoint.arrays:
        why = checkpoint.detail or "its _METADATA lists no arrays"
        yield _checkpoint_unread(run, f"The model of {run.checkpoint} is unknown: {why}.")
    # McJAX reads every format: Orbax goes by the files, whatever the flags say.
    if not run.mode.single_controller:
        return
    fix = (
        "Convert it again with checkpoint_storage_use_ocdbt=False checkpoint_storage_use_zarr3=False (model.hf "
        "does), or use mode: mcjax."
    )
    if checkpoint.use_ocdbt:
        message = f"{run.checkpoint} is written with OCDBT, which Pathways' workers cannot read."
        yield error("checkpoint-ocdbt", initial_weights_key(run), message, fix)
    if checkpoint.use_zarr3:
        message = f"{run.checkpoint} is written as zarr v3; Pathways' workers read zarr v2 only."
        yield error("checkpoint-zarr3", initial_weights_key(run), message, fix)


def _check_pieces(run: Run, keys: Keys, checkpoint: CheckpointFacts) -> Iterator[Problem]:
    """Check that the largest piece fits the memory that Orbax reads with, and the host; Pathways' workers read without
    that limit. A host's shards always fit: its chips have less memory than the host, also for twice the bytes.
    source: orbax-checkpoint@0.12.8 serialization/serialization.py [estimate_read_memory_footprint], limits.py.
    """
    limit = number(keys.get(READ_LIMIT, READ_LIMIT_GB))
    sized = [
        (math.prod(array.piece) * WIDTHS.get(array.dtype or "", 0), array) for array in checkpoint.arrays if array.piece
    ]
    size, largest = max(sized, key=lambda pair: pair[0], default=(0, None))
    memory = run.slice.host_memory if run.slice else None
    if run.mode.single_controller or limit is None or largest is None or size < min(limit * GB, memory or math.inf):
        return
    piece = f"A piece of {'.'.join(largest.path)} has {size / GB:.0f} GB"
    if run.slice and memory and size >= memory:
        message = f"{piece}, which a host reads whole; a {run.slice.machine_type} has {memory / GB:.0f} GB of memory."
        fix = "Convert it again with `xsft checkpoint convert`, which writes each array in 16 pieces."
    else:
        message = (
            f"{piece}, and Orbax reads at most {READ_LIMIT}={limit:g} GB at once:"
            " `Requested more bytes than we reserved space for`."
        )
        fix = f"Set overrides.maxtext: {{{READ_LIMIT}: {int(size / GB) + 1}}}, or convert it again."
    yield error(
        "checkpoint-piece-large", where_of(READ_LIMIT, run) or initial_weights_key(run), message, fix, kind="disputable"
    )


def _check_layers(run: Run, keys: Keys, checkpoint: CheckpointFacts) -> Iterator[Problem]:
    if checkpoint.scan_layers is None or kind(checkpoint.arrays) in ("adapters", "optimizer"):
        return
    scans = scan_of(run, keys, checkpoint)
    if scans != checkpoint.scan_layers:
        where = where_of("scan_layers", run) or "model.scan_layers"
        message = (
            f"The run has scan_layers {_word(scans)}, the checkpoint "
            f"{_word(checkpoint.scan_layers)}; no array would match."
        )
        yield error("checkpoint-scan", where, message, f"Set model.scan_layers: {_word(checkpoint.scan_layers)}.")
    elif scans:
        axis = number(keys.get("param_scan_axis", DEFAULT_AXIS))
        if None not in (axis, checkpoint.param_scan_axis) and axis != checkpoint.param_scan_axis:
            origin = "" if "param_scan_axis" in keys else " (MaxText's default)"
            message = (
                f"The run stacks layers along axis {axis:g}{origin}, the checkpoint along axis "
                f"{checkpoint.param_scan_axis}: weights would be loaded with wrong shapes."
            )
            axis_key = f"overrides.maxtext.param_scan_axis: {checkpoint.param_scan_axis}"
            fix = f"Set {axis_key}, or convert again with the other axis."
            yield error("checkpoint-axis", "overrides.maxtext.param_scan_axis", message, fix)


def scan_of(run: Run, keys: Keys, checkpoint: CheckpointFacts | None) -> bool:
    """Return the stacking that the run uses: MaxText >= 0.2.4 adopts what the checkpoint records, unless the command
    line sets it."""
    if "scan_layers" in keys:
        return is_on(keys["scan_layers"])
    adopted = (
        checkpoint.scan_layers if checkpoint and run.release.scan_layers_auto and checkpoint.scan_recorded else None
    )
    return True if adopted is None else adopted


def scan_axis(keys: Keys) -> int:
    """Return the axis along which the run stacks layers."""
    return int(number(keys.get("param_scan_axis", DEFAULT_AXIS)) or 0)


def initial_weights_key(run: Run) -> str:
    """Return the field that names the initial weights."""
    return "model.hf" if run.spec.model.hf is not None and not run.spec.model.checkpoint else "model.checkpoint"


def _word(value: object) -> str:
    return str(value).lower()


def check_weights(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check names and shapes by the checkpoint's own layout; another check compares that layout with the run's."""
    checkpoint = facts.checkpoint
    if run.checkpoint is None or checkpoint is None or checkpoint.status != "read" or not checkpoint.arrays:
        return
    if beside := in_collections(checkpoint.arrays):
        message = (
            f"{run.checkpoint} keeps {len(beside)} of its arrays outside params.params, where MaxText's SFT trainer "
            f"expects all of them: {beside[0]}. It would fail with `Array has been deleted`."
        )
        fix = "Convert it with a release that writes them there: MaxText 0.2.4 for deepseek3."
        yield error("checkpoint-collection", initial_weights_key(run), message, fix)
        return
    match kind(checkpoint.arrays):
        case "weights":
            model_arrays = {name: array for name, array in weights(checkpoint.arrays).items() if not is_adapter(name)}
            yield from _check_dtype(run, model_arrays)
            yield from _check_model_arrays(run, keys, checkpoint, model_arrays)
        case "adapters":
            message = f"{run.checkpoint} has only LoRA adapters, without the weights that they adapt."
            fix = (
                "Set model.checkpoint to the weights that they were trained on, and lora.restore_path to the adapters."
            )
            yield error("checkpoint-adapters", initial_weights_key(run), message, fix)
        case "optimizer":
            message = f"{run.checkpoint} has the state of an optimizer, but no weights."
            folder, _, item = (run.checkpoint or "").rstrip("/").rpartition("/")
            fix = "Give …/checkpoints/N/model_params of the run."
            if item == "optimizer_state":
                fix = f"Set model.checkpoint: {folder}/model_params"
            yield error("checkpoint-optimizer", initial_weights_key(run), message, fix)
        case "other":
            example = ".".join(checkpoint.arrays[0].path)
            message = f"{run.checkpoint} is an Orbax checkpoint without model weights: it contains {example}."
            fix = "Give …/0/items of a conversion, or …/checkpoints/N/model_params of a run."
            yield error("checkpoint-invalid", initial_weights_key(run), message, fix)


def _check_dtype(run: Run, model_arrays: Mapping[str, SavedArray]) -> Iterator[Problem]:
    odd = {array.dtype: name for name, array in model_arrays.items() if array.dtype and array.dtype not in NUMBERS}
    if odd:
        dtype, name = min(odd.items())
        message = (
            f"{run.checkpoint} stores {name} as {dtype}. MaxText casts that to weight_dtype without scales or an error,"
            " and would train on other weights."
        )
        fix = "Convert it again with --save_dtype=bfloat16 (model.hf does), from weights that are not quantised."
        yield error("checkpoint-dtype", initial_weights_key(run), message, fix, kind="disputable")


def _check_model_arrays(
    run: Run, keys: Keys, checkpoint: CheckpointFacts, model_arrays: Mapping[str, SavedArray]
) -> Iterator[Problem]:
    if not _is_known(run):
        return
    ways = layouts(checkpoint, axis=scan_axis(keys))
    difference = _mismatch(run, keys, model_arrays, ways)
    if difference is None:
        return
    changed = changed_sizes(run.spec.model.name, keys, release=run.release.version)
    if changed and _mismatch(run, {}, model_arrays, ways) is None:
        keys_text = ", ".join(changed)
        message = (
            f"{run.checkpoint} holds {run.spec.model.name} without the workload's {keys_text}: "
            f"{mismatch_text(difference)}"
        )
        fix = f"Remove {keys_text}, or use a checkpoint that was converted with it."
        yield error("checkpoint-model", where_of(changed[0], run), message, fix, kind="disputable")
    else:
        fitting = models(model_arrays, ways)
        name = run.spec.model.name + (" with the workload's overrides" if changed else "")
        message = f"{run.checkpoint} does not hold {name}: {mismatch_text(difference)}"
        if not fitting:
            fix = f"Use a checkpoint of {name}, or correct model.name and its sizes."
        else:
            fix = f"It holds {' or '.join(fitting[:3])}: correct model.name, or name a checkpoint of {name}."
        yield error("checkpoint-model", initial_weights_key(run), message, fix, kind="disputable")


def _is_known(run: Run) -> bool:
    """Return whether the model's sizes are known: with `default` the workload gives every size; another check reports a
    name without a configuration."""
    return run.spec.model.name == "default" or (run.model is not None and run.model.built_in)


def _mismatch(
    run: Run, keys: Keys, model_arrays: Mapping[str, SavedArray], ways: Sequence[ArrayLayout]
) -> ArrayMismatch | None:
    """Return the mismatch; None if one of the layouts fits, or the model's arrays are unknown."""
    name = run.spec.model.name
    version = run.release.version
    requirements = [required(name, keys, layout=layout, release=version) for layout in ways]
    differences = [mismatch(model_arrays, arrays) for arrays in requirements if arrays is not None]
    return None if not differences or None in differences else differences[0]


def mismatch_text(difference: ArrayMismatch) -> str:
    """Return a text with one difference of each kind, and their number."""
    parts = []
    if difference.resized:
        more = f" (and {len(difference.resized) - 1} more differ)" if len(difference.resized) > 1 else ""
        parts.append(f"{_resized_text(difference.resized[0])}{more}")
    if difference.missing:
        parts.append(f"{len(difference.missing)} of {difference.of} arrays are missing, e.g. {difference.missing[0]}")
    if difference.extra:
        parts.append(f"{len(difference.extra)} are not the model's, e.g. {difference.extra[0]}")
    return "; ".join(parts) + "."


def _resized_text(array: ResizedArray) -> str:
    has = certain(array.saved)
    shape = list(has) if has else f"written in pieces of {list(array.saved.piece or ())}"
    return f"{array.name} is {shape} instead of {list(array.wanted)}"
