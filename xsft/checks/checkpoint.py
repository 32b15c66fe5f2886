"""Check the initial checkpoint: it exists, in a format the mode can read, and stacked as the run expects. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

from xsft.base.problems import Problem, error, errors_in, warning
from xsft.checks.facts import Facts
from xsft.checks.trainer_keys import is_on, number, where_of
from xsft.spec.base import Keys
from xsft.spec.facts import CheckpointFacts
from xsft.spec.resolve import Run
from xsft.weights.checkpoint_report import kind

READ_LIMIT, READ_LIMIT_GB = "checkpoint_storage_concurrent_gb", 96
"""Key of MaxText, and its default; source: maxtext@0.2.5 configs/base.yml, utils/model_creation_utils.py."""
GB = 10**9
WIDTHS = {"float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes of one number, by data type."""
DEFAULT_AXIS = 1
"""MaxText's param_scan_axis; source: maxtext@0.2.5 configs/base.yml."""


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
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
    checkpoint, hf = facts.checkpoint, run.spec.model.hf
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
