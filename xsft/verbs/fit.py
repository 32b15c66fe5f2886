"""`xsft fit FILE…`: ask the TPU compiler whether each workload fits, and what takes the memory."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial

from xsft.base.errors import INTERRUPTED, TimedOut, UsageError
from xsft.base.reporting import ProgressView
from xsft.fit.search import FitSearch
from xsft.fit.verdict import DoesNotFit, Fits
from xsft.launch.fit_answers import FitAnswer, FitQuestions, load_variants, needed_step
from xsft.launch.fit_search import FoundFit, SearchRequest, SearchResult, SearchState, search
from xsft.machine.files import STDIN
from xsft.planning import api
from xsft.verbs.failure import print_problems, problem_documents
from xsft.verbs.fit_search_text import found_document, found_lines, search_begins, tried_line
from xsft.verbs.fit_text import fit_document, fit_matrix, fit_text
from xsft.verbs.plan_document import print_json, print_lines
from xsft.verbs.progress import show_progress


def run(args: argparse.Namespace) -> int:
    if args.search:
        return _search(args)
    loaded, unread = load_variants(
        args.files, types=args.types, slices=args.slices, settings=args.settings, run_name=args.run_name
    )
    intents = tuple(zip((one.file for one in loaded), api.intend(loaded), strict=True))
    steps = [needed_step(file, intent.run) for file, intent in intents]
    matrix = bool(args.types or args.slices)
    answers = []
    with show_progress("fit") as progress:
        for (file, intent), step in zip(intents, steps, strict=True):
            say = _with_prefix(progress, intent.run.run_name)
            ask = FitQuestions(again=args.again, timeout_s=args.timeout, say=say)
            for answer in ask.step_answers(file, intent.run, step, evaluates=args.eval):
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


def _with_prefix(progress: Callable[[str], None], name: str) -> Callable[[str], None]:
    return lambda line: progress(f"{name}: {line}")


def _search(args: argparse.Namespace) -> int:
    _refuse_search_options(args)
    request = SearchRequest(
        file=args.files[0],
        settings=args.settings,
        run_name=args.run_name,
        again=args.again,
        timeout_s=args.timeout,
        budget_s=args.budget,
        keep=args.keep,
        types=args.types,
        slices=tuple(int(one) for one in args.slices if one.isdecimal()),
        max_chips=args.max_chips,
        write=args.write,
    )
    with show_progress("fit") as progress:
        report = partial(_report_state, progress=progress, as_json=args.json)
        done = search(request, progress=progress, report=report)
    status = _search_status(done)
    if args.json:
        entry = {**fit_document(done.base), **found_document(done.found, texts=done.texts)}
        print_json("fit", {"fits": [entry], "problems": [], "exit_status": status})
    else:
        print_lines(found_lines(done.found, done.base, texts=done.texts, given=args.settings))
    return status


def _refuse_search_options(args: argparse.Namespace) -> None:
    if len(args.files) != 1 or args.files[0] == STDIN:
        raise UsageError("--search takes one workload file.", fix="Give one file; each search takes its own budget.")
    if args.write and args.settings:
        fix = "Write the settings into the file first, or search without --write."
        raise UsageError("--write would change a file that --set has already changed for this command.", fix=fix)


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
