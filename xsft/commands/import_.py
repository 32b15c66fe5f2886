"""`xsft import [FILE]`: make a workload of a pasted xpk line; nothing of the paste is executed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from xsft.commands.arguments import add_json
from xsft.commands.new_file import refuse_unless_free, schema_line, write_new

if TYPE_CHECKING:
    from xsft.errors import SpecError
    from xsft.importer.build import Imported
    from xsft.importer.notes import Difference
    from xsft.problems import Problem

EPILOG = """\
The paste is an `xpk workload create` or `create-pathways` line, with the `export` lines above it, or a page of Markdown
with both in its code blocks. What `xsft plan` would refuse in the workload is listed. Exit status 2 where
values are missing: the workload is written all the same, and names them. 4 where OUT exists."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("file", nargs="?", default="-", metavar="FILE", help="the paste; - (the default) for stdin")
    parser.add_argument("-o", "--output", metavar="OUT", help="write the workload there; without it, to stdout")
    parser.add_argument("--line", type=int, metavar="N", help="line where the xpk line begins, where there are several")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from xsft.commands.documents import print_json, status_of
    from xsft.commands.failure import print_problems, problem_documents
    from xsft.importer.build import import_paste

    target = Path(args.output) if args.output else None
    if target is not None:
        refuse_unless_free(target, instead="without -o it is printed.")
    imported = import_paste(_paste(args.file), line=args.line, read_file=_env_file)
    text = schema_line(target.absolute().parent if target else None) + imported.yaml
    problems = tuple(p.in_file(args.output or "") for p in imported.problems)
    status = status_of(problems)
    refused = () if problems else tuple(p.in_file(args.output or "") for p in _refusals(text, target))
    if target is not None:
        write_new(target, text)
    if args.json:
        differences = [asdict(difference) for difference in imported.differences]
        document = {"file": args.output, "workload": text, "differences": differences}
        said = {"problems": problem_documents(problems), "refused": problem_documents(refused)}
        print_json("import", {**document, **said, "exit_status": status})
        return status
    sys.stdout.write("" if target else text)
    sys.stderr.write("".join(_lines(imported)))
    print_problems(problems)
    if refused:
        sys.stderr.write("`xsft plan` and `xsft submit` refuse this workload as it is, because:\n")
    print_problems(refused)
    sys.stderr.write(f"wrote {target}; next: `xsft check {target}`\n" if target else "")
    return status


def _refusals(text: str, target: Path | None) -> tuple[Problem, ...]:
    """Errors of the plan and of the submission, as far as they can be told without asking anything outside."""
    from xsft.checks import NOT_READ, for_submission
    from xsft.effects.facts.gather import gather
    from xsft.effects.machine import clock
    from xsft.planner import make_intent
    from xsft.problems import errors_in
    from xsft.spec.reader import read_spec

    spec = read_spec(text)
    facts = gather(spec, file=target or "-", today=clock.today(), offline=True)
    found = make_intent(spec, facts).problems
    return errors_in(for_submission(p for p in found if p.id not in NOT_READ))


def _lines(imported: Imported) -> Iterable[str]:
    if imported.differences:
        yield "differs from the pasted command:\n"
    yield from (f"  {_said(difference)}\n" for difference in imported.differences)


def _said(d: Difference) -> str:
    change = f" {d.given}" if d.given else ""
    return f"{d.what}:{change}{f' -> {d.now}' if d.now else ''}\n    {d.why}"


def _paste(name: str) -> str:
    from xsft.effects.machine.files import read_workload_text
    from xsft.errors import SpecError

    if name == "-" and sys.stdin.isatty():
        sys.stderr.write("paste the xpk line, then Ctrl-D\n")
    try:
        return read_workload_text(name)
    except SpecError as unread:
        raise _of_a_paste(unread) from None


def _of_a_paste(unread: SpecError) -> SpecError:
    """The reader speaks of workloads."""
    from xsft.errors import SpecError

    fixes = {
        "file-empty": "Paste an `xpk workload create` line into it.",
        "file-encoding": "Save the command as UTF-8 text.",
        "file-too-big": "Paste the command alone: a page of text.",
        "file-not-regular": "Name a file, or give - and pipe the command to standard input.",
    }
    return SpecError(
        tuple(
            replace(p, fix=fixes.get(p.id, p.fix), message=p.message.replace("a workload is UTF-8", "a paste is UTF-8"))
            for p in unread.problems
        )
    )


def _env_file(name: str) -> str | None:
    """What --env-file names, where it is on this machine."""
    from xsft.effects.machine.files import read_workload_text
    from xsft.errors import XsftError

    try:
        return read_workload_text(name) if name != "-" else None
    except XsftError:
        return None
