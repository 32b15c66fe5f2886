"""Which problems a workload accepts under `checks:`, and which problems block a submission. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from msgspec import Struct

from xsft.base.problems import Problem, error, note, warning

WITHDRAWN = frozenset(
    {"image-base-differs", "pod-permission", "quota-in-use", "registry-answer-large"}
    | {"repository-not-docker", "topology-labels"}
)
"""Ids that no check raises any more; docs/checks.md says what became of them."""


class LateProblem(Struct, frozen=True, kw_only=True):
    """A problem that may be accepted, and that may be found after planning: by a submission, a conversion, an export or
    `check --deep`. The module of `xsft.checks` that finds it declares it as a constant (`xsft.checks.subjects`)."""

    id: str

    def warning(self, where: str, message: str, fix: str) -> Problem:
        return warning(self.id, where, message, fix)

    def error(self, where: str, message: str, fix: str) -> Problem:
        """Return an error that the user may accept."""
        return error(self.id, where, message, fix, kind="disputable")


def accept_problems(
    problems: Iterable[Problem], reasons: Mapping[str, str], *, late: Callable[[], frozenset[str]] = frozenset
) -> tuple[Problem, ...]:
    """Turn each problem that is accepted under `checks:` into a note with the reason.

    A name that no check raises, or that cannot be accepted, becomes a warning. `late`: the ids of the problems that may
    be found later; called only for a name that no check raises.
    """
    reported = tuple(problems)
    raised = {p.id for p in reported}
    refused = {p.id: p for p in reported if p.id in reasons and p.severity != "note" and not p.can_be_accepted}
    unused = tuple(unused_acceptance_problem(name) for name in reasons if name not in raised and name not in late())
    return (*accept_late(reported, reasons), *map(_not_accepted, refused.values()), *unused)


def accept_late(problems: Iterable[Problem], reasons: Mapping[str, str]) -> tuple[Problem, ...]:
    """Return the problems as `accept_problems` does, for those found later: no entry of `checks:` is called unused."""
    return tuple(
        replace(p, severity="note", message=f"{p.message} (accepted: {reasons[p.id]})")
        if p.id in reasons and p.can_be_accepted
        else p
        for p in problems
    )


def for_submission(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the problems for a submission: one that a plan may leave open becomes an error, unless it is accepted."""
    return tuple(replace(p, severity="error") if p.blocks_submission else p for p in problems)


def _not_accepted(problem: Problem) -> Problem:
    why = "it is none of the errors that can be (docs/checks.md)"
    if problem.kind in ("absent", "unmade"):
        why = "a thing that the run needs does not exist yet"
    message = f"{problem.id} cannot be accepted: {why}."
    return warning("checks-not-accepted", f"checks.{problem.id}", message, f"Remove this line. {problem.fix}".strip())


def unused_acceptance_problem(name: str) -> Problem:
    if name in WITHDRAWN:
        return note("checks-unused", f"checks.{name}", f"{name} is withdrawn (docs/checks.md).", "Remove it.")
    return warning(
        "checks-unused",
        f"checks.{name}",
        f"no check reports {name} here.",
        "Remove it, or correct the id (docs/checks.md).",
    )
