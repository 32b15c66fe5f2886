"""The verdict on a step: the first answer of arithmetic, the catalogue, the cache and the compiler."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.amounts import duration_text
from xsft.base.errors import EnvironmentMissing, RunFailed, TimedOut
from xsft.base.problems import Problem
from xsft.base.reporting import AskUser
from xsft.checks.fit_known import shipped_near, shipped_verdict
from xsft.checks.step import analytic_verdict
from xsft.checks.step_time import RunTime, run_time
from xsft.environments import environments
from xsft.fit.cache import FitCache, compiler_versions, fit_cache
from xsft.fit.compile import CompileShop, compile_step
from xsft.fit.reserved_memory import needed_gib
from xsft.fit.search import FitSource
from xsft.fit.step import StepKind, StepToCompile
from xsft.fit.trainer_step import eval_step, known_seconds, needed_step, step_to_compile
from xsft.fit.verdict import CompiledStep, DoesNotFit, Invalid, KnownStep, Verdict
from xsft.machine.process import own_environment
from xsft.planning.api import LoadedWorkload, load_each, own_paces
from xsft.planning.steps import Intent, Plan
from xsft.records.record import MeasuredPace
from xsft.spec.resolve import Run
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
    tpu_types = [f"tpu.type={one}" for one in types] or [""]
    counts = [f"tpu.num_slices={one}" for one in slices] or [""]
    found = [
        load_each(files, settings=(*settings, *filter(None, variant)), run_name=run_name)
        for variant in product(tpu_types, counts)
    ]
    return tuple(one for loaded, _ in found for one in loaded), tuple(p for _, unread in found for p in unread)


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
        kept = None if self.again else cache.known(step)
        known = kept or KnownStep(entry=self._compile_step(run, step, cache), derived=False)
        source: FitSource = "cache" if kept else "compiler"
        return FitAnswer(file=file, run=run, verdict=known.entry.verdict, source=source, known=known, kind="eval")

    def _answers(self, file: str, run: Run, step: StepToCompile) -> Iterator[FitAnswer]:
        decided, cache = analytic_verdict(run), fit_cache()
        if decided is not None:
            yield FitAnswer(file=file, run=run, verdict=decided, source="arithmetic")
        if not self.again:
            yield from _known_answers(file, run, step, cache)
        known = KnownStep(entry=self._compile_step(run, step, cache), derived=False)
        yield FitAnswer(file=file, run=run, verdict=known.entry.verdict, source="compiler", known=known)

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
    if (kept := cache.known(step)) is not None:
        yield FitAnswer(file=file, run=run, verdict=kept.entry.verdict, source="cache", known=kept)


def wants_compiler(plan: Plan | Intent, *, ask: AskUser | None) -> bool:
    """Return whether to compile the step before it is submitted: the user says so, or without anyone to ask, it
    is known to be done soon."""
    step = step_to_compile(plan.run)
    doubtful = any(problem.fit == "doubtful" and problem.severity == "warning" for problem in plan.problems)
    if step is None or not doubtful:
        return False
    near = (*shipped_near(plan.run), *fit_cache().near(step, plan.run.slice)) if plan.run.slice else ()
    seconds = known_seconds(plan.run, step, near)
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
