"""Check memory: the compiler's result for exactly this run, a lower bound for all others, and this machine's own
memory. Pure.

"Fits" is only said of a run that was compiled, now or for the catalogue; the bound refuses and never accepts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from xsft.base.problems import Problem, error, note, warning
from xsft.catalog.fit import (
    DEFAULT_TOKENS,
    CompilerVerdict,
    bytes_per_parameter,
    compiled_on_default_mesh,
    has_default_mesh,
    known_verdict,
    minimum_gib_per_chip,
)
from xsft.catalog.models import CatalogModel, pins
from xsft.catalog.sizes import mesh_axes
from xsft.catalog.tpu import Slice, parse_tpu_type
from xsft.checks.facts import Facts
from xsft.checks.trainer_keys import is_on
from xsft.fit.step import target_length
from xsft.fit.trainer_step import estimate
from xsft.fit.verdict import (
    CompiledStep,
    DoesNotFit,
    Fits,
    Invalid,
    KnownStep,
    Marginal,
    NearStep,
    Verdict,
    figures_text,
)
from xsft.spec.base import Keys
from xsft.spec.resolve import Run
from xsft.trainer.trainer import trainer_of

GIB = 2**30

ASK_COMPILER = "Ask the TPU compiler: xsft fit FILE says it in minutes, without a TPU."
SURE_SHARE = 0.85
"""An estimate of at most this share of the chip is within the compiler's limit: the estimate errs by -12 to +48 %
(fit/trainer_step.py)."""
SHORTER = "Shorten max_target_length or add a slice, or try a few steps first."
NEAREST = "`xsft fit FILE --search` finds the nearest configuration that fits."
SMALLER = f"Use more chips, a shorter max_target_length, mu_dtype: bfloat16, LoRA, or another mesh. {NEAREST}"


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Yield one statement about memory at most, and a problem of the checkpoint's layout."""
    axis = keys.get("param_scan_axis")
    if axis is not None and axis != 1:
        message = (
            f"param_scan_axis {axis} changes the checkpoint's layout; the initial one must have been converted with "
            "the same."
        )
        fix = f"Convert with param_scan_axis={axis} (model.hf does), or leave the key out."
        yield note("param-scan-axis", "overrides.maxtext.param_scan_axis", message, fix)
    verdict = shipped_verdict(run) or facts.fit
    statements = tuple(_check_memory(run, keys, facts, verdict))
    yield from statements
    if run.place is not None and run.place.fit == "required" and run.spec.on_cluster:
        yield from _check_required_fit(run, statements, verdict)


def _check_memory(run: Run, keys: Keys, facts: Facts, verdict: KnownStep | None) -> Iterator[Problem]:
    neighbours = (*shipped_near(run), *facts.near_fits)
    if verdict is not None:
        yield _compiled_problem(verdict, run, neighbours)
    elif run.model is None or is_on(keys.get("override_model_config")):
        return
    elif run.spec.on_this_machine:
        if run.model.params_b is not None and facts.memory_gib:
            need = run.model.params_b * 1e9 * bytes_per_parameter(keys) / GIB
            if need > facts.memory_gib:
                message = (
                    f"{run.model.name} needs at least {need:.0f} GiB here, and this machine has {facts.memory_gib:.0f}."
                )
                fix = "Use a smaller model for target: local (workloads/tiny_local.yaml), or target: xpk."
                yield error("local-memory", "model.name", message, fix)
    elif run.slice is not None:
        refused = tuple(check_size(run, run.model, run.slice, keys)) or tuple(
            _check_gathered_experts(run.model, run.slice, run, keys)
        )
        problems = refused or (_never_compiled(run, run.model, run.slice, keys, neighbours),)
        place = _fitting_place(run, neighbours)
        yield from (replace(problem, fix=f"{place}{problem.fix}") for problem in problems)


def _check_required_fit(run: Run, statements: Sequence[Problem], verdict: KnownStep | None) -> Iterator[Problem]:
    """Yield an error for a run that is not known to fit; a refusal by the compiler is a separate error."""
    release = run.release.version
    compiled_with = verdict.entry.versions.get("maxtext") if verdict else None
    if compiled_with == release or any(problem.severity == "error" for problem in statements):
        return
    if compiled_with is None:
        message = "The place says fit: required, and this run was never compiled for it."
        fix = ASK_COMPILER
    else:
        message = (
            f"The place says fit: required, but the verdict is for MaxText {compiled_with}, and the image has "
            f"{release}."
        )
        fix = f"Use an image with MaxText {compiled_with}."
    yield error("fit-required", "place", message, fix)


def _compiled_problem(verdict: KnownStep, run: Run, neighbours: Sequence[NearStep]) -> Problem:
    """Return the problem or note about a step that was compiled. If the image has another MaxText, the message names
    both releases, and the problem is not an error."""
    problem = _verdict_problem(verdict)
    if problem.fit == "no":
        problem = replace(problem, fix=f"{_fitting_place(run, neighbours)}{problem.fix}")
    compiled_with = verdict.entry.versions.get("maxtext", "")
    release = run.release.version
    if compiled_with == release:
        return problem
    severity = problem.severity
    if severity == "error":
        severity = "warning"
    message = f"{problem.message} It was compiled with MaxText {compiled_with}; the image has {release}."
    return replace(problem, severity=severity, message=message)


def _verdict_problem(step: KnownStep) -> Problem:
    """Return the problem or note about a run that was compiled, perhaps with another length."""
    by = _origin(step)
    match step.entry.verdict:
        case Fits() as fits:
            so = " Fewer tokens need less memory." if step.derived else ""
            message = f"{by} {figures_text(fits)}. It fits.{so}{_note_of(step)}"
            return replace(note("fit-known", "tpu", message), fit="fits")
        case Marginal() as marginal:
            message = (
                f"{by} {figures_text(marginal)}. The compiler accepts it, but a chip may run out of memory."
                f"{_note_of(step)}"
            )
            return replace(warning("fit-marginal", "tpu", message, SHORTER), fit="marginal")
        case DoesNotFit(needed_gib=needed, limit_gib=limit):
            so = " More tokens need more memory." if step.derived else ""
            message = f"{by} it needs {needed:.2f} GiB of {limit:.2f} per chip. It does not fit.{so}{_note_of(step)}"
            return replace(error("fit-refused", "tpu", message, SMALLER, kind="disputable"), fit="no")
        case Invalid(because=because):
            message = f"{by} it cannot be built. {because.message}"
            return replace(error("fit-invalid", because.where, message, because.fix), fit="invalid")


def _origin(step: KnownStep) -> str:
    what = "this run"
    if step.derived:
        what = f"this run with {step.entry.tokens:,} tokens"
    if step.row is not None:
        return f"The TPU compiler's figure for {what} (row {step.row.id}):"
    return f"xsft fit compiled {what} on {step.entry.made_at[:10]}:"


def _note_of(step: KnownStep) -> str:
    if step.row is None or not step.row.note:
        return ""
    return f" {step.row.note[0].upper()}{step.row.note[1:]}."


def _never_compiled(run: Run, model: CatalogModel, tpu: Slice, keys: Keys, neighbours: Sequence[NearStep]) -> Problem:
    """Return a note on a run that should fit, by arithmetic or a run near it, else a warning."""
    size = (tpu, run.num_slices, target_length(keys) or DEFAULT_TOKENS)
    figures = _bound_text(run, model, tpu, keys)
    nearest = min((step for step in neighbours if step.same_mesh), key=lambda step: step.distance(*size), default=None)
    if nearest is not None:
        figures = "; ".join((*filter(None, [figures]), _near_text(nearest)))
    message = f"This run was never compiled for {tpu.xpk_type} × {run.num_slices}: {figures or 'its size is unknown'}."
    if any(step.implies_fit(*size) for step in neighbours) or 0 < estimate(run) <= SURE_SHARE:
        return replace(note("fit-unknown", "tpu", f"{message} It should fit.", ASK_COMPILER), fit="likely")
    return replace(warning("fit-unknown", "tpu", f"{message} It may not fit.", ASK_COMPILER), fit="doubtful")


def _bound_text(run: Run, model: CatalogModel, tpu: Slice, keys: Keys) -> str:
    """Return the lower bound and the estimate, in words; empty for a model or a chip of unknown size."""
    if model.params_b is None or tpu.hbm_gib is None:
        return ""
    minimum = minimum_gib_per_chip(params_b=model.params_b, run=tpu, num_slices=run.num_slices, keys=keys)
    bound = f"at least {minimum:.1f} of {tpu.hbm_gib:.1f} GiB per chip by arithmetic"
    share = estimate(run)
    return f"{bound}, about {share * tpu.hbm_gib:.1f} with activations" if share else bound


def _near_text(neighbour: NearStep) -> str:
    with_tokens = f"{neighbour.place}, {neighbour.entry.tokens:,} tokens"
    match neighbour.entry.verdict:
        case Fits(peak_gib=gib) | Marginal(peak_gib=gib):
            return f"compiled for {with_tokens}, it took {gib:.1f}"
        case DoesNotFit(needed_gib=gib):
            return f"compiled for {with_tokens}, it needed {gib:.1f}"
        case Invalid():
            return f"for {with_tokens} it cannot be built"


def _fitting_place(run: Run, neighbours: Sequence[NearStep]) -> str:
    """Return a sentence that names the smallest slice on which this run is known to fit; empty if none is known."""
    tokens = target_length(trainer_of(run).trainer_keys(run)) or DEFAULT_TOKENS
    fitting = [
        step
        for step in neighbours
        if isinstance(step.entry.verdict, Fits) and step.entry.tokens >= tokens
        if (step.tpu, step.num_slices) != (run.slice, run.num_slices)
    ]
    smallest = min(fitting, key=lambda step: step.tpu.chips * step.num_slices, default=None)
    if smallest is None:
        return ""
    mesh = "the same keys" if smallest.same_mesh else "the default mesh"
    return f"It fits {smallest.place} with {mesh}. "


def check_size(run: Run, model: CatalogModel, tpu: Slice, keys: Keys) -> Iterator[Problem]:
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
        yield replace(error("does-not-fit", "tpu", message, fix, kind="disputable"), fit="no")


def _check_gathered_experts(model: CatalogModel, tpu: Slice, run: Run, keys: Keys) -> Iterator[Problem]:
    """Check the experts of one layer: they and their gradient are gathered over fsdp in bfloat16; only the expert axis
    divides them.

    source: ahead-of-time compilation of deepseek3-671b with fsdp alone: 75.16 GiB, 21 of them one layer's experts.
    Other models were not compiled that way, so for them it is a warning.
    """
    if not model.moe or tpu.hbm_gib is None or is_on(keys.get("lora.enable_lora")):
        return
    ici = mesh_axes(keys, "ici", total=tpu.devices)
    dcn = mesh_axes(keys, "dcn", total=run.num_slices)
    split = ici.get("expert", 1) * dcn.get("expert", 1)
    tensor = ici.get("tensor", 1) * ici.get("fsdp_transpose", 1)
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


def shipped_verdict(run: Run) -> KnownStep | None:
    """Return the catalogue's verdict on this run; None without one, and for a trainer whose step is not compiled."""
    keys = trainer_of(run).trainer_keys(run)
    model = _catalogued_model(run, keys)
    if run.slice is None or model is None:
        return None
    row = known_verdict(model=model, tpu_type=run.slice.xpk_type, num_slices=run.num_slices, keys=keys)
    return KnownStep(entry=_entry(row), derived=row.tokens != target_length(keys), row=row) if row else None


def shipped_near(run: Run) -> Iterator[NearStep]:
    """Yield the catalogue's verdicts on runs that differ from this one only in their length or slice."""
    keys = trainer_of(run).trainer_keys(run)
    model = _catalogued_model(run, keys)
    for row in compiled_on_default_mesh(model=model, keys=keys) if model else ():
        yield NearStep(
            entry=_entry(row),
            tpu=parse_tpu_type(row.tpu_type),
            num_slices=row.num_slices,
            same_mesh=has_default_mesh(keys),
        )


def _catalogued_model(run: Run, keys: Keys) -> str | None:
    """Return the model whose rows may be of this run; None for a model that keys change, and for a trainer whose step
    is not compiled."""
    if run.model is None or run.spec.on_this_machine or trainer_of(run).STEP is None:
        return None
    if is_on(keys.get("override_model_config")):
        return None
    return run.model.name


def _entry(row: CompilerVerdict) -> CompiledStep:
    return CompiledStep(
        verdict=_verdict(row), tokens=row.tokens, versions={"maxtext": row.maxtext}, made_at="", cpu_s=row.cpu_s
    )


def _verdict(row: CompilerVerdict) -> Verdict:
    peak = row.peak_gib or 0.0
    total = row.sum_gib or 0.0
    match row.outcome:
        case "fits":
            return Fits(peak_gib=peak, sum_gib=total, limit_gib=row.limit_gib, by=None)
        case "marginal":
            return Marginal(peak_gib=peak, sum_gib=total, limit_gib=row.limit_gib, by=None)
        case "no":
            return DoesNotFit(needed_gib=peak, limit_gib=row.limit_gib, told_by="compiler")
