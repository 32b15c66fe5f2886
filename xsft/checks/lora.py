"""Check LoRA: settings that stop MaxText's adapters before the first step, masks, and the adapters that a run starts
from: their model, modules and rank. Pure.

source: measured with maxtext@0.2.5 and qwix@0.1.8 (ahead-of-time compilation, and arrays on a CPU). MaxText compares no
saved adapters. Run on 0.2.5 (restore_lora_from_path): adapters of another rank or model replace the run's own, whatever
their shape. Adapters without a module in the run are dropped, and a missing one raises ValueError.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from msgspec import Struct

from xsft.base.problems import Problem, error, note, warning
from xsft.catalog.arrays import ArrayLayout, RequiredArrays, required
from xsft.catalog.layers import ArrayShape
from xsft.catalog.releases import at_least
from xsft.checks.checkpoint import right_level, scan_axis, scan_of
from xsft.checks.facts import Facts
from xsft.checks.trainer_keys import is_on, number, where_of
from xsft.spec.base import Keys
from xsft.spec.facts import CheckpointFacts
from xsft.spec.resolve import Run
from xsft.weights.checkpoint_files import certain
from xsft.weights.checkpoint_report import kind, weights
from xsft.workers.expression import matching_texts

WHERE = "lora.restore_path"


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    yield from check_lora(run, keys, facts)
    yield from check_adapters(run, keys, facts)


def check_lora(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check the settings of LoRA, if adapters are requested."""
    del facts
    if not is_on(keys.get("lora.enable_lora")):
        return
    yield from _check_lora_release(run, keys)
    # A scan over layers carries activations (bfloat16), and float32 adapters return
    # float32.
    mixed = keys.get("weight_dtype", "float32") == "float32" and keys.get("dtype", "bfloat16") == "bfloat16"
    if mixed and is_on(keys.get("scan_layers", True)):
        message = (
            "LoRA with float32 weights stops with TypeError: scan body carry bfloat16 against float32 (float32 is "
            "MaxText's default)."
        )
        yield error("lora-float32", "train.weight_dtype", message, "Set train.weight_dtype: bfloat16.")
    if keys.get("attention") == "flash":
        message = (
            "attention=flash stops LoRA: MaxText adds adapters by tracing one token, and flash requires multiples of "
            "128."
        )
        fix = "Remove it: the default, autoselected, uses flash from 128 tokens up."
        yield error("lora-flash", where_of("attention", run), message, fix)
    yield from _check_module_pattern(run, keys)
    alpha = number(keys.get("lora.lora_alpha")) or 0
    rank = number(keys.get("lora.lora_rank")) or 0
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


def check_adapters(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Yield the problems that the files show; what could not be read is a warning that `submit` does not accept."""
    stored = facts.adapters
    yield from _check_module_path(run, keys, facts)
    yield from _check_mask(run, keys, facts)
    if run.adapters is None:
        return
    if stored is None:
        if run.adapters.startswith("gs://"):
            yield _adapters_unread(f"{run.adapters} was not read. {UNKNOWN}")
        return
    match stored.status:
        case "read":
            yield from _check_saved_adapters(run, keys, stored, facts)
        case "torn":
            fix = "Use another step of that run; `xsft checkpoint inspect` shows which one is complete."
            yield error("lora-restore-torn", WHERE, f"{run.adapters} is incomplete: {stored.detail}.", fix)
        case "missing" | "not-a-checkpoint":
            fix = right_level(stored, WHERE)
            yield error("lora-restore-path", WHERE, f"{run.adapters} holds no adapters: {stored.detail}.", fix)
        case "unreadable":
            yield _adapters_unread(f"{run.adapters} could not be read: {stored.detail.rstrip('.')}. {UNKNOWN}")


def _check_module_path(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check that lora.module_path matches a module. source: maxtext@0.2.5 utils/lora_utils.py: "no LoRA parameters
    found"."""
    path = str(keys.get("lora.lora_module_path") or "")
    where = "lora.module_path"
    if not path or not is_on(keys.get("lora.enable_lora")) or not is_on(keys.get("scan_layers", True)):
        return
    model = _adapted_arrays(run, keys, facts)
    names = [name.split(".") for name in model.arrays] if model else []
    paths = {"/".join(parts[:end]) for parts in names for end in range(1, len(parts) + 1)}
    try:
        matching = matching_texts(path, paths, whole=True)
    except ValueError as invalid:
        yield error("lora-module-none", where, f"{invalid}.", "Correct the regular expression.")
        return
    if matching is None:
        yield error("lora-module-none", where, f"Matching {path!r} {TOO_LONG}", "Simplify the regular expression.")
    elif paths and not matching:
        kernels = sorted("/".join(parts[:-1]) for parts in names if parts[-1] == "kernel")
        message = f"{path!r} matches no module of {run.spec.model.name}: MaxText stops with `no LoRA parameters found`."
        fix = f"Match whole paths, such as {kernels[0]}, or remove it if MaxText has a pattern for the model."
        yield error("lora-module-none", where, message, fix, kind="disputable")


MASK = "trainable_parameters_mask"
TOO_LONG = "with the names of the model takes too much time or memory, here and in MaxText."


def _check_mask(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check that the mask of trained weights matches an array. source: maxtext@0.2.5 optimizers/optimizers.py
    [_get_path_mask_fn]: `re.search` in paths of arrays; Tunix's adapter puts `base` before them."""
    patterns = keys.get(MASK)
    model = _adapted_arrays(run, keys, facts)
    if not isinstance(patterns, list) or not patterns or model is None or not is_on(keys.get("scan_layers", True)):
        return
    paths = [f"{of}{name.replace('.', '/')}/value" for of in ("", "base/") for name in model.arrays]
    try:
        trained = [matching_texts(str(pattern), paths) for pattern in patterns]
    except ValueError:
        trained = []
    if None in trained:
        yield error("mask-freezes-all", where_of(MASK, run), f"Matching {MASK} {TOO_LONG}", "Simplify its patterns.")
    elif not any(trained):
        message = f"{MASK} matches no array of {run.spec.model.name}: every weight is frozen, and nothing is trained."
        fix = f"Match paths such as {paths[0].removesuffix('/value')}, or remove it."
        yield error("mask-freezes-all", where_of(MASK, run), message, fix, kind="disputable")


UNKNOWN = "Unknown: whether the adapters exist and are complete, their rank and their modules."


def _adapters_unread(message: str) -> Problem:
    fix = "Make it readable from here, or accept it: checks: {lora-restore-unread: why}. Otherwise submit refuses it."
    return warning("lora-restore-unread", WHERE, message, fix, kind="unread")


def _check_saved_adapters(run: Run, keys: Keys, stored: CheckpointFacts, facts: Facts) -> Iterator[Problem]:
    # By the name of the weight that each pair adapts, e.g. `decoder.layers.mlp.wo.kernel`.
    shapes = {name: certain(array) for name, array in weights(stored.arrays).items()}
    names = sorted(name.removesuffix("_lora_a") for name in shapes if name.endswith("_lora_a"))
    pairs = {name: _AdapterPair(a=shapes[f"{name}_lora_a"], b=shapes.get(f"{name}_lora_b")) for name in names}
    if kind(stored.arrays) != "adapters":
        fix = "Give …/checkpoints/N/model_params of a LoRA run; weights go under model.checkpoint."
        yield error("lora-restore-path", WHERE, f"{run.adapters} holds no LoRA adapters.", fix)
        return
    rank = number(keys.get("lora.lora_rank", 0))
    ranks = sorted({pair.rank for pair in pairs.values() if pair.rank is not None})
    if rank and ranks and ranks != [rank]:
        listed = " and ".join(map(str, ranks))
        message = (
            f"{run.adapters} holds adapters of rank {listed}, the run has rank {rank:g}. MaxText 0.2.5 loads them "
            "unchanged, and scales them by the run's alpha / rank."
        )
        yield error("lora-restore-rank", WHERE, message, f"Set lora.rank: {ranks[0]}")
    model = _adapted_arrays(run, keys, facts)
    if model is None:
        return
    if foreign := _foreign(pairs, model.arrays):
        message = f"{run.adapters} does not adapt {run.spec.model.name}: {foreign}."
        fix = "Use adapters of this model, or correct model.name, its sizes and model.scan_layers."
        yield error("lora-restore-model", WHERE, message, fix, kind="disputable")
        return
    adapted = _adapted_weights(keys, model.arrays)
    missing = sorted(adapted - set(pairs))
    unused = sorted(set(pairs) - adapted)
    if adapted and (missing or unused):
        differences = [f"{len(missing)} are missing, e.g. {missing[0]}"] if missing else []
        if unused:
            differences.append(f"{len(unused)} would be dropped, e.g. {unused[0]}")
        message = f"{run.adapters} adapts other modules than lora.module_path: {'; '.join(differences)}."
        fix = "Set lora.module_path to the value that the adapters were trained with."
        yield error("lora-restore-modules", WHERE, message, fix, kind="disputable")


class _AdapterPair(Struct, frozen=True, kw_only=True):
    """Shapes of one module's two adapters; None if the files do not give them."""

    a: ArrayShape | None
    b: ArrayShape | None

    @property
    def rank(self) -> int | None:
        return self.a[-1] if self.a else None

    def fits(self, kernel: ArrayShape) -> bool:
        """Return whether the shapes agree: per layer a is in x rank, b rank x out and the kernel in x out; all are
        stacked alike or none is."""
        if self.a is None or self.b is None or self.rank is None:
            return True
        numbers = math.prod(self.a) * math.prod(self.b)
        return any(numbers == math.prod(kernel) * layers * self.rank**2 for layers in (1, *kernel[:2]))


def _adapted_arrays(run: Run, keys: Keys, facts: Facts) -> RequiredArrays | None:
    """Return the arrays that the run adapts; None if not all are known."""
    layout = ArrayLayout(scan=scan_of(run, keys, facts.checkpoint), axis=scan_axis(keys))
    arrays = required(run.spec.model.name, keys, layout=layout, release=run.release.version)
    return arrays if arrays is not None and arrays.complete else None


def _foreign(pairs: Mapping[str, _AdapterPair], arrays: Mapping[str, ArrayShape]) -> str:
    """Return what is wrong with the first adapter that does not belong to the model; empty if all do."""
    for name, pair in pairs.items():
        if name not in arrays:
            return f"the model has no {name}"
        if not pair.fits(arrays[name]):
            return f"adapters of {name} are {list(pair.a or ())} and {list(pair.b or ())}, not of {list(arrays[name])}"
    return ""


def _adapted_weights(keys: Keys, arrays: Mapping[str, ArrayShape]) -> set[str]:
    """Return the weights whose module the pattern names; empty if MaxText chooses it, or adapts more than kernels.

    source: qwix@0.1.8 _src/qconfig.py (`re.fullmatch` of the module's path).
    """
    kernels = {name.removesuffix(".kernel").replace(".", "/"): name for name in arrays if name.endswith(".kernel")}
    try:
        matching = matching_texts(str(keys.get("lora.lora_module_path") or "(?!)"), kernels, whole=True)
    except ValueError:
        return set()
    return {kernels[path] for path in matching or ()}
