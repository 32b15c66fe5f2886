"""`xsft fit FILE…`: ask the TPU compiler whether each workload fits, and what takes the memory."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from itertools import product

from xsft import api
from xsft.actions.fit.answers import FitQuestions, needed_step
from xsft.actions.fit.search import print_lines, search
from xsft.errors import UsageError
from xsft.fit.step import StepToCompile
from xsft.fit.verdict import DoesNotFit
from xsft.problems import Problem
from xsft.screen.documents import print_json
from xsft.screen.failure import print_problems, problem_documents
from xsft.screen.fit_text import FitAnswer, fit_document, fit_matrix, fit_text
from xsft.screen.progress import shown
from xsft.spec.resolve import Run
from xsft.trainers.fit_step import eval_step


def run(args: argparse.Namespace) -> int:
    if args.search:
        return search(args)
    loaded, unread = _load(args)
    intents = tuple(zip((one.file for one in loaded), api.intend(loaded), strict=True))
    steps = [needed_step(file, intent.run) for file, intent in intents]
    matrix = bool(args.types or args.slices)
    answers = []
    with shown("fit") as progress:
        for (file, intent), step in zip(intents, steps, strict=True):
            say = _with_prefix(progress, intent.run.run_name)
            ask = FitQuestions(again=args.again, timeout_s=args.timeout, say=say)
            for answer in _ask_both_steps(ask, file, intent.run, step, evaluates=args.eval):
                answers.append(answer)
                if not args.json and not matrix:
                    progress.pause()
                    print_lines(fit_text(answer))
    status = UsageError.exit_status if unread or any(one.refused for one in answers) else 0
    if args.json:
        extra = {"problems": problem_documents(unread), "exit_status": status}
        print_json("fit", {"fits": [fit_document(one) for one in answers], **extra})
    elif matrix:
        print_lines(fit_matrix(answers))
    elif any(isinstance(one.verdict, DoesNotFit) for one in answers):
        print_lines(("--search finds the nearest configuration that fits.",))
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


def _ask_both_steps(
    ask: FitQuestions, file: str, run: Run, step: StepToCompile, *, evaluates: bool
) -> Iterator[FitAnswer]:
    """Yield the verdict on the training's step, and on the evaluation's if the first one is accepted."""
    trained = ask.answer(file, run, step)
    yield trained
    evaluation = eval_step(run, step) if evaluates and not trained.refused else None
    if evaluation is not None:
        yield ask.eval_answer(file, run, evaluation)


def _with_prefix(progress: Callable[[str], None], name: str) -> Callable[[str], None]:
    return lambda line: progress(f"{name}: {line}")
