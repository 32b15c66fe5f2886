"""Report an error: sentences on stderr, one document on stdout under --json, and its exit status."""

from __future__ import annotations

import errno
import json
import sys
import traceback
from collections.abc import Iterable, Sequence

from xsft.base.errors import EnvironmentMissing, UsageError, XsftError
from xsft.base.problems import Problem
from xsft.machine.streams import silence_stdout
from xsft.spec.keypath import printable


def report_failure(problem: Exception, arguments: Sequence[str]) -> int:
    """Print the error and return its exit status."""
    if isinstance(problem, OSError):
        problem = _known_failure(problem) or problem
    if not isinstance(problem, XsftError):
        return _report_bug(problem, arguments)
    if "--json" in arguments:
        print_document(arguments, {"problems": problem_documents(problem.problems), "exit_status": problem.exit_status})
    print_problems(problem.problems)
    return problem.exit_status


def print_problems(problems: Iterable[Problem]) -> None:
    for p in problems:
        sys.stderr.write("\n".join(problem_lines(p)) + "\n")


def problem_lines(p: Problem) -> tuple[str, ...]:
    """Return the lines `file: where: message [id]` and the next step, or what a note leaves unknown."""
    file = printable(p.file)
    place = ": ".join(part for part in ("" if p.message.startswith(file) else file, p.where) if part)
    head = f"{p.severity}: {place + ': ' if place else ''}{p.message} [{p.id}]"
    after = p.fix if p.fix.startswith("Unknown: ") else f"fix: {p.fix}"
    return (head, f"  {after}") if p.fix else (head,)


def problem_documents(problems: Iterable[Problem]) -> list[dict[str, str]]:
    return [p.as_json() for p in problems]


def print_document(arguments: Sequence[str], document: dict[str, object]) -> None:
    verb = next((a for a in arguments if not a.startswith("-")), "xsft")
    sys.stdout.write(json.dumps({"schema": f"xsft.{verb}/1", **document}, ensure_ascii=False) + "\n")


def _known_failure(problem: OSError) -> XsftError | None:
    """Return the error for a full disk, a missing current folder or a name that is too long; None for any other, which
    is a bug."""
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        # If stdout is a file on the full disk, its buffered text must not fail again at exit.
        silence_stdout()
        where = problem.filename or "standard output"
        return EnvironmentMissing(f"No space left on device ({where}).", fix="Free some space, and run it again.")
    if problem.errno == errno.ENOENT and problem.filename is None:
        return EnvironmentMissing("the current folder is gone.", fix="Change to a folder that exists.")
    if problem.errno == errno.ENAMETOOLONG:
        name = str(problem.filename)
        return UsageError(f"File name too long: {name[:60]}… ({len(name)} characters).", fix="Correct the path.")
    return None


def _report_bug(problem: Exception, arguments: Sequence[str]) -> int:
    """Report a bug in xsft: print the traceback once, with what to do about it."""
    text = f"{type(problem).__name__}: {problem}"
    found = Problem(
        id="internal", severity="error", message=f"a bug in xsft: {text}", fix="Please report it with the lines above."
    )
    sys.stderr.write("".join(traceback.format_exception(problem)))
    if "--json" in arguments:
        print_document(arguments, {"problems": problem_documents((found,)), "exit_status": 1})
    print_problems((found,))
    return 1
