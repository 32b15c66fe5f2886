"""`xsft import [FILE]`: convert a pasted xpk line to a workload; nothing of the paste is executed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import asdict

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
from xsft.verbs.failure import print_problems, problem_documents
from xsft.verbs.plan_document import print_json, status_of


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
        differences = [asdict(difference) for difference in imported.differences]
        document = {"file": args.output, "workload": text, "differences": differences}
        problem_fields = {"problems": problem_documents(problems), "refused": problem_documents(refused)}
        print_json("import", {**document, **problem_fields, "exit_status": status})
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
    found = make_intent(spec, facts).problems
    return errors_in(for_submission(p for p in found if p.kind != "unread"))


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
