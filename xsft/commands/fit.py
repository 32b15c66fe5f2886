"""`xsft fit FILE…`: ask the TPU compiler whether each workload fits, and what takes the memory."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import product

from xsft import api
from xsft.checks.fit_known import shipped_verdict
from xsft.checks.step import analytic_verdict
from xsft.commands.documents import print_json
from xsft.commands.failure import print_problems, problem_documents
from xsft.commands.fit_text import FitAnswer, fit_document, fit_matrix, fit_text
from xsft.commands.progress import shown
from xsft.effects.environments import environments
from xsft.effects.facts.fit_cache import fit_cache
from xsft.effects.local.fit import CompileShop, compile_step
from xsft.effects.machine.process import own_environment
from xsft.errors import SpecError, UsageError
from xsft.fit.derive import KnownStep
from xsft.fit.memory import needed_gib
from xsft.fit.step import StepToCompile
from xsft.problems import Problem, error
from xsft.spec.resolve import Run
from xsft.steps import Intent
from xsft.trainers.fit_step import step_to_compile


def run(args: argparse.Namespace) -> int:
    loaded, unread = _load(args)
    intents = tuple(zip((one.file for one in loaded), api.intend(loaded), strict=True))
    steps = [_step(file, intent) for file, intent in intents]
    matrix = bool(args.types or args.slices)
    answers = []
    with shown("fit") as progress:
        for (file, intent), step in zip(intents, steps, strict=True):
            say = _named(progress, intent.run.run_name)
            answers.append(_answer(file, intent.run, step, args, say))
            if not args.json and not matrix:
                progress.pause()
                _print(fit_text(answers[-1]))
    status = UsageError.exit_status if unread or any(one.refused for one in answers) else 0
    if args.json:
        extra = {"problems": problem_documents(unread), "exit_status": status}
        print_json("fit", {"fits": [fit_document(one) for one in answers], **extra})
    elif matrix:
        _print(fit_matrix(answers))
    print_problems(unread)
    return status


def _load(args: argparse.Namespace) -> tuple[tuple[api.Loaded, ...], tuple[Problem, ...]]:
    """Return each file for each TPU type and number of slices that was asked for, and what could not be read."""
    types = [f"tpu.type={one}" for one in args.types] or [""]
    slices = [f"tpu.num_slices={one}" for one in args.slices] or [""]
    found = [
        api.load_each(args.files, settings=(*args.settings, *filter(None, place)), run_name=args.run_name)
        for place in product(types, slices)
    ]
    return tuple(one for loaded, _ in found for one in loaded), tuple(p for _, unread in found for p in unread)


def _print(lines: Iterable[str]) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()


def _step(file: str, intent: Intent) -> StepToCompile:
    """Return the run's step. Raises SpecError, fit-no-step, for a run that no TPU compiler can be asked about."""
    step = step_to_compile(intent.run)
    if step is None:
        message = (
            f"{intent.run.run_name} has no TPU step to compile: it runs on this machine, or its tpu.type is wrong."
        )
        fix = "Give a workload with target: xpk and a TPU type that `xsft check` accepts."
        raise SpecError((error("fit-no-step", "tpu", message, fix).in_file(file),))
    return step


def _named(progress: Callable[[str], None], name: str) -> Callable[[str], None]:
    return lambda line: progress(f"{name}: {line}")


def _answer(
    file: str, run: Run, step: StepToCompile, args: argparse.Namespace, say: Callable[[str], None]
) -> FitAnswer:
    """Return the first answer of arithmetic, the catalogue and the cache, else the compiler's."""
    return next(_answers(file, run, step, args, say))


def _answers(
    file: str, run: Run, step: StepToCompile, args: argparse.Namespace, say: Callable[[str], None]
) -> Iterator[FitAnswer]:
    decided = analytic_verdict(run)
    if decided is not None:
        yield FitAnswer(file=file, run=run, verdict=decided, source="arithmetic")
    cache = fit_cache()
    if not args.again:
        if shipped := shipped_verdict(run):
            row, known = shipped
            verdict = known.entry.verdict
            yield FitAnswer(file=file, run=run, verdict=verdict, source="catalogue", row=row, known=known)
        if (kept := cache.known(step)) is not None:
            yield FitAnswer(file=file, run=run, verdict=kept.entry.verdict, source="cache", known=kept)
    shop = CompileShop(
        environment=environments.ensure("compiler", progress=say),
        cache=cache,
        env=own_environment(),
        say=say,
        timeout_s=args.timeout,
    )
    needed = needed_gib(params_b=run.model.params_b if run.model else None)
    known = KnownStep(entry=compile_step(step, needed_gib=needed, shop=shop), derived=False)
    yield FitAnswer(file=file, run=run, verdict=known.entry.verdict, source="compiler", known=known)
