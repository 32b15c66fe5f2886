"""Check memory: the compiler's result for exactly this run, a lower bound for all others, and this machine's own
memory. Pure.

"Fits" is only said of a run that was compiled; the bound refuses and never accepts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from xsft.base.problems import Problem, error, note, warning
from xsft.catalog.fit import (
    DEFAULT_TOKENS,
    TOKENS,
    CompilerVerdict,
    FitOutcome,
    bytes_per_parameter,
    minimum_gib_per_chip,
    places_where_it_fits,
)
from xsft.catalog.mesh import mesh_axes
from xsft.catalog.models import CatalogModel, pins
from xsft.catalog.tpu import Slice
from xsft.checks.facts import Facts
from xsft.checks.fit_known import catalogued_verdict
from xsft.checks.values import is_on, number
from xsft.fit.derive import KnownStep
from xsft.fit.verdict import DoesNotFit, Fits, Invalid, Marginal, figures_text
from xsft.spec.base import Value
from xsft.spec.resolve import Run
from xsft.trainer.trainer import trainer_of

GIB = 2**30

SHORTER = "Shorten max_target_length or add a slice, or try a few steps first."
NEAREST = "`xsft fit FILE --search` finds the nearest configuration that fits."
SMALLER = f"Use more chips, a shorter max_target_length, mu_dtype: bfloat16, LoRA, or another mesh. {NEAREST}"


def check(run: Run, keys: Mapping[str, Value], facts: Facts) -> Iterator[Problem]:
    """Yield one statement about memory at most, and a problem of the checkpoint's layout."""
    yield from _scan_axis(keys)
    statements = tuple(_statement(run, keys, facts))
    yield from statements
    if run.place is not None and run.place.fit == "required" and run.spec.on_cluster:
        yield from _check_required_fit(run, statements, compiled_with=_compiled_with(run, keys, facts))


def _statement(run: Run, keys: Mapping[str, Value], facts: Facts) -> Iterator[Problem]:
    if facts.fit is not None and catalogued_verdict(run, keys) is None:
        yield compiled_problem(facts.fit, release=run.release.version)
        return
    if run.model is None or is_on(keys.get("override_model_config", False)):
        return
    if run.spec.on_this_machine:
        yield from _machine(run.model, keys, facts)
    elif run.slice is not None:
        yield from _accelerator(run, run.model, run.slice, keys)


def _compiled_with(run: Run, keys: Mapping[str, Value], facts: Facts) -> str | None:
    """Return the MaxText release of the verdict on this run; None without one."""
    if (row := catalogued_verdict(run, keys)) is not None:
        return row.maxtext
    return facts.fit.entry.versions.get("maxtext") if facts.fit else None


def _check_required_fit(run: Run, statements: Sequence[Problem], *, compiled_with: str | None) -> Iterator[Problem]:
    """Yield an error for a run that is not known to fit; a refusal by the compiler is a separate error."""
    release = run.release.version
    if compiled_with == release or any(problem.severity == "error" for problem in statements):
        return
    if compiled_with is None:
        message = "The place says fit: required, and this run was never compiled for it."
        fix = "Ask the TPU compiler: xsft fit FILE says it in minutes, without a TPU."
    else:
        message = (
            f"The place says fit: required, but the verdict is for MaxText {compiled_with}, and the image has "
            f"{release}."
        )
        fix = f"Use an image with MaxText {compiled_with}."
    yield error("fit-required", "place", message, fix)


def compiled_problem(known: KnownStep, *, release: str) -> Problem:
    """Return the problem or note about a step that was compiled on this machine. `release`: the image's MaxText."""
    return _of_release(_compiled_problem(known), known.entry.versions.get("maxtext", ""), release=release)


def _of_release(problem: Problem, compiled_with: str, *, release: str) -> Problem:
    """Return the problem. If the image has another MaxText, the message names both releases, and the problem is not an
    error."""
    if compiled_with == release:
        return problem
    severity = "warning" if problem.severity == "error" else problem.severity
    message = f"{problem.message} It was compiled with MaxText {compiled_with}; the image has {release}."
    return replace(problem, severity=severity, message=message)


def _compiled_problem(known: KnownStep) -> Problem:
    entry = known.entry
    what = f"this run with {entry.tokens:,} tokens" if known.derived else "this run"
    by = f"xsft fit compiled {what} on {entry.made_at[:10]}:"
    match entry.verdict:
        case Fits() as one:
            return _known_fit("fits", f"{by} {figures_text(one)}.", derived=known.derived)
        case Marginal() as one:
            return _known_fit("marginal", f"{by} {figures_text(one)}.", derived=known.derived)
        case DoesNotFit(needed_gib=needed, limit_gib=limit):
            figures = f"{by} it needs {needed:.2f} GiB of {limit:.2f} per chip."
            return _known_fit("no", figures, derived=known.derived)
        case Invalid(because=because):
            message = f"{by} it cannot be built. {because.message}"
            return replace(error("fit-invalid", because.where, message, because.fix), fit="invalid")


def _accelerator(run: Run, model: CatalogModel, tpu: Slice, keys: Mapping[str, Value]) -> Iterator[Problem]:
    verdict = catalogued_verdict(run, keys)
    if verdict is None:
        found = tuple(_bound_problems(run, model, tpu, keys))
    else:
        derived = number(keys.get(TOKENS, DEFAULT_TOKENS)) != verdict.tokens
        compiled = _catalogued_problem(verdict, derived=derived)
        found = (_of_release(compiled, verdict.maxtext, release=run.release.version),)
    fits = verdict is not None and verdict.outcome != "no"
    elsewhere = "" if fits else _fitting_place(run, model, tpu, keys)
    yield from (replace(problem, fix=f"{elsewhere}{problem.fix}") for problem in found)


def _bound_problems(run: Run, model: CatalogModel, tpu: Slice, keys: Mapping[str, Value]) -> Iterator[Problem]:
    """Yield the problem of a run that was never compiled."""
    refused = tuple(too_big(run, model, tpu, keys)) or tuple(_gathered_experts(model, tpu, run, keys))
    yield from refused
    if not refused:
        message = f"This run was never compiled for {tpu.xpk_type} × {run.num_slices}; whether it fits is unknown."
        fix = "Ask the TPU compiler: xsft fit FILE says it in minutes, without a TPU."
        yield replace(note("fit-unknown", "tpu", message, fix), fit="unknown")


def _fitting_place(run: Run, model: CatalogModel, tpu: Slice, keys: Mapping[str, Value]) -> str:
    """Return a sentence that names the smallest slice on which this run is known to fit; empty if none is known."""
    for place in places_where_it_fits(model=model.name, keys=keys) if trainer_of(run).STEP else ():
        if (place.tpu_type, place.num_slices) != (tpu.xpk_type, run.num_slices):
            return f"It fits {place.tpu_type} × {place.num_slices} with the default mesh (row {place.id}). "
    return ""


def _catalogued_problem(verdict: CompilerVerdict, *, derived: bool) -> Problem:
    """Return the problem or note about a compiled run. `derived`: the compiled run has other tokens."""
    figures = f"{verdict.peak_gib} GiB at the peak" + (f", {verdict.sum_gib} in total" if verdict.sum_gib else "")
    what = f"this run with {verdict.tokens:,} tokens" if derived else "this run"
    message = (
        f"The TPU compiler's figure for {what} (row {verdict.id}): {figures}, of {verdict.limit_gib} GiB per chip."
    )
    more = f" {verdict.note[0].upper()}{verdict.note[1:]}." if verdict.note else ""
    return _known_fit(verdict.outcome, message, derived=derived, more=more)


def _known_fit(outcome: FitOutcome, figures: str, *, derived: bool, more: str = "") -> Problem:
    """Return the problem or note about a run that was compiled. `derived`: with other tokens."""
    match outcome:
        case "fits":
            so = " Fewer tokens need less memory." if derived else ""
            return replace(note("fit-known", "tpu", f"{figures} It fits.{so}{more}"), fit="fits")
        case "marginal":
            message = f"{figures} The compiler accepts it, but a chip may run out of memory.{more}"
            return replace(warning("fit-marginal", "tpu", message, SHORTER), fit="marginal")
        case "no":
            so = " More tokens need more memory." if derived else ""
            return replace(error("fit-refused", "tpu", f"{figures} It does not fit.{so}{more}", SMALLER), fit="no")


def too_big(run: Run, model: CatalogModel, tpu: Slice, keys: Mapping[str, Value]) -> Iterator[Problem]:
    """Check the lower bound: weights, optimizer state and gradients alone, below what a step really takes by 11 to 93
    %."""
    if model.params_b is None or tpu.hbm_gib is None or keys.get("lora.lora_weight_qtype"):
        return
    need = minimum_gib_per_chip(params_b=model.params_b, run=tpu, num_slices=run.num_slices, keys=keys)
    if need > tpu.hbm_gib:
        message = (
            f"{model.name} needs at least {need:.1f} GiB of {tpu.hbm_gib:g} per chip for its state alone: "
            f"{bytes_per_parameter(keys):g} bytes × {model.params_b:g}e9 parameters, over the chips that share a copy."
        )
        smaller = "Use more chips, split the state over slices (parallelism.dcn.fsdp), mu_dtype: bfloat16, or LoRA."
        fix = f"{smaller} {NEAREST}"
        yield replace(error("does-not-fit", "tpu", message, fix), fit="no")


def _gathered_experts(model: CatalogModel, tpu: Slice, run: Run, keys: Mapping[str, Value]) -> Iterator[Problem]:
    """Check the experts of one layer: they and their gradient are gathered over fsdp in bfloat16; only the expert axis
    divides them.

    source: ahead-of-time compilation of deepseek3-671b with fsdp alone: 75.16 GiB, 21 of them one layer's experts.
    Other models were not compiled that way, so for them it is a warning.
    """
    if not model.moe or tpu.hbm_gib is None or is_on(keys.get("lora.enable_lora", False)):
        return
    ici, dcn = mesh_axes(keys, "ici", total=tpu.devices), mesh_axes(keys, "dcn", total=run.num_slices)
    split, tensor = ici.get("expert", 1) * dcn.get("expert", 1), ici.get("tensor", 1) * ici.get("fsdp_transpose", 1)
    need = 2 * 2 * 3 * model.experts * model.emb * model.moe_dim / max(1, split * tensor) / GIB
    if need > tpu.hbm_gib:
        message = (
            f"With expert {max(1, split)} each chip gathers {model.experts} experts of a layer and their gradient: "
            f"{need:.1f} GiB of {tpu.hbm_gib:g}."
        )
        fix = "Split them: parallelism.ici.expert: 16 with fsdp for the rest."
        if pins(model.name).get("decoder_block") == "deepseek":
            yield error("experts-gathered", "parallelism.ici.expert", message, fix)
        else:
            yield warning("experts-gathered", "parallelism.ici.expert", message, fix)


def _scan_axis(keys: Mapping[str, Value]) -> Iterator[Problem]:
    axis = keys.get("param_scan_axis")
    if axis is not None and axis != 1:
        message = (
            f"param_scan_axis {axis} changes the checkpoint's layout; the initial one must have been converted with "
            "the same."
        )
        fix = f"Convert with param_scan_axis={axis} (model.hf does), or leave the key out."
        yield note("param-scan-axis", "overrides.maxtext.param_scan_axis", message, fix)


def _machine(model: CatalogModel, keys: Mapping[str, Value], facts: Facts) -> Iterator[Problem]:
    if model.params_b is None or not facts.memory_gib:
        return
    need = model.params_b * 1e9 * bytes_per_parameter(keys) / GIB
    if need > facts.memory_gib:
        message = f"{model.name} needs at least {need:.0f} GiB here, and this machine has {facts.memory_gib:.0f}."
        fix = "Use a smaller model for target: local (workloads/tiny_local.yaml), or target: xpk."
        yield error("local-memory", "model.name", message, fix)
