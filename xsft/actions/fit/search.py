"""`xsft fit FILE --search`: find the nearest configuration that fits, compile it, and write it on request."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec.structs import replace

from xsft import api
from xsft.actions.fit.answers import FitQuestions, needed_step
from xsft.catalog.tpu import parse_tpu_type
from xsft.checks.step import analytic_verdict
from xsft.effects.machine import clock
from xsft.effects.machine.files import STDIN, write_atomic
from xsft.effects.machine.regular import read_text
from xsft.errors import RunFailed, SpecError, TimedOut, UsageError
from xsft.fit.alternatives import CHANGEABLE, Alternative, SearchLimits, alternatives, is_changeable
from xsft.fit.search import FitCandidate, FitSearch, SearchEnd, measured
from xsft.fit.verdict import Fits
from xsft.screen.documents import print_json
from xsft.screen.fit_search_text import (
    FoundFit,
    RefusedAlternative,
    found_document,
    found_lines,
    rejection,
    tried_line,
)
from xsft.screen.fit_text import FitAnswer, fit_document, fit_text
from xsft.screen.progress import ProgressView, shown
from xsft.spec.reader import read_spec
from xsft.spec.resolve import Run
from xsft.spec.yamledit import settings_of, with_values
from xsft.trainers.fit_step import estimate, tunable_run

AskAlternative = Callable[[Alternative, float], FitAnswer]
"""Returns the verdict on an alternative, within so many seconds."""


def search(args: argparse.Namespace) -> int:
    """Search, print what was found and return the exit status."""
    file = _one_file(args)
    (intent,) = api.intend((api.load(file, settings=args.settings, run_name=args.run_name),))
    run, text = intent.run, read_text(Path(file))
    with shown("fit") as progress:
        questions = FitQuestions(again=args.again, timeout_s=args.timeout, say=progress)
        base = questions.answer(file, run, needed_step(file, run))
        progress.pause()
        print_lines(() if args.json else fit_text(base))
        if isinstance(base.verdict, Fits):
            found = FoundFit(run=run, budget_s=args.budget, search=FitSearch(candidates=()), refused=(), stopped="done")
        else:
            found = _search_fit(args, base, text, progress)
    changed = with_values(text, found.settings) if found.settings else text
    if args.write and found.settings:
        write_atomic(Path(file), changed)
    _report_search(args, base, replace(found, written=args.write and bool(found.settings)), texts=(text, changed))
    return found.exit_status(base.verdict)


def _one_file(args: argparse.Namespace) -> str:
    if len(args.files) != 1 or args.files[0] == STDIN:
        raise UsageError("--search takes one workload file.", fix="Give one file; each search takes its own budget.")
    if args.write and args.settings:
        fix = "Write the settings into the file first, or search without --write."
        raise UsageError("--write would change a file that --set has already changed for this command.", fix=fix)
    return str(args.files[0])


def _search_fit(args: argparse.Namespace, base: FitAnswer, text: str, progress: ProgressView) -> FoundFit:
    start, refused = _begin_search(args, base.run, text)
    start = replace(start, scale=measured(base.verdict, estimate(base.run)))
    found = FoundFit(run=base.run, budget_s=args.budget, search=start, refused=refused, stopped="done")
    say = _sayer(args, progress)
    say(found.begins)

    def ask(one: Alternative, left: float) -> FitAnswer:
        run = _changed_run(base.run, text, one, settings=args.settings)
        limit = min(left, args.timeout or left)
        named = FitQuestions(again=False, timeout_s=limit, say=lambda line: progress(f"{one.words}: {line}"))
        return named.answer(base.file, run, needed_step(base.file, run))

    state, stopped = searched(start, ask, say=say, budget_s=args.budget, timeout_s=args.timeout)
    return replace(found, search=state, stopped=stopped)


def _begin_search(args: argparse.Namespace, run: Run, text: str) -> tuple[FitSearch, tuple[RefusedAlternative, ...]]:
    """Return the search before its first compilation, and the alternatives that arithmetic refuses."""
    tuned = tunable_run(run)
    candidates: list[FitCandidate] = []
    refused: list[RefusedAlternative] = []
    for one in alternatives(tuned, _search_limits(args, run)) if tuned else ():
        found = _judge_alternative(run, text, one, settings=args.settings)
        if isinstance(found, str):
            refused.append(RefusedAlternative(alternative=one, place=len(candidates), why=found))
        else:
            candidates.append(found)
    return FitSearch(candidates=tuple(candidates)), tuple(refused)


def _judge_alternative(run: Run, text: str, one: Alternative, *, settings: list[str]) -> FitCandidate | str:
    """Return the alternative with its estimate, or why the workload or its step would be wrong."""
    try:
        changed = _changed_run(run, text, one, settings=settings)
    except SpecError as wrong:
        return wrong.problems[0].message
    verdict = analytic_verdict(changed)
    return rejection(verdict) if verdict else FitCandidate(alternative=one, share=estimate(changed))


def _search_limits(args: argparse.Namespace, run: Run) -> SearchLimits:
    """Return what may be changed. Raises UsageError for a key that no search changes, or an unknown TPU type."""
    wrong = [key for key in args.keep if not is_changeable(key)]
    if wrong:
        raise UsageError(f"--keep {wrong[0]}: no search changes that key.", fix=f"Known: {', '.join(CHANGEABLE)}.")
    by_override = any(key.endswith("_parallelism") for key in run.spec.overrides.maxtext)
    keep = (*args.keep, *(("parallelism",) if by_override else ()))
    slices = tuple(int(one) for one in args.slices if one.isdecimal())
    try:
        types = tuple(parse_tpu_type(one) for one in args.types)
    except ValueError as unknown:
        raise UsageError(f"--types: {unknown}", fix="Give names that tpu.type takes.") from None
    return SearchLimits(keep=keep, types=types, slices=slices, max_chips=args.max_chips)


def _changed_run(run: Run, text: str, one: Alternative, *, settings: list[str]) -> Run:
    """Return the run with the changes, all else as it was decided."""
    spec = read_spec(text, settings=(*settings, *settings_of(one.settings)))
    return replace(run, spec=spec.model_copy(update={"image": run.spec.image}), slice=one.run.tpu)


def searched(
    search: FitSearch, ask: AskAlternative, *, say: Callable[[str], None], budget_s: float, timeout_s: float | None
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
        say(tried_line(search))
    return search, "done"


def _try_candidate(search: FitSearch, place: int, ask: AskAlternative, left: float) -> FitSearch:
    try:
        answer = ask(search.candidates[place].alternative, left)
    except RunFailed as failed:
        return search.with_verdict(place, None, source="compiler", why=str(failed))
    return search.with_verdict(place, answer.verdict, source=answer.source)


def _sayer(args: argparse.Namespace, progress: ProgressView) -> Callable[[str], None]:
    if args.json:
        return progress

    def say(line: str) -> None:
        progress.pause()
        print_lines((line,))

    return say


def _report_search(args: argparse.Namespace, base: FitAnswer, found: FoundFit, *, texts: tuple[str, str]) -> None:
    if args.json:
        entry = {**fit_document(base), **found_document(found, texts=texts)}
        print_json("fit", {"fits": [entry], "problems": [], "exit_status": found.exit_status(base.verdict)})
    else:
        print_lines(found_lines(found, base, texts=texts, given=args.settings))


def print_lines(lines: Iterable[str]) -> None:
    """Print the lines at once: the next one may take minutes."""
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()
