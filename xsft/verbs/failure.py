"""Report an error: sentences on stderr, one document on stdout under --json, and its exit status."""

from __future__ import annotations

import errno
import sys
import traceback
from collections.abc import Iterable, Sequence
from typing import TextIO

from xsft.base.amounts import counted_text
from xsft.base.errors import EnvironmentMissing, UsageError, UserRefusal, XsftError
from xsft.base.problems import Problem, Severity, error
from xsft.machine.streams import silence_stdout
from xsft.spec.keypath import printable
from xsft.verbs.document import ErrorDocument, print_document, problem_documents

SEVERITIES: tuple[Severity, ...] = ("note", "warning", "error")
"""From the least serious to the most serious."""


def report_failure(problem: Exception, arguments: Sequence[str]) -> int:
    """Print the error and return its exit status."""
    if isinstance(problem, OSError):
        problem = _known_failure(problem) or problem
    if not isinstance(problem, XsftError):
        return _report_bug(problem, arguments)
    if isinstance(problem, UserRefusal):
        sys.stderr.write(f"{problem.message}\n")
        return problem.exit_status
    _print_error(problem.problems, arguments, exit_status=problem.exit_status)
    return problem.exit_status


def _print_error(problems: tuple[Problem, ...], arguments: Sequence[str], *, exit_status: int) -> None:
    if "--json" in arguments:
        verb = next((word for word in arguments if not word.startswith("-")), "xsft")
        fields = problem_documents(problems)
        print_document(ErrorDocument(schema_=f"xsft.{verb}/1", problems=fields, exit_status=exit_status))
    print_problems(problems)
    if len(problems) > 1:
        sys.stderr.write(f"{counts_text(problems)}\n")


def print_problems(problems: Iterable[Problem], *, stream: TextIO | None = None) -> None:
    """Print the problems, the most serious last, nearest to the prompt; on a terminal with colour, wrapped."""
    ordered = sorted(problems, key=lambda problem: SEVERITIES.index(problem.severity))
    messages = [problem_lines(problem) for problem in ordered]
    stream = stream or sys.stderr
    if messages and stream.isatty():
        from xsft.verbs.console import draw_messages

        draw_messages(messages, stream)
        return
    stream.writelines([f"{line}\n" for lines in messages for line in lines])


def counts_text(problems: Iterable[Problem]) -> str:
    """Return e.g. `1 error, 2 warnings`, without severities that no problem has."""
    severities = [problem.severity for problem in problems]
    return ", ".join(counted_text(severities.count(word), word) for word in reversed(SEVERITIES) if word in severities)


def problem_lines(p: Problem) -> tuple[str, ...]:
    """Return the lines `file: where: message [id]` and the next step, or what a note leaves unknown."""
    file = printable(p.file)
    place = ": ".join(part for part in ("" if p.message.startswith(file) else file, p.where) if part)
    head = f"{p.severity}: {place + ': ' if place else ''}{p.message} [{p.id}]"
    after = p.fix if p.fix.startswith("Unknown: ") else f"fix: {p.fix}"
    return (head, f"  {after}") if p.fix else (head,)


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
    bug = error("internal", "", f"a bug in xsft: {text}", fix="Please report it with the lines above.")
    sys.stderr.write("".join(traceback.format_exception(problem)))
    _print_error((bug,), arguments, exit_status=1)
    return 1
