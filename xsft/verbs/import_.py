"""`xsft import [FILE]`: convert a pasted xpk line to a workload; nothing of the paste is executed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from xsft.base.acceptance import for_submission
from xsft.base.errors import XsftError
from xsft.base.problems import Problem, errors_in
from xsft.importing.build import ImportedWorkload, import_paste
from xsft.importing.notes import PasteDifference
from xsft.machine import clock
from xsft.machine.files import PASTE, read_workload_text, write_atomic
from xsft.machine.new_file import refuse_unless_free, schema_line
from xsft.planning.gather import gather
from xsft.planning.planner import make_intent
from xsft.spec.reader import read_spec
from xsft.verbs.document import ProblemFields, VerbDocument, print_document, problem_documents, status_of
from xsft.verbs.failure import print_problems


class ImportDocument(VerbDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.import/1"):
    """`xsft import FILE --json`. Its problems say what must be completed or corrected in the workload."""

    file: str | None
    """Path of the workload that was written; null without `-o`."""
    workload: str
    """Text of the workload."""
    differences: tuple[PasteDifference, ...]
    refused: tuple[ProblemFields, ...]
    """Problems for which `xsft plan` and `xsft submit` refuse the workload; filled only if `problems` is empty."""


def run(args: argparse.Namespace) -> int:
    target = Path(args.output) if args.output else None
    if target is not None:
        refuse_unless_free(target, instead="without -o the workload is printed.")
    imported = import_paste(_paste(args.file), line=args.line, read_file=_env_file)
    text = schema_line(target.absolute().parent if target else None) + imported.yaml
    problems = tuple(p.in_file(args.output or "") for p in imported.problems)
    status = status_of(problems)
    refused = () if problems else tuple(p.in_file(args.output or "") for p in _refusals(text, target))
    if target is not None:
        write_atomic(target, text)
    if args.json:
        document = ImportDocument(
            file=args.output,
            workload=text,
            differences=imported.differences,
            refused=problem_documents(refused),
            problems=problem_documents(problems),
            exit_status=status,
        )
        print_document(document)
        return status
    sys.stdout.write("" if target else text)
    sys.stderr.write("".join(_difference_lines(imported)))
    print_problems(problems)
    if refused:
        sys.stderr.write("`xsft plan` and `xsft submit` refuse this workload because:\n")
    print_problems(refused)
    sys.stderr.write(f"wrote {target}; next: `xsft check {target}`\n" if target else "")
    return status


def _refusals(text: str, target: Path | None) -> tuple[Problem, ...]:
    """Return the errors of the plan and of the submission that can be found offline."""
    spec = read_spec(text)
    facts = gather(spec, file=target or "-", today=clock.today(), offline=True)
    problems = make_intent(spec, facts).problems
    return errors_in(for_submission(problem for problem in problems if problem.kind != "unread"))


def _difference_lines(imported: ImportedWorkload) -> Iterable[str]:
    if imported.differences:
        yield "differences from the pasted command:\n"
    yield from (f"  {_difference_text(difference)}\n" for difference in imported.differences)


def _difference_text(d: PasteDifference) -> str:
    change = f" {d.given}" if d.given else ""
    return f"{d.what}:{change}{f' -> {d.now}' if d.now else ''}\n    {d.why}"


def _paste(name: str) -> str:
    if name == "-" and sys.stdin.isatty():
        sys.stderr.write("paste the xpk line, then press Ctrl-D\n")
    return read_workload_text(name, kind=PASTE)


def _env_file(name: str) -> str | None:
    """Return the content of the file that --env-file names, if it is on this machine."""
    try:
        return read_workload_text(name) if name != "-" else None
    except XsftError:
        return None
