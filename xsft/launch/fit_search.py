"""`xsft fit FILE --search`: find the nearest configuration that fits, compile it, and write it on request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.aliases import ShowLine
from xsft.base.errors import RunFailed, SpecError, TimedOut, UsageError
from xsft.catalog.tpu import parse_tpu_type
from xsft.checks.step import analytic_verdict
from xsft.fit.alternatives import CHANGEABLE, Alternative, SearchLimits, SettingValue, alternatives, is_changeable
from xsft.fit.search import FitCandidate, FitSearch, SearchEnd, measured_over_estimate
from xsft.fit.trainer_step import estimate, needed_step, tunable_run
from xsft.fit.verdict import Fits, rejection
from xsft.launch.fit_answers import FitAnswer, FitQuestions
from xsft.machine import clock
from xsft.machine.files import write_atomic
from xsft.machine.regular import read_text
from xsft.planning import api
from xsft.spec.reader import read_spec
from xsft.spec.resolve import Run
from xsft.spec.yamledit import settings_of, with_values

AskAlternative = Callable[[Alternative, float], FitAnswer]
"""Returns the verdict on an alternative, within so many seconds."""


class RefusedAlternative(Struct, frozen=True, kw_only=True):
    """An alternative that arithmetic refuses."""

    alternative: Alternative
    place: int
    """Position of the next candidate in the order of preference."""
    why: str


class FoundFit(Struct, frozen=True, kw_only=True):
    """The result of a search."""

    run: Run
    """The workload as it is."""
    budget_s: float
    search: FitSearch
    refused: tuple[RefusedAlternative, ...]
    stopped: SearchEnd
    written: bool = False

    @property
    def preferred(self) -> tuple[RefusedAlternative, ...]:
        """Return the refused alternatives that would be preferred to the best."""
        best = self.search.best
        return tuple(one for one in self.refused if best is None or one.place <= best.place)

    @property
    def settings(self) -> dict[str, SettingValue]:
        """Return the changes that make it fit; empty if none were found."""
        return self.search.best.alternative.settings if self.search.best else {}


class SearchRequest(Struct, frozen=True, kw_only=True):
    """A search that a user asked for."""

    file: str
    settings: Sequence[str]
    """The settings of the workload, `a.b=c`."""
    run_name: str | None
    again: bool
    """Whether to compile the workload as it is even if its verdict is known."""
    timeout_s: float | None
    """Maximum seconds of one compilation."""
    budget_s: float
    """Maximum seconds of the search."""
    keep: Sequence[str]
    """Keys that may not change."""
    types: Sequence[str]
    """TPU types that may be taken instead."""
    slices: Sequence[int]
    max_chips: int | None
    write: bool
    """Whether to write the changes into the file."""


class SearchResult(Struct, frozen=True, kw_only=True):
    """The result of a search, and the text of the file without and with its changes."""

    base: FitAnswer
    """The verdict on the workload as it is."""
    found: FoundFit
    texts: tuple[str, str]


SearchState = FitAnswer | FoundFit | FitSearch
"""Reports of a search in turn: the verdict on the workload as it is, the search as it begins, and after each try."""


def search(request: SearchRequest, *, progress: ShowLine, report: Callable[[SearchState], None]) -> SearchResult:
    """Find the nearest alternative that fits, and write it on request. Raises as `needed_step`, `_search_limits` and
    `FitQuestions.answer` do."""
    file = request.file
    (intent,) = api.intend((api.load(file, settings=request.settings, run_name=request.run_name),))
    run, text = intent.run, read_text(Path(file))
    questions = FitQuestions(again=request.again, timeout_s=request.timeout_s, say=progress)
    base = questions.answer(file, run, needed_step(file, run))
    report(base)
    if isinstance(base.verdict, Fits):
        none = FitSearch(candidates=())
        found = FoundFit(run=run, budget_s=request.budget_s, search=none, refused=(), stopped="done")
    else:
        found = _search_fit(request, base, text, progress=progress, report=report)
    changed = with_values(text, found.settings) if found.settings else text
    if request.write and found.settings:
        write_atomic(Path(file), changed)
        found = replace(found, written=True)
    return SearchResult(base=base, found=found, texts=(text, changed))


def _search_fit(
    request: SearchRequest, base: FitAnswer, text: str, *, progress: ShowLine, report: Callable[[SearchState], None]
) -> FoundFit:
    start, refused = _begin_search(request, base.run, text)
    start = replace(start, scale=measured_over_estimate(base.verdict, estimate(base.run)))
    found = FoundFit(run=base.run, budget_s=request.budget_s, search=start, refused=refused, stopped="done")
    report(found)

    def ask(one: Alternative, left: float) -> FitAnswer:
        run = _changed_run(base.run, text, one, settings=request.settings)
        limit = min(left, request.timeout_s or left)
        named = FitQuestions(again=False, timeout_s=limit, say=lambda line: progress(f"{one.words}: {line}"))
        return named.answer(base.file, run, needed_step(base.file, run))

    state, stopped = search_alternatives(
        start, ask, report=report, budget_s=request.budget_s, timeout_s=request.timeout_s
    )
    return replace(found, search=state, stopped=stopped)


def _begin_search(request: SearchRequest, run: Run, text: str) -> tuple[FitSearch, tuple[RefusedAlternative, ...]]:
    """Return the search before its first compilation, and the alternatives that arithmetic refuses."""
    tuned = tunable_run(run)
    candidates: list[FitCandidate] = []
    refused: list[RefusedAlternative] = []
    for one in alternatives(tuned, _search_limits(request, run)) if tuned else ():
        found = _judge_alternative(run, text, one, settings=request.settings)
        if isinstance(found, str):
            refused.append(RefusedAlternative(alternative=one, place=len(candidates), why=found))
        else:
            candidates.append(found)
    return FitSearch(candidates=tuple(candidates)), tuple(refused)


def _judge_alternative(run: Run, text: str, one: Alternative, *, settings: Sequence[str]) -> FitCandidate | str:
    """Return the alternative with its estimate, or why the workload or its step would be wrong."""
    try:
        changed = _changed_run(run, text, one, settings=settings)
    except SpecError as wrong:
        return wrong.problems[0].message
    verdict = analytic_verdict(changed)
    return rejection(verdict) if verdict else FitCandidate(alternative=one, share=estimate(changed))


def _search_limits(request: SearchRequest, run: Run) -> SearchLimits:
    """Return what may be changed. Raises UsageError for a key that no search changes, or an unknown TPU type."""
    wrong = [key for key in request.keep if not is_changeable(key)]
    if wrong:
        raise UsageError(f"--keep {wrong[0]}: no search changes that key.", fix=f"Known: {', '.join(CHANGEABLE)}.")
    by_override = any(key.endswith("_parallelism") for key in run.spec.overrides.maxtext)
    keep = (*request.keep, *(("parallelism",) if by_override else ()))
    try:
        types = tuple(parse_tpu_type(one) for one in request.types)
    except ValueError as unknown:
        raise UsageError(f"--types: {unknown}", fix="Give names that tpu.type takes.") from None
    return SearchLimits(keep=keep, types=types, slices=tuple(request.slices), max_chips=request.max_chips)


def _changed_run(run: Run, text: str, one: Alternative, *, settings: Sequence[str]) -> Run:
    """Return the run with the changes, all else as it was decided."""
    spec = read_spec(text, settings=(*settings, *settings_of(one.settings)))
    return replace(run, spec=spec.model_copy(update={"image": run.spec.image}), slice=one.run.tpu)


def search_alternatives(
    search: FitSearch,
    ask: AskAlternative,
    *,
    report: Callable[[FitSearch], None],
    budget_s: float,
    timeout_s: float | None,
) -> tuple[FitSearch, SearchEnd]:
    """Try one alternative after the other until the best is known or the time has passed. Returns the search, and
    why it ended: `done`, `budget` or `interrupted`."""
    ends = clock.monotonic() + budget_s
    while (place := search.next_place) is not None:
        left = ends - clock.monotonic()
        if left <= 0:
            return search, "budget"
        try:
            search = _try_candidate(search, place, ask, left)
        except TimedOut as late:
            if timeout_s is None or timeout_s >= left:
                return search, "budget"
            search = search.with_verdict(place, None, source="compiler", why=str(late))
        except KeyboardInterrupt:
            return search, "interrupted"
        report(search)
    return search, "done"


def _try_candidate(search: FitSearch, place: int, ask: AskAlternative, left: float) -> FitSearch:
    try:
        answer = ask(search.candidates[place].alternative, left)
    except RunFailed as failed:
        return search.with_verdict(place, None, source="compiler", why=str(failed))
    return search.with_verdict(place, answer.verdict, source=answer.source)
