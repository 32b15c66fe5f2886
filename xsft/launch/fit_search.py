"""The verdict on a step, by arithmetic, the catalogue, the cache or the compiler; and the nearest configuration that
fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.amounts import duration_text
from xsft.base.errors import EnvironmentMissing, RunFailed, SpecError, TimedOut, UsageError
from xsft.base.lenient import ShowLine
from xsft.base.problems import Problem
from xsft.base.reporting import AskUser
from xsft.catalog.tpu import parse_tpu_type
from xsft.checks.memory import shipped_near, shipped_verdict
from xsft.checks.step_time import RunTime, analytic_verdict, run_time
from xsft.environments import environments
from xsft.fit.alternatives import CHANGEABLE, Alternative, SearchLimits, SettingValue, alternatives, is_changeable
from xsft.fit.cache import FitCache, compiler_versions, fit_cache
from xsft.fit.compile import CompileShop, compile_step
from xsft.fit.reserved_memory import needed_gib
from xsft.fit.search import FitCandidate, FitSearch, FitSource, SearchEnd, measured_over_estimate
from xsft.fit.step import StepKind, StepToCompile
from xsft.fit.trainer_step import estimate, eval_step, known_seconds, needed_step, step_to_compile, tunable_run
from xsft.fit.verdict import CompiledStep, DoesNotFit, Fits, Invalid, KnownStep, Verdict, rejection
from xsft.machine import clock
from xsft.machine.files import write_atomic
from xsft.machine.process import own_environment
from xsft.machine.regular import read_text
from xsft.planning import api
from xsft.planning.api import LoadedWorkload, load_each, own_paces
from xsft.planning.steps import Intent, Plan
from xsft.records.record import MeasuredPace
from xsft.spec.explain import read_spec
from xsft.spec.resolve import Run
from xsft.spec.yamledit import settings_of, with_values
from xsft.trainer.trainer import trainer_of

MAX_UNASKED_S = 120.0
"""What is known to take at most this long is compiled without a question."""
UNASKED_TIMEOUT_S = 600.0
"""For what was not asked: a busy machine takes several times as long."""
USUAL_S = 360.0
"""CPU seconds of a compilation if no run near it was compiled. source: docs/reference/fit.md, `CPU-s`"""


class FitAnswer(Struct, frozen=True, kw_only=True):
    """The facts known about one workload's step."""

    file: str
    run: Run
    verdict: Verdict
    source: FitSource
    known: KnownStep | None = None
    """The compiled step; None if arithmetic decided."""
    kind: StepKind = "train"
    paces: tuple[MeasuredPace, ...] = ()
    """Paces of the user's own runs of this model on this TPU type."""

    @property
    def refused(self) -> bool:
        return isinstance(self.verdict, DoesNotFit | Invalid)

    @property
    def place(self) -> str:
        tpu = self.run.slice.xpk_type if self.run.slice else "?"
        return f"{tpu} × {self.run.num_slices}"

    @property
    def time(self) -> RunTime | None:
        """Return the least time of an accepted training step."""
        timed = not self.refused and self.kind == "train"
        return run_time(self.run, paces=self.paces) if timed else None


def load_variants(
    files: Sequence[str], *, types: Sequence[str], slices: Sequence[str], settings: Sequence[str], run_name: str | None
) -> tuple[tuple[LoadedWorkload, ...], tuple[Problem, ...]]:
    """Return each file for each of the TPU types and numbers of slices (empty: the file's own), and what could not be
    read."""
    tpu_types = [f"tpu.type={tpu_type}" for tpu_type in types] or [""]
    counts = [f"tpu.num_slices={count}" for count in slices] or [""]
    variants = [
        load_each(files, settings=(*settings, *filter(None, variant)), run_name=run_name)
        for variant in product(tpu_types, counts)
    ]
    return tuple(workload for loaded, _ in variants for workload in loaded), tuple(
        problem for _, unread in variants for problem in unread
    )


class FitQuestions(Struct, frozen=True, kw_only=True):
    """The options with which verdicts are requested."""

    again: bool
    """Whether to compile even if the verdict is known."""
    timeout_s: float | None
    say: Callable[[str], None]

    def step_answers(self, file: str, run: Run, step: StepToCompile, *, evaluates: bool) -> Iterator[FitAnswer]:
        """Yield the verdict on the training's step, and on the evaluation's if the first one is accepted."""
        trained = self.answer(file, run, step)
        yield trained
        evaluation = eval_step(run, step) if evaluates and not trained.refused else None
        if evaluation is not None:
            yield self.eval_answer(file, run, evaluation)

    def answer(self, file: str, run: Run, step: StepToCompile) -> FitAnswer:
        """Return the verdict. Raises as `compile_step` does."""
        return replace(next(self._answers(file, run, step)), paces=own_paces(run.spec))

    def eval_answer(self, file: str, run: Run, step: StepToCompile) -> FitAnswer:
        """Return the verdict on the step of the evaluation; arithmetic and the catalogue have none."""
        cache = fit_cache()
        cached = None if self.again else cache.known(step)
        compiled = cached or KnownStep(entry=self._compile_step(run, step, cache), derived=False)
        source: FitSource = "cache" if cached else "compiler"
        return FitAnswer(file=file, run=run, verdict=compiled.entry.verdict, source=source, known=compiled, kind="eval")

    def _answers(self, file: str, run: Run, step: StepToCompile) -> Iterator[FitAnswer]:
        decided, cache = analytic_verdict(run), fit_cache()
        if decided is not None:
            yield FitAnswer(file=file, run=run, verdict=decided, source="arithmetic")
        if not self.again:
            yield from _known_answers(file, run, step, cache)
        compiled = KnownStep(entry=self._compile_step(run, step, cache), derived=False)
        yield FitAnswer(file=file, run=run, verdict=compiled.entry.verdict, source="compiler", known=compiled)

    def _compile_step(self, run: Run, step: StepToCompile, cache: FitCache) -> CompiledStep:
        shop = CompileShop(
            environment=environments.ensure("compiler", progress=self.say),
            cache=cache,
            env=own_environment(),
            say=self.say,
            timeout_s=self.timeout_s,
        )
        return compile_step(step, needed_gib=needed_gib(params_b=run.model.params_b if run.model else None), shop=shop)


def _known_answers(file: str, run: Run, step: StepToCompile, cache: FitCache) -> Iterator[FitAnswer]:
    """Yield what the catalogue and the cache say; rows of another MaxText than the compiler's are out of date."""
    shipped = shipped_verdict(run)
    row = shipped.row if shipped else None
    if shipped and row and row.step == trainer_of(run).STEP and row.maxtext == compiler_versions()["maxtext"]:
        yield FitAnswer(file=file, run=run, verdict=shipped.entry.verdict, source="catalogue", known=shipped)
    if (cached := cache.known(step)) is not None:
        yield FitAnswer(file=file, run=run, verdict=cached.entry.verdict, source="cache", known=cached)


def wants_compiler(plan: Plan | Intent, *, ask: AskUser | None) -> bool:
    """Return whether to compile the step before it is submitted: the user says so, or without anyone to ask, it
    is known to be done soon."""
    step = step_to_compile(plan.run)
    doubtful = any(problem.fit == "doubtful" and problem.severity == "warning" for problem in plan.problems)
    if step is None or not doubtful:
        return False
    compiled_near = (*shipped_near(plan.run), *fit_cache().near(step, plan.run.slice)) if plan.run.slice else ()
    seconds = known_seconds(plan.run, step, compiled_near)
    if ask is None:
        return seconds is not None and seconds <= MAX_UNASKED_S
    takes = f"takes about {duration_text(seconds or USUAL_S)} of CPU"
    return ask(f"{plan.run.run_name}: not compiled, and may not fit: {takes}. Compile? [y/N] ")


def compile_first(plan: Plan, *, timeout_s: float | None, say: Callable[[str], None]) -> None:
    """Ask the compiler, and keep its verdict, which the next plan finds; without a verdict, say why."""
    questions = FitQuestions(again=False, timeout_s=timeout_s, say=say)
    try:
        questions.answer(plan.file, plan.run, needed_step(plan.file, plan.run))
    except (EnvironmentMissing, RunFailed, TimedOut) as problem:
        say(f"no verdict: {problem}")


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
        return tuple(refused for refused in self.refused if best is None or refused.place <= best.place)

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
        fit = FoundFit(run=run, budget_s=request.budget_s, search=none, refused=(), stopped="done")
    else:
        fit = _search_fit(request, base, text, progress=progress, report=report)
    changed = with_values(text, fit.settings) if fit.settings else text
    if request.write and fit.settings:
        write_atomic(Path(file), changed)
        fit = replace(fit, written=True)
    return SearchResult(base=base, found=fit, texts=(text, changed))


def _search_fit(
    request: SearchRequest, base: FitAnswer, text: str, *, progress: ShowLine, report: Callable[[SearchState], None]
) -> FoundFit:
    tuned = tunable_run(base.run)
    candidates: list[FitCandidate] = []
    refused: list[RefusedAlternative] = []
    for alternative in alternatives(tuned, _search_limits(request, base.run)) if tuned else ():
        judged = _judge_alternative(base.run, text, alternative, settings=request.settings)
        if isinstance(judged, str):
            refused.append(RefusedAlternative(alternative=alternative, place=len(candidates), why=judged))
        else:
            candidates.append(judged)
    start = FitSearch(candidates=tuple(candidates), scale=measured_over_estimate(base.verdict, estimate(base.run)))
    fit = FoundFit(run=base.run, budget_s=request.budget_s, search=start, refused=tuple(refused), stopped="done")
    report(fit)

    def ask(candidate: Alternative, left_s: float) -> FitAnswer:
        run = _changed_run(base.run, text, candidate, settings=request.settings)
        limit = min(left_s, request.timeout_s or left_s)
        named = FitQuestions(again=False, timeout_s=limit, say=lambda line: progress(f"{candidate.words}: {line}"))
        return named.answer(base.file, run, needed_step(base.file, run))

    state, stopped = search_alternatives(
        start, ask, report=report, budget_s=request.budget_s, timeout_s=request.timeout_s
    )
    return replace(fit, search=state, stopped=stopped)


def _judge_alternative(run: Run, text: str, alternative: Alternative, *, settings: Sequence[str]) -> FitCandidate | str:
    """Return the alternative with its estimate, or why the workload or its step would be wrong."""
    try:
        changed = _changed_run(run, text, alternative, settings=settings)
    except SpecError as wrong:
        return wrong.problems[0].message
    verdict = analytic_verdict(changed)
    return rejection(verdict) if verdict else FitCandidate(alternative=alternative, share=estimate(changed))


def _search_limits(request: SearchRequest, run: Run) -> SearchLimits:
    """Return what may be changed. Raises UsageError for a key that no search changes, or an unknown TPU type."""
    wrong = [key for key in request.keep if not is_changeable(key)]
    if wrong:
        raise UsageError(f"--keep {wrong[0]}: no search changes that key.", fix=f"Known: {', '.join(CHANGEABLE)}.")
    by_override = any(key.endswith("_parallelism") for key in run.spec.overrides.maxtext)
    keep = (*request.keep, *(("parallelism",) if by_override else ()))
    try:
        types = tuple(parse_tpu_type(name) for name in request.types)
    except ValueError as unknown:
        raise UsageError(f"--types: {unknown}", fix="Give names that tpu.type takes.") from None
    return SearchLimits(keep=keep, types=types, slices=tuple(request.slices), max_chips=request.max_chips)


def _changed_run(run: Run, text: str, alternative: Alternative, *, settings: Sequence[str]) -> Run:
    """Return the run with the changes, all else as it was decided."""
    spec = read_spec(text, settings=(*settings, *settings_of(alternative.settings)))
    return replace(run, spec=spec.model_copy(update={"image": run.spec.image}), slice=alternative.run.tpu)


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
        left_s = ends - clock.monotonic()
        if left_s <= 0:
            return search, "budget"
        try:
            answer = ask(search.candidates[place].alternative, left_s)
            search = search.with_verdict(place, answer.verdict, source=answer.source)
        except TimedOut as late:
            if timeout_s is None or timeout_s >= left_s:
                return search, "budget"
            search = search.with_verdict(place, None, source="compiler", why=str(late))
        except RunFailed as failed:
            search = search.with_verdict(place, None, source="compiler", why=str(failed))
        except KeyboardInterrupt:
            return search, "interrupted"
        report(search)
    return search, "done"
