"""Check that the initial checkpoint holds the weights of the model that the workload names. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xsft.base.problems import Problem, error
from xsft.catalog.arrays import ArrayLayout, required
from xsft.catalog.sizes import changed_sizes
from xsft.checks.checkpoint import initial_weights_key, scan_axis
from xsft.checks.facts import Facts
from xsft.checks.trainer_keys import where_of
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


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check names and shapes by the checkpoint's own layout; another check compares that layout with the run's."""
    found = facts.checkpoint
    if run.checkpoint is None or found is None or found.status != "read" or not found.arrays:
        return
    if beside := in_collections(found.arrays):
        message = (
            f"{run.checkpoint} keeps {len(beside)} of its arrays outside params.params, where MaxText's SFT trainer "
            f"expects all of them: {beside[0]}. It would fail with `Array has been deleted`."
        )
        fix = "Convert it with a release that writes them there: MaxText 0.2.4 for deepseek3."
        yield error("checkpoint-collection", initial_weights_key(run), message, fix)
        return
    match kind(found.arrays):
        case "weights":
            held = {name: array for name, array in weights(found.arrays).items() if not is_adapter(name)}
            yield from _check_dtype(run, held)
            yield from _check_model_arrays(run, keys, found, held)
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
            example = ".".join(found.arrays[0].path)
            message = f"{run.checkpoint} is an Orbax checkpoint without model weights: it contains {example}."
            fix = "Give …/0/items of a conversion, or …/checkpoints/N/model_params of a run."
            yield error("checkpoint-invalid", initial_weights_key(run), message, fix)


def _check_dtype(run: Run, held: Mapping[str, SavedArray]) -> Iterator[Problem]:
    odd = {array.dtype: name for name, array in held.items() if array.dtype and array.dtype not in NUMBERS}
    if odd:
        dtype, name = min(odd.items())
        message = (
            f"{run.checkpoint} stores {name} as {dtype}. MaxText casts that to weight_dtype without scales or an error,"
            " and would train on other weights."
        )
        fix = "Convert it again with --save_dtype=bfloat16 (model.hf does), from weights that are not quantised."
        yield error("checkpoint-dtype", initial_weights_key(run), message, fix, kind="disputable")


def _check_model_arrays(
    run: Run, keys: Keys, found: CheckpointFacts, held: Mapping[str, SavedArray]
) -> Iterator[Problem]:
    if not _is_known(run):
        return
    ways = layouts(found, axis=scan_axis(keys))
    difference = _mismatch(run, keys, held, ways)
    if difference is None:
        return
    changed = changed_sizes(run.spec.model.name, keys, release=run.release.version)
    if changed and _mismatch(run, {}, held, ways) is None:
        given = ", ".join(changed)
        message = (
            f"{run.checkpoint} holds {run.spec.model.name} without the workload's {given}: {mismatch_text(difference)}"
        )
        fix = f"Remove {given}, or use a checkpoint that was converted with it."
        yield error("checkpoint-model", where_of(changed[0], run), message, fix, kind="disputable")
    else:
        fitting = models(held, ways)
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
    run: Run, keys: Keys, held: Mapping[str, SavedArray], ways: Sequence[ArrayLayout]
) -> ArrayMismatch | None:
    """Return the mismatch; None if one of the layouts fits, or the model's arrays are unknown."""
    name, version = run.spec.model.name, run.release.version
    wanted = [required(name, keys, layout=layout, release=version) for layout in ways]
    differences = [mismatch(held, one) for one in wanted if one is not None]
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


def _resized_text(one: ResizedArray) -> str:
    has = certain(one.saved)
    shape = list(has) if has else f"written in pieces of {list(one.saved.piece or ())}"
    return f"{one.name} is {shape} instead of {list(one.wanted)}"
