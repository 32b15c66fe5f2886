"""The initial checkpoint holds the weights of the model that the workload names. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xsft.catalog.arrays import Layout, required
from xsft.catalog.models import pins
from xsft.catalog.sizes import DEFAULTS
from xsft.checkpoint.compare import Mismatch, Resized, in_collections, is_adapter, layouts, mismatch, models, weights
from xsft.checkpoint.files import whole
from xsft.checks.trainer_keys import where_of
from xsft.checks.values import number, same
from xsft.facts import CheckpointFacts, Facts, SavedArray
from xsft.problems import Problem, error
from xsft.spec.base import Value
from xsft.spec.resolve import Run


def check(run: Run, keys: Mapping[str, Value], facts: Facts) -> Iterator[Problem]:
    """Names and shapes, in the checkpoint's own layout: that it is the run's is another check's to say."""
    found = facts.checkpoint
    if run.checkpoint is None or found is None or not found.arrays:
        return
    held = weights(found.arrays)
    if beside := in_collections(found.arrays):
        yield _collections(run, beside)
        return
    if held and all(is_adapter(name) for name in held):
        yield _adapters(run)
    elif held:
        yield from _model(run, keys, found, {name: array for name, array in held.items() if not is_adapter(name)})
    else:
        yield _no_weights(run, found)


def _collections(run: Run, beside: Sequence[str]) -> Problem:
    message = (
        f"{run.checkpoint} keeps {len(beside)} of its arrays outside params.params, where MaxText's SFT trainer looks "
        f"for all of them: {beside[0]}. It would stop with `Array has been deleted`."
    )
    fix = "Convert it with a release that writes them there: for deepseek3 that is MaxText 0.2.4."
    return error("checkpoint-collection", _where(run), message, fix)


def _adapters(run: Run) -> Problem:
    message = f"{run.checkpoint} holds LoRA adapters only, and none of the weights that they adapt."
    fix = "Name the weights that they were trained on as model.checkpoint, and the adapters as lora.restore_path."
    return error("checkpoint-adapters", _where(run), message, fix)


def _no_weights(run: Run, found: CheckpointFacts) -> Problem:
    example = ".".join(found.arrays[0].path)
    message = f"{run.checkpoint} is an Orbax checkpoint without weights of a model: it holds {example}."
    fix = "Give …/0/items of a conversion, or …/checkpoints/N/model_params of a run."
    return error("checkpoint-invalid", _where(run), message, fix)


def _model(
    run: Run, keys: Mapping[str, Value], found: CheckpointFacts, held: Mapping[str, SavedArray]
) -> Iterator[Problem]:
    if not _is_known(run):
        return
    ways = layouts(found, axis=_axis(keys))
    told = _mismatch(run, keys, held, ways)
    if told is None:
        return
    changed = _changed(run, keys)
    if changed and _mismatch(run, {}, held, ways) is None:
        yield _overridden(run, changed, told)
    else:
        yield _other_model(run, changed, told, models(held, ways))


def _is_known(run: Run) -> bool:
    """Of `default` the workload says every size; a name without a configuration is another check's to tell."""
    return run.spec.model.name == "default" or (run.model is not None and run.model.built_in)


def _mismatch(
    run: Run, keys: Mapping[str, Value], held: Mapping[str, SavedArray], ways: Sequence[Layout]
) -> Mismatch | None:
    """None where one of the layouts fits, or nothing certain is known of the model."""
    name, version = run.spec.model.name, run.release.version
    wanted = [required(name, keys, layout=layout, release=version) for layout in ways]
    told = [mismatch(held, one) for one in wanted if one is not None]
    return None if not told or None in told else told[0]


def _axis(keys: Mapping[str, Value]) -> int:
    return int(number(keys.get("param_scan_axis", 1)) or 0)


def _changed(run: Run, keys: Mapping[str, Value]) -> tuple[str, ...]:
    """Keys of the workload that give the model another size than its own."""
    own = {**DEFAULTS, **pins(run.spec.model.name)}
    return tuple(key for key in DEFAULTS if key in keys and not same(keys[key], own[key]))


def _overridden(run: Run, changed: Sequence[str], told: Mismatch) -> Problem:
    given = ", ".join(changed)
    message = f"{run.checkpoint} holds {run.spec.model.name} without the workload's {given}: {_told(told)}"
    fix = f"Remove {given}, or name a checkpoint that was converted with the same."
    return error("checkpoint-model", where_of(changed[0], run), message, fix)


def _other_model(run: Run, changed: Sequence[str], told: Mismatch, fitting: Sequence[str]) -> Problem:
    name = run.spec.model.name + (" with the workload's overrides" if changed else "")
    message = f"{run.checkpoint} does not hold {name}: {_told(told)}"
    if not fitting:
        fix = f"Name a checkpoint of {name}, or correct model.name and its sizes."
    else:
        fix = f"It holds {' or '.join(fitting[:3])}: correct model.name, or name a checkpoint of {name}."
    return error("checkpoint-model", _where(run), message, fix)


def _told(told: Mismatch) -> str:
    """One difference of each kind, and how many there are."""
    parts = []
    if told.resized:
        more = f" (and {len(told.resized) - 1} more differ)" if len(told.resized) > 1 else ""
        parts.append(f"{_size(told.resized[0])}{more}")
    if told.missing:
        parts.append(f"{len(told.missing)} of {told.of} arrays are missing, e.g. {told.missing[0]}")
    if told.extra:
        parts.append(f"{len(told.extra)} are not the model's, e.g. {told.extra[0]}")
    return "; ".join(parts) + "."


def _size(one: Resized) -> str:
    has = whole(one.saved) if one.saved.copies == 1 else None
    shape = list(has) if has else f"written in pieces of {list(one.saved.piece or ())}"
    return f"{one.name} is {shape} instead of {list(one.wanted)}"


def _where(run: Run) -> str:
    return "model.hf" if run.spec.model.hf is not None and not run.spec.model.checkpoint else "model.checkpoint"
