"""The answer of `xsft fit` about one workload: as text, and as a part of the document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import to_builtins

from xsft.base.amounts import duration_text
from xsft.fit.verdict import DoesNotFit, Fits, Invalid, Marginal, StepMemory, figures_text
from xsft.launch.fit_answers import FitAnswer
from xsft.verbs.plan_document import time_document
from xsft.verbs.plan_summary import time_text

EVAL_STEP = "the eval step"
NOT_COVERED = (
    "restoring the checkpoint",
    "a second step in flight",
    "the runtime's own memory",
    EVAL_STEP,
)
"""Parts of a run that no verdict covers. source: aot_fit.md §4"""
COMPARED = "v6e"
"""The generation whose limit was compared with published facts."""

SMALLEST_GIB = 0.01
"""Smaller buffers are not shown."""


def fit_text(answer: FitAnswer) -> Iterator[str]:
    """Yield the lines of one answer."""
    step = ", evaluation" if answer.kind == "eval" else ""
    yield f"{answer.run.run_name}{step}: {headline(answer)}"
    match answer.verdict:
        case Fits(by=by) | Marginal(by=by):
            if by:
                yield from _memory_lines(by)
            if answer.time:
                yield f"  time: {time_text(answer.time)}"
        case DoesNotFit(told_by="compiler"):
            yield "  The compiler names one total for a refused step, and no buffers."
        case DoesNotFit():
            yield "  Weights, optimizer state and gradients alone; activations come on top."
        case Invalid(because=because):
            yield f"  fix: {because.fix}"
            if because.said:
                yield f"  said: {because.said}"
    yield from (f"  {line}" for line in fit_notes(answer))


def fit_matrix(answers: Sequence[FitAnswer]) -> Iterator[str]:
    """Yield a table for each run: TPU types down, numbers of slices across."""
    for name in dict.fromkeys(one.run.run_name for one in answers):
        cells = {_cell_place(one): _cell(one) for one in answers if one.run.run_name == name}
        slices = dict.fromkeys(count for _, count in cells)
        width = max(len(text) for text in cells.values()) + 2
        yield f"{name}, GiB per chip: peak / sum"
        yield f"{'':<16}" + "".join(f"{f'× {count}':<{width}}" for count in slices).rstrip()
        for tpu in dict.fromkeys(tpu for tpu, _ in cells):
            yield f"{tpu:<16}" + "".join(f"{cells.get((tpu, count), ''):<{width}}" for count in slices).rstrip()
    yield f"Not covered: {', '.join(NOT_COVERED)}."


def _cell_place(answer: FitAnswer) -> tuple[str, int]:
    return (answer.run.slice.xpk_type if answer.run.slice else "?", answer.run.num_slices)


def _cell(answer: FitAnswer) -> str:
    match answer.verdict:
        case Fits() as one:
            return f"FITS {one.peak_gib:.2f} / {one.sum_gib:.2f}"
        case Marginal() as one:
            return f"MARGINAL {one.peak_gib:.2f} / {one.sum_gib:.2f}"
        case DoesNotFit() as one:
            return f"NO {'≥ ' if one.told_by == 'bound' else ''}{one.needed_gib:.2f}"
        case Invalid(because=because):
            return f"INVALID ({because.where or 'keys'})"


def headline(answer: FitAnswer) -> str:
    """Return the verdict with its figures."""
    place = answer.place
    match answer.verdict:
        case Fits() as one:
            return f"FITS {place}: {figures_text(one)}"
        case Marginal() as one:
            return (
                f"MARGINAL on {place}: {figures_text(one)}; the compiler accepts it, but a chip may run out of memory"
            )
        case DoesNotFit() as one:
            least = "at least " if one.told_by == "bound" else ""
            return f"NO, does not fit {place}: needs {least}{one.needed_gib:.2f} GiB of {one.limit_gib:.2f} per chip"
        case Invalid(because=because):
            where = f"{because.where}: " if because.where else ""
            return f"INVALID on {place}: {where}{because.message}"


def fit_document(answer: FitAnswer) -> dict[str, Any]:
    """Return one entry of `fits` in the document `xsft.fit/1`."""
    verdict, known = answer.verdict, answer.known
    accepted = verdict if isinstance(verdict, Fits | Marginal) else None
    entry = known.entry if known else None
    time = answer.time
    return {
        "file": answer.file,
        "run_name": answer.run.run_name,
        "step": answer.kind,
        "tpu_type": _cell_place(answer)[0],
        "num_slices": answer.run.num_slices,
        "verdict": to_builtins(verdict)["verdict"],
        "peak_gib": accepted.peak_gib if accepted else None,
        "sum_gib": accepted.sum_gib if accepted else None,
        "needed_gib": verdict.needed_gib if isinstance(verdict, DoesNotFit) else None,
        "limit_gib": None if isinstance(verdict, Invalid) else verdict.limit_gib,
        "by": to_builtins(accepted.by) if accepted else None,
        "because": to_builtins(verdict.because) if isinstance(verdict, Invalid) else None,
        "source": answer.source,
        "cached": answer.source in ("catalogue", "cache"),
        "derived_from_tokens": entry.tokens if known and entry and known.derived else None,
        "versions": entry.versions if entry else {},
        "seconds": entry.seconds if entry else {},
        "cpu_s": entry.cpu_s if entry else 0.0,
        "rss_gib": entry.rss_gib if entry else 0.0,
        "step_time_bound_s": time.step_s if time else None,
        "bound_by": "arithmetic" if time else None,
        "time": time_document(time) if time else None,
        "notes": list(fit_notes(answer)),
        "not_covered": list(not_covered(answer)),
        "alternatives": [],
        "search": None,
    }


def _memory_lines(by: StepMemory) -> Iterator[str]:
    parts = (
        ("weights", by.weights),
        ("optimizer", by.optimizer),
        ("gradients", by.gradients),
        ("batch", by.batch),
        ("temporaries", by.temporaries),
    )
    yield from (f"  {label:<12}{gib:8.2f} GiB" for label, gib in parts)
    if by.host:
        yield f"  host        {by.host:8.2f} GiB of the host's memory per chip, not in the sum"
    if not by.peak_known:
        yield "  The compiler reports only the host's peak. The chip's peak, which it accepts, is at most the sum."
    large = tuple(one for one in by.buffers if one.gib >= SMALLEST_GIB)
    if large:
        yield "  largest buffers that the program writes (not all exist at the same time):"
    for one in large:
        yield f"  {one.gib:12.2f} GiB  {one.shape} × {one.count}{f'  {one.layer}' if one.layer else ''}"


def not_covered(answer: FitAnswer) -> tuple[str, ...]:
    """Return what the verdict does not cover."""
    return tuple(one for one in NOT_COVERED if one != EVAL_STEP or answer.kind == "train")


def fit_notes(answer: FitAnswer) -> Iterator[str]:
    """Yield notes on the figures, one sentence each."""
    known = answer.known
    if known is not None and known.derived:
        more = "more" if answer.refused else "fewer"
        verb = "need more memory" if answer.refused else "need less memory"
        yield f"Follows from the compiled run with {known.entry.tokens:,} tokens: {more} tokens {verb}."
    yield _origin(answer)
    if known is not None and known.entry.versions.get("maxtext") != answer.run.release.version:
        compiled, image = known.entry.versions.get("maxtext"), answer.run.release.version
        yield f"The step was compiled with MaxText {compiled}; the image has {image}, for which the result is unknown."
    if answer.run.slice and answer.run.slice.generation != COMPARED:
        yield f"Only the figures of {COMPARED} were compared with published facts; this limit is the compiler's own."
    if not answer.refused:
        yield f"Not covered: {', '.join(not_covered(answer))}."


def _origin(answer: FitAnswer) -> str:
    """Return where the verdict comes from, and what it cost."""
    if answer.known is None:
        return "Decided by arithmetic, without the compiler."
    entry = answer.known.entry
    if answer.source == "catalogue":
        return f"From the catalogue, row {answer.row}, MaxText {entry.versions['maxtext']}."
    with_ = ", ".join(f"{name} {version}" for name, version in entry.versions.items() if name in ("maxtext", "libtpu"))
    took = duration_text(sum(entry.seconds.values()))
    return f"Compiled {entry.made_at[:10]} in {took} ({entry.cpu_s:.0f} CPU-s, {entry.rss_gib:.1f} GiB) with {with_}."
