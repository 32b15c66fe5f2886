"""`xsft fit FILE…`: ask the TPU compiler whether each workload fits, and what takes the memory."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Literal

from msgspec.structs import replace

from xsft.base.errors import INTERRUPTED, TimedOut, UsageError
from xsft.base.reporting import ProgressView
from xsft.fit.alternatives import Alternative
from xsft.fit.search import FitSearch, FitSource
from xsft.fit.trainer_step import needed_step
from xsft.fit.translate import InvalidStep
from xsft.fit.verdict import Fits, StepMemory, Verdict, rejection
from xsft.launch.fit_search import (
    FitAnswer,
    FitQuestions,
    FoundFit,
    SearchRequest,
    SearchResult,
    SearchState,
    load_variants,
    search,
)
from xsft.machine.files import STDIN
from xsft.planning import api
from xsft.verbs.document import (
    Document,
    VerbDocument,
    document_of,
    print_lines,
    problem_documents,
    report_document,
    request_of,
    show_progress,
)
from xsft.verbs.fit_text import (
    UNTRIED,
    cell_place,
    diff_lines,
    fit_matrix,
    fit_notes,
    fit_text,
    found_lines,
    not_covered,
    search_begins,
    tried_line,
    verdict_name,
)
from xsft.verbs.plan_text import RunTimeDocument, time_document


class AlternativeDocument(Document, frozen=True, kw_only=True):
    """One alternative that `--search` considered."""

    settings: dict[str, str | int | float | bool]
    """Key path -> value, as `--set` takes them."""
    verdict: Literal["fits", "marginal", "no", "invalid"] | None
    """Verdict; null if not compiled (`why` gives the reason)."""
    peak_gib: float | None = None
    sum_gib: float | None = None
    needed_gib: float | None = None
    source: FitSource | Literal[""]
    why: str
    """Why it is rejected; empty if it fits."""


class FitSearchDocument(Document, frozen=True, kw_only=True):
    """The result of `--search`."""

    settings: dict[str, str | int | float | bool] | None
    """Changes with which the workload fits; null if none were found or needed."""
    stopped: Literal["done", "budget", "interrupted"]
    """`done`: no preferred alternative is left."""
    budget_s: float
    diff: str
    """Change of the file, as a unified diff."""
    written: bool


class FitEntryDocument(Document, frozen=True, kw_only=True):
    """The verdict on one workload's step."""

    file: str
    run_name: str
    step: Literal["train", "eval"]
    tpu_type: str
    num_slices: int
    verdict: Literal["fits", "marginal", "no", "invalid"]
    """`marginal`: the compiler accepts it, but arguments, outputs and temporaries together exceed the chip. `invalid`:
    it does not shard, or there is no such slice."""
    peak_gib: float | None = None
    """Peak per chip, by which the compiler decides; null unless accepted; the sum if not `by.peak_known`."""
    sum_gib: float | None = None
    """Arguments, outputs and temporaries per chip; null unless it accepted."""
    needed_gib: float | None = None
    """For `no`: the compiler's total, or the lower bound of the state."""
    limit_gib: float | None = None
    """Memory per chip by the compiler; null for `invalid`."""
    by: StepMemory | None = None
    """null for a refused step, and for a row of the catalogue."""
    because: InvalidStep | None = None
    source: FitSource
    cached: bool
    derived_from_tokens: int | None = None
    """max_target_length of the compiled step, if the verdict follows from one of another length."""
    versions: dict[str, str] = {}
    """Versions of the packages with which the step was compiled."""
    seconds: dict[str, float] = {}
    """Wall time of each phase."""
    cpu_s: float = 0.0
    rss_gib: float = 0.0
    """Peak memory of the compiler."""
    step_time_bound_s: float | None
    """Minimum time of a step, in seconds; null unless the compiler accepted, or if the TPU's rates are unknown."""
    bound_by: Literal["arithmetic"] | None
    time: RunTimeDocument | None
    notes: tuple[str, ...]
    not_covered: tuple[str, ...]
    alternatives: tuple[AlternativeDocument, ...] = ()
    """Alternatives of `--search`: the compiled ones, and better ones that were not compiled."""
    search: FitSearchDocument | None = None
    """null without `--search`."""


class FitDocument(VerbDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.fit/1"):
    """`xsft fit FILE… --json`."""

    fits: tuple[FitEntryDocument, ...]


def run(args: argparse.Namespace) -> int:
    if args.search:
        return _search(args)
    loaded, unread = load_variants(
        args.files, types=args.types, slices=args.slices, settings=args.settings, run_name=args.run_name
    )
    intents = tuple(zip((workload.file for workload in loaded), api.intend(loaded), strict=True))
    steps = [needed_step(file, intent.run) for file, intent in intents]
    matrix = bool(args.types or args.slices)
    answers = []
    with show_progress("fit") as progress:
        for (file, intent), step in zip(intents, steps, strict=True):
            say = _with_prefix(progress, intent.run.run_name)
            ask = FitQuestions(again=args.again, timeout_s=args.timeout_s, say=say)
            for answer in ask.step_answers(file, intent.run, step, evaluates=args.eval):
                answers.append(answer)
                if not args.json and not matrix:
                    progress.pause()
                    print_lines(fit_text(answer))
    document = FitDocument(fits=tuple(map(fit_entry, answers)), problems=problem_documents(unread))
    if unread or any(answer.refused for answer in answers):
        document = replace(document, exit_status=UsageError.exit_status)
    lines: Iterable[str] = ()
    if matrix:
        lines = fit_matrix(answers)
    elif any(entry.verdict == "no" for entry in document.fits):
        lines = ("--search finds the nearest configuration that fits.",)
    return report_document(document, lambda _document: lines, as_json=args.json)


def _with_prefix(progress: Callable[[str], None], name: str) -> Callable[[str], None]:
    return lambda line: progress(f"{name}: {line}")


def _search(args: argparse.Namespace) -> int:
    if len(args.files) != 1 or args.files[0] == STDIN:
        raise UsageError("--search takes one workload file.", fix="Give one file; each search takes its own budget.")
    if args.write and args.settings:
        fix = "Write the settings into the file first, or search without --write."
        raise UsageError("--write would change a file that --set has already changed for this command.", fix=fix)
    slices = tuple(int(number) for number in args.slices if number.isdecimal())
    request = request_of(args, SearchRequest, file=args.files[0], slices=slices)
    with show_progress("fit") as progress:
        report = partial(_report_state, progress=progress, as_json=args.json)
        done = search(request, progress=progress, report=report)
    document = FitDocument(fits=(_searched_entry(done),), exit_status=_search_status(done))
    text = partial(_searched_lines, done=done, settings=args.settings)
    return report_document(document, text, as_json=args.json)


def _searched_lines(document: FitDocument, *, done: SearchResult, settings: Sequence[str]) -> Iterator[str]:
    """Yield what was found and rejected, and the change of the file. `settings`: of --set, which the file lacks."""
    yield from found_lines(done.found, done.base)
    outcome = document.fits[0].search
    if outcome is None or outcome.settings is None:
        return
    yield from outcome.diff.splitlines()
    if settings:
        yield f"It fits with {', '.join(settings)}: write that into the file too, then apply this with --write."
    else:
        yield "Written." if outcome.written else "Apply it with --write."


def _report_state(state: SearchState, *, progress: ProgressView, as_json: bool) -> None:
    """Print how a search goes on; under --json it is progress, without the first verdict, which the document has."""
    if not as_json:
        progress.pause()
        print_lines(_state_lines(state))
    elif not isinstance(state, FitAnswer):
        for line in _state_lines(state):
            progress(line)


def _state_lines(state: SearchState) -> Iterator[str]:
    match state:
        case FitAnswer():
            yield from fit_text(state)
        case FoundFit():
            yield search_begins(state)
        case FitSearch():
            yield tried_line(state)


def _search_status(done: SearchResult) -> int:
    if done.found.stopped == "interrupted":
        return INTERRUPTED
    if done.found.settings or isinstance(done.base.verdict, Fits):
        return 0
    return TimedOut.exit_status if done.found.stopped == "budget" else UsageError.exit_status


def fit_entry(answer: FitAnswer) -> FitEntryDocument:
    """Return the entry; the figures of the verdict have its names."""
    time = answer.time
    step = answer.known
    entry = document_of(
        FitEntryDocument,
        answer.verdict,
        file=answer.file,
        run_name=answer.run.run_name,
        step=answer.kind,
        tpu_type=cell_place(answer)[0],
        num_slices=answer.run.num_slices,
        verdict=verdict_name(answer.verdict),
        source=answer.source,
        cached=answer.source in ("catalogue", "cache"),
        step_time_bound_s=time.step_s if time else None,
        bound_by="arithmetic" if time else None,
        time=time_document(time) if time else None,
        notes=tuple(fit_notes(answer)),
        not_covered=not_covered(answer),
    )
    if step is None:
        return entry
    return replace(
        entry,
        derived_from_tokens=step.entry.tokens if step.derived else None,
        versions=step.entry.versions,
        seconds=step.entry.seconds,
        cpu_s=step.entry.cpu_s,
        rss_gib=step.entry.rss_gib,
    )


def _searched_entry(done: SearchResult) -> FitEntryDocument:
    """Return the entry of the workload as it is, with the alternatives and the result of the search."""
    found_fit = done.found
    candidates = found_fit.search.candidates
    alternatives = (
        *(_alternative(tried.alternative, tried.verdict, tried.source, tried.why) for tried in found_fit.search.tried),
        *(_alternative(refused.alternative, None, "arithmetic", refused.why) for refused in found_fit.preferred),
        *(
            _alternative(candidates[place].alternative, None, "", UNTRIED[why])
            for place, why in found_fit.search.untried_candidates()
        ),
    )
    diff = "\n".join(diff_lines(done.base.file, done.texts))
    outcome = document_of(FitSearchDocument, found_fit, settings=found_fit.settings or None, diff=diff)
    return replace(fit_entry(done.base), alternatives=alternatives, search=outcome)


def _alternative(
    alternative: Alternative, verdict: Verdict | None, source: FitSource | Literal[""], why: str
) -> AlternativeDocument:
    if not (why or verdict is None or isinstance(verdict, Fits)):
        why = rejection(verdict)
    return document_of(
        AlternativeDocument,
        verdict or alternative,
        settings=alternative.settings,
        verdict=verdict_name(verdict) if verdict else None,
        source=source,
        why=why,
    )
