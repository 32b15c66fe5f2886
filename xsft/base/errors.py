"""Every error of xsft, each with its exit status.

XsftError                    1  a bug in xsft, unless a subclass says otherwise
├── UsageError               2  the command line is wrong
│   ├── SpecError            2  the workload has problems (all are listed)
│   └── ClusterMissing       2  no cluster has this name
├── EnvironmentMissing       3  xpk, MaxText, a tool or disk space is missing
│   └── RepositoryMissing    3  the registry has no such repository
├── Refused                  4  refused: it already exists, or something would be lost
│   ├── AlreadyRunning       4  another xsft process runs it
│   └── UserRefusal          4  the user answered no
├── Unreachable              5  a cluster, registry or bucket did not answer
│   └── Forbidden            5  the login may not do this
├── RunFailed                6  the run failed or ended too early
├── TimedOut                 7  timed out
└── Unknown                  8  the result is unknown
Interrupted by the user    130  (KeyboardInterrupt; not a class of ours)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Self

from msgspec import Struct

from xsft.base.problems import Problem, RetryAdvice, errors_in
from xsft.base.secrets import redact

INTERRUPTED = 130


class XsftError(Exception):
    """Base of xsft's errors. `message` says what was given and what is allowed; `fix` is the next step."""

    exit_status: ClassVar[int] = 1
    id: ClassVar[str] = "internal"
    retry: ClassVar[RetryAdvice] = "unsure"

    def __init__(self, message: str, *, fix: str = "", id: str = "", again: RetryAdvice | None = None) -> None:
        self.message = redact(message)
        self.fix = redact(fix)
        super().__init__(self.message)
        self.problem_id = id or self.id
        """Stable id; more specific than that of the class, if scripts need to distinguish cases."""
        self.again: RetryAdvice = again or self.retry
        self._beside: tuple[Problem, ...] = ()
        self.document: Struct | None = None
        """What the verb prints under --json, if that is more than the problems."""

    @property
    def clause(self) -> str:
        """Return the message without its full stop, for the middle of a sentence."""
        return self.message.rstrip(".")

    def with_problems_of(self, other: XsftError) -> Self:
        """Return this error with the problems of another one, which must be fixed too; the exit status is unchanged."""
        self._beside = (*self._beside, *other.problems)
        return self

    def with_document(self, document: Struct | None) -> Self:
        """Return this error, which ends a verb that has this document."""
        self.document = document
        return self

    @property
    def problems(self) -> tuple[Problem, ...]:
        problem = Problem(id=self.problem_id, severity="error", message=self.message, fix=self.fix, again=self.again)
        return (problem, *self._beside)


class UsageError(XsftError):
    exit_status = 2
    id = "usage"


class SpecError(UsageError):
    """The problems of one or more workloads."""

    id = "spec"

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        lines = [f"{f'{p.where}: ' if p.where else ''}{p.message} [{p.id}]" for p in problems]
        if len(lines) != 1:  # several as a list
            lines = ["\n- ".join((f"{len(lines)} problems:", *lines))]
        super().__init__(lines[0])
        self._problems = problems

    @property
    def problems(self) -> tuple[Problem, ...]:
        return self._problems


def refuse_errors(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the problems if none is an error. Raises SpecError with all errors."""
    listed = tuple(problems)
    if errors := errors_in(listed):
        raise SpecError(errors)
    return listed


class ClusterMissing(UsageError):
    """A missing cluster: the kubeconfig has no such context, or Google Cloud no such cluster."""

    id = "cluster-missing"
    retry = "never"


class EnvironmentMissing(XsftError):
    exit_status = 3
    id = "environment-missing"
    retry = "never"


class RepositoryMissing(EnvironmentMissing):
    id = "repository-missing"


class Refused(XsftError):
    exit_status = 4
    id = "refused"


class AlreadyRunning(Refused):
    """A run, or a conversion, that another xsft process executes on this machine now."""

    id = "run-running"


class UserRefusal(Refused):
    """The user's answer to a question, which is no error."""

    id = "not-confirmed"


class Unreachable(XsftError):
    exit_status = 5
    id = "unreachable"
    retry: ClassVar[RetryAdvice] = "helps"


class Forbidden(Unreachable):
    id = "forbidden"
    retry = "never"


class RunFailed(XsftError):
    exit_status = 6
    id = "run-failed"


class TimedOut(XsftError):
    exit_status = 7
    id = "timed-out"


class Unknown(XsftError):
    exit_status = 8
    id = "unknown"
