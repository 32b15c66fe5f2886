"""`xsft check FILE…`: all problems of all files, without rendering anything."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial

from xsft.base.aliases import ShowLine
from xsft.base.amounts import counted_text
from xsft.base.problems import Problem
from xsft.machine.parallel import all_answers
from xsft.planning import api
from xsft.planning.steps import Intent
from xsft.verbs.failure import print_problems, problem_documents
from xsft.verbs.plan_document import print_json, status_of
from xsft.verbs.progress import show_progress


def run(args: argparse.Namespace) -> int:
    loaded, unread = api.load_each(args.files, settings=args.settings, run_name=args.run_name, offline=args.offline)
    with show_progress("check") as progress:
        intents = api.intend(loaded, progress=progress)
        deep = _check_deeply(intents, progress=progress) if args.deep else ((),) * len(intents)
    found = zip(loaded, intents, deep, strict=True)
    checked = tuple(
        p.in_file(one.file) for one, intent, parser_problems in found for p in (*intent.problems, *parser_problems)
    )
    problems = (*unread, *checked)
    status = status_of(problems)
    if args.json:
        print_json("check", {"ok": status == 0, "problems": problem_documents(problems), "exit_status": status})
        return status
    print_problems(p for p in problems if args.notes or p.severity != "note" or (args.offline and p.kind == "unread"))
    sys.stdout.write(_summary(files=len(args.files), problems=problems))
    return status


def _check_deeply(intents: Sequence[Intent], *, progress: ShowLine) -> tuple[tuple[Problem, ...], ...]:
    ask = partial(api.ask_maxtext, intents)
    (found,) = all_answers([ask], threads=1, waiting=lambda: "waiting for MaxText's own parser", progress=progress)
    return found


def _summary(*, files: int, problems: Sequence[Problem]) -> str:
    found = ((sum(p.severity == one for p in problems), one) for one in ("error", "warning", "note"))
    return f"{counted_text(files, 'file')}: {', '.join(counted_text(count, word) for count, word in found)}\n"
