"""The text of `xsft fit`: the answer about one workload, and the result of a search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import unified_diff
from typing import Literal

from msgspec import to_builtins

from xsft.base.amounts import duration_text
from xsft.fit.search import FitSearch, TriedAlternative
from xsft.fit.trainer_step import tunable_run
from xsft.fit.verdict import DoesNotFit, Fits, Invalid, Marginal, StepMemory, Verdict, figures_text, rejection
from xsft.launch.fit_search import FitAnswer, FoundFit
from xsft.verbs.plan_text import time_text

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

VerdictName = Literal["fits", "marginal", "no", "invalid"]

UNTRIED = {
    "takes-no-less": "no less memory than one that was refused",
    "hopeless": "estimated far above the chip, not compiled",
    "open": "not reached",
}

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
    for name in dict.fromkeys(answer.run.run_name for answer in answers):
        cells = {cell_place(answer): _cell(answer) for answer in answers if answer.run.run_name == name}
        slices = dict.fromkeys(count for _, count in cells)
        width = max(len(text) for text in cells.values()) + 2
        yield f"{name}, GiB per chip: peak / sum"
        yield f"{'':<16}" + "".join(f"{f'× {count}':<{width}}" for count in slices).rstrip()
        for tpu in dict.fromkeys(tpu for tpu, _ in cells):
            yield f"{tpu:<16}" + "".join(f"{cells.get((tpu, count), ''):<{width}}" for count in slices).rstrip()
    yield f"Not covered: {', '.join(NOT_COVERED)}."


def cell_place(answer: FitAnswer) -> tuple[str, int]:
    return (answer.run.slice.xpk_type if answer.run.slice else "?", answer.run.num_slices)


def _cell(answer: FitAnswer) -> str:
    match answer.verdict:
        case Fits() as verdict:
            return f"FITS {verdict.peak_gib:.2f} / {verdict.sum_gib:.2f}"
        case Marginal() as verdict:
            return f"MARGINAL {verdict.peak_gib:.2f} / {verdict.sum_gib:.2f}"
        case DoesNotFit() as verdict:
            return f"NO {'≥ ' if verdict.told_by == 'bound' else ''}{verdict.needed_gib:.2f}"
        case Invalid(because=because):
            return f"INVALID ({because.where or 'keys'})"


def headline(answer: FitAnswer) -> str:
    """Return the verdict with its figures."""
    place = answer.place
    match answer.verdict:
        case Fits() as verdict:
            return f"FITS {place}: {figures_text(verdict)}"
        case Marginal() as verdict:
            warning = "the compiler accepts it, but a chip may run out of memory"
            return f"MARGINAL on {place}: {figures_text(verdict)}; {warning}"
        case DoesNotFit() as verdict:
            bound = "at least " if verdict.told_by == "bound" else ""
            needed = f"{bound}{verdict.needed_gib:.2f} GiB"
            return f"NO, does not fit {place}: needs {needed} of {verdict.limit_gib:.2f} per chip"
        case Invalid(because=because):
            where = f"{because.where}: " if because.where else ""
            return f"INVALID on {place}: {where}{because.message}"


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
    large = tuple(buffer for buffer in by.buffers if buffer.gib >= SMALLEST_GIB)
    if large:
        yield "  largest buffers that the program writes (not all exist at the same time):"
    for buffer in large:
        yield f"  {buffer.gib:12.2f} GiB  {buffer.shape} × {buffer.count}  {buffer.layer}".rstrip()


def not_covered(answer: FitAnswer) -> tuple[str, ...]:
    """Return what the verdict does not cover."""
    return tuple(part for part in NOT_COVERED if part != EVAL_STEP or answer.kind == "train")


def fit_notes(answer: FitAnswer) -> Iterator[str]:
    """Yield notes on the figures, one sentence each."""
    step = answer.known
    if step is not None and step.derived:
        rule = "more tokens need more memory" if answer.refused else "fewer tokens need less memory"
        yield f"Follows from the compiled run with {step.entry.tokens:,} tokens: {rule}."
    yield _origin(answer)
    image = answer.run.release.version
    if step is not None and (compiled := step.entry.versions.get("maxtext")) != image:
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
    if (row := answer.known.row) is not None:
        return f"From the catalogue, row {row.id}, MaxText {row.maxtext}."
    with_ = ", ".join(f"{name} {version}" for name, version in entry.versions.items() if name in ("maxtext", "libtpu"))
    took = duration_text(sum(entry.seconds.values()))
    return f"Compiled {entry.made_at[:10]} in {took} ({entry.cpu_s:.0f} CPU-s, {entry.rss_gib:.1f} GiB) with {with_}."


def search_begins(fit: FoundFit) -> str:
    """Return what the search will do, in one line."""
    return (
        f"Searching {len(fit.search.candidates)} alternatives ({len(fit.refused)} more are refused by "
        f"arithmetic), one compilation at a time, for up to {duration_text(fit.budget_s)}."
    )


def tried_line(search: FitSearch) -> str:
    """Return the line about the alternative that was tried last."""
    last = search.tried[-1]
    best = " (the best so far)" if search.best is last else ""
    return f"  {_verdict_text(last)}: {last.alternative.words}{best}"


def _verdict_text(tried: TriedAlternative) -> str:
    if tried.verdict is None:
        return f"no verdict, {tried.why}"
    return f"{verdict_name(tried.verdict).upper()}, {rejection(tried.verdict)}"


def verdict_name(verdict: Verdict) -> VerdictName:
    name: VerdictName = to_builtins(verdict)["verdict"]
    return name


def found_lines(fit: FoundFit, base: FitAnswer) -> Iterator[str]:
    """Yield what was found, and what was rejected."""
    best = fit.search.best
    if isinstance(base.verdict, Fits):
        yield "It fits as it is: nothing to search."
        return
    match fit.stopped:
        case "budget":
            yield f"Stopped after {duration_text(fit.budget_s)}; the same command continues (verdicts are kept)."
        case "interrupted":
            yield "Interrupted; the same command continues (verdicts are kept)."
        case "done":
            pass
    yield from _rejected_lines(fit)
    if best is None:
        yield "No alternative that fits was found."
        return
    is_nearest = not any(why == "open" for _, why in fit.search.untried_candidates())
    yield f"The nearest {'' if is_nearest else 'so far '}that fits: {best.alternative.words}."
    tokens = best.alternative.run.tokens_per_step
    as_it_is = tunable_run(base.run)
    if as_it_is and tokens != as_it_is.tokens_per_step:  # an effect on the training, besides the changed keys
        yield f"A step trains {tokens:,.0f} tokens instead of {as_it_is.tokens_per_step:,.0f}."


def _rejected_lines(fit: FoundFit) -> Iterator[str]:
    """Yield why each alternative that would be preferred was rejected; compiled ones had their line before."""
    yield from (f"  {refused.alternative.words}: {refused.why}" for refused in fit.preferred)
    untried = [(fit.search.candidates[place].alternative.words, why) for place, why in fit.search.untried_candidates()]
    yield from (f"  {words}: {UNTRIED[why]}" for words, why in untried if why != "open")
    if unreached := sum(why == "open" for _, why in untried):
        yield f"  {unreached} alternatives were {UNTRIED['open']}."


def diff_lines(file: str, texts: tuple[str, str]) -> Iterator[str]:
    before, after = (text.splitlines() for text in texts)
    yield from unified_diff(before, after, fromfile=file, tofile=file, n=1, lineterm="")
