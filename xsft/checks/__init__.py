"""Checks: everything that can be known before a slice is taken. Pure: a resolved run and the gathered facts in,
problems out.

One module per subject, each with `check(run, keys, facts)`; docs/checks.md maps every trap to its check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from xsft.checks import (
    checkpoint,
    data,
    environment,
    image,
    lora,
    memory,
    mesh,
    model,
    names,
    packaged,
    pathways,
    place,
    restarts,
    resumption,
    schedule,
    secrets,
    special_tokens,
    splits,
    template,
    trainer_keys,
    unsupported,
    weights,
)
from xsft.checks.overrides import applied
from xsft.facts import Facts
from xsft.problems import Problem, warning
from xsft.spec.base import Value
from xsft.spec.resolve import Run
from xsft.trainers.maxtext import trainer_keys as keys_of

Keys = Mapping[str, Value]
"""The trainer's keys as they will be on the command line, overrides included (`trainers.maxtext.trainer_keys`)."""

Check = Callable[[Run, Keys, Facts], Iterable[Problem]]


def check(run: Run, facts: Facts) -> tuple[Problem, ...]:
    """All problems of all subjects, errors first, each once."""
    keys = keys_of(run)
    whole = applied(run)
    found = (whole.named(problem) for subject in subjects() for problem in subject(whole.run, keys, facts))
    return tuple(sorted(dict.fromkeys((*whole.problems, *found)), key=lambda p: _ORDER[p.severity]))


def subjects() -> tuple[Check, ...]:
    """Every check module's entry."""
    return (
        trainer_keys.check,
        unsupported.check,
        model.check,
        special_tokens.check,
        packaged.check,
        data.check,
        splits.check,
        template.check,
        schedule.check,
        resumption.check,
        lora.check,
        mesh.check,
        memory.check,
        names.check,
        place.check,
        image.check,
        pathways.check,
        environment.check,
        secrets.check,
        restarts.check,
        checkpoint.check,
        weights.check,
    )


OVERRIDABLE = frozenset({"checkpoint-model", "gradient-accumulation-tunix", "image-maxtext-differs", "image-not-found"})
"""Errors that may be accepted by their id: they may be wrong about what a user knows better, and lose nothing."""

KNOWN_ABSENT = frozenset({"image-not-pushed", "checkpoint-to-convert"})
"""Warnings about what the run needs and what does not exist yet: accepting one does not make it exist."""

NOT_READ = frozenset({"checkpoint-unread"})
"""Warnings about what could not be looked at from here; the cluster may well read it."""

REFUSED_AT_SUBMISSION = KNOWN_ABSENT | NOT_READ | {"image-not-pinned"}
"""Warnings of a plan that are errors when slices are taken, unless they are accepted."""

AT_SUBMISSION = frozenset({"image-not-found", "image-maxtext-differs"})
"""What may be found only just before something is created: a plan does not call it unused."""


def can_be_accepted(problem: Problem) -> bool:
    """Whether `checks: {ID: why}` makes it a note, for plan and submit alike."""
    if problem.severity == "error":
        return problem.id in OVERRIDABLE
    return problem.severity == "warning" and problem.id not in KNOWN_ABSENT


def silence(problems: Iterable[Problem], reasons: Mapping[str, str]) -> tuple[Problem, ...]:
    """What is accepted under `checks:` becomes a note that carries the reason. A name that nothing raises, or that
    cannot be accepted, is a warning.
    """
    found = tuple(problems)
    raised = {p.id for p in found}
    refused = {p.id: p for p in found if p.id in reasons and p.severity != "note" and not can_be_accepted(p)}
    unused = tuple(_unused(name) for name in reasons if name not in raised | AT_SUBMISSION)
    return (*overridden(found, reasons), *map(_not_accepted, refused.values()), *unused)


def overridden(problems: Iterable[Problem], reasons: Mapping[str, str]) -> tuple[Problem, ...]:
    """Like `silence`, for what is found later: nothing is called unused."""
    return tuple(_accepted(p, reasons[p.id]) if p.id in reasons and can_be_accepted(p) else p for p in problems)


def for_submission(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The same problems, stricter: what a plan may leave open, a submission may not, unless it is accepted."""
    return tuple(replace(p, severity="error") if _is_refused(p) else p for p in problems)


def _is_refused(problem: Problem) -> bool:
    """A note was accepted."""
    return problem.severity == "warning" and problem.id in REFUSED_AT_SUBMISSION


_ORDER = {"error": 0, "warning": 1, "note": 2}


def _accepted(problem: Problem, reason: str) -> Problem:
    return replace(problem, severity="note", message=f"{problem.message} (accepted: {reason})")


def _not_accepted(problem: Problem) -> Problem:
    message = f"{problem.id} cannot be accepted: {_WHY_NOT[problem.id in KNOWN_ABSENT]}."
    return warning("checks-not-accepted", f"checks.{problem.id}", message, f"Remove this line. {problem.fix}".strip())


_WHY_NOT = {True: "what the run needs does not exist yet", False: "it is an error, and only warnings can be accepted"}


def _unused(name: str) -> Problem:
    return warning(
        "checks-unused",
        f"checks.{name}",
        f"nothing raises {name} here.",
        "Remove it, or correct the id (docs/checks.md).",
    )
