"""`xsft check FILE…`: all problems of all files, without rendering anything."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from itertools import chain

from xsft.base.amounts import counted_text
from xsft.base.problems import Problem
from xsft.machine.parallel import all_answers
from xsft.planning import api
from xsft.planning.installed_maxtext import ask_maxtext, ask_rows
from xsft.verbs.document import (
    VerbDocument,
    counts_text,
    print_problems,
    problem_documents,
    report_document,
    show_progress,
    status_of,
)


class CheckDocument(VerbDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.check/1"):
    """`xsft check FILE… --json`."""

    ok: bool
    """Whether no file has an error; warnings do not count."""


def run(args: argparse.Namespace) -> int:
    loaded, unread = api.load_each(args.files, settings=args.settings, run_name=args.run_name, offline=args.offline)
    with show_progress("check") as progress:
        intents = api.intend(loaded, progress=progress)
        deep: Sequence[Sequence[Problem]] = [()] * len(intents)
        if args.deep:
            ask = partial(ask_maxtext, intents)
            waiting = "waiting for MaxText's own parser"
            (deep,) = all_answers([ask], threads=1, waiting=lambda: waiting, progress=progress)
        rows = [ask_rows(intent, offline=args.offline, say=progress) for intent in intents]
    problems = list(unread)
    for workload, intent, *late in zip(loaded, intents, deep, rows, strict=True):
        problems.extend(p.in_file(workload.file) for p in chain(intent.problems, *late))
    status = status_of(problems)
    shown = [p for p in problems if args.notes or p.severity != "note" or (args.offline and p.kind == "unread")]
    summary = f"{counted_text(len(args.files), 'file')}: {counts_text(problems) or 'no problem'}"
    if len(shown) < len(problems):
        summary += "; --notes shows them"
    if not args.json:
        print_problems(shown)
    document = CheckDocument(ok=status == 0, problems=problem_documents(problems), exit_status=status)
    return report_document(document, lambda _document: (summary,), as_json=args.json, shown=True)
