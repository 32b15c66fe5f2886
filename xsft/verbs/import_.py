"""`xsft import [FILE]`: convert a pasted xpk line to a workload; nothing of the paste is executed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from xsft.base.acceptance import for_submission
from xsft.base.errors import XsftError
from xsft.base.problems import Problem, errors_in
from xsft.importing.build import import_paste
from xsft.importing.notes import PasteDifference
from xsft.machine import clock
from xsft.machine.files import PASTE, read_workload_text, refuse_unless_free, schema_line, write_atomic
from xsft.planning.gather import gather
from xsft.planning.planner import make_intent
from xsft.spec.explain import read_spec
from xsft.verbs.document import (
    CYAN,
    GREEN,
    ProblemFields,
    VerbDocument,
    print_problems,
    print_styled,
    print_to_stderr,
    problem_documents,
    report_document,
    status_of,
)

STYLES = {r"^  [^ ][^:]*:": CYAN, r"(?<= -> ).*": GREEN}


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
    refused = () if problems else tuple(p.in_file(args.output or "") for p in _refusals(text, target))
    if target is not None:
        write_atomic(target, text)
    document = ImportDocument(
        file=args.output,
        workload=text,
        differences=imported.differences,
        refused=problem_documents(refused),
        problems=problem_documents(problems),
        exit_status=status_of(problems),
    )
    return report_document(document, _print_import, as_json=args.json, shown=True)


def _refusals(text: str, target: Path | None) -> tuple[Problem, ...]:
    """Return the errors of the plan and of the submission that can be found offline."""
    spec = read_spec(text)
    facts = gather(spec, file=target or "-", today=clock.today(), offline=True)
    problems = make_intent(spec, facts).problems
    return errors_in(for_submission(problem for problem in problems if problem.kind != "unread"))


def _print_import(document: ImportDocument) -> None:
    """Print the workload, unless it was written to a file, on stdout, and what to know of it on stderr."""
    if document.file is None:
        sys.stdout.write(document.workload)
    print_styled(_difference_lines(document.differences), STYLES, stream=sys.stderr)
    print_problems(document.problems)
    if document.refused:
        print_to_stderr("`xsft plan` and `xsft submit` refuse this workload because:")
    print_problems(document.refused)
    if document.file is not None:
        print_to_stderr(f"wrote {document.file}; next: `xsft check {document.file}`")


def _difference_lines(differences: Sequence[PasteDifference]) -> Iterator[str]:
    if differences:
        yield "differences from the pasted command:"
    for difference in differences:
        change = f" {difference.given}" if difference.given else ""
        if difference.now:
            change += f" -> {difference.now}"
        yield f"  {difference.what}:{change}"
        yield f"    {difference.why}"


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
