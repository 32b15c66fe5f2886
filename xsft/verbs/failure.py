"""Report an error: sentences on stderr, one document on stdout under --json, and its exit status."""

from __future__ import annotations

import errno
import sys
import traceback
from collections.abc import Sequence

from xsft.base.errors import EnvironmentMissing, UsageError, UserRefusal, XsftError
from xsft.base.problems import Problem, error
from xsft.machine.streams import silence_stdout
from xsft.verbs.document import ErrorDocument, counts_text, print_document, print_problems, problem_documents


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
