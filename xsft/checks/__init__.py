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
    schedule,
    secrets,
    trainer_keys,
    unsupported,
)
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
    found = (problem for subject in subjects() for problem in subject(run, keys, facts))
    return tuple(sorted(dict.fromkeys(found), key=lambda p: _ORDER[p.severity]))


def subjects() -> tuple[Check, ...]:
    """Every check module's entry."""
    return (
        trainer_keys.check,
        unsupported.check,
        model.check,
        packaged.check,
        data.check,
        schedule.check,
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
    )


def silence(problems: Iterable[Problem], reasons: Mapping[str, str]) -> tuple[Problem, ...]:
    """Warnings named under `checks:` become notes that carry the reason; errors stay errors; a name that silences
    nothing is said.
    """
    found = tuple(problems)
    ids = {p.id for p in found}
    unused = tuple(_unused(name) for name in reasons if name not in ids)
    return (*(_silenced(p, reasons) for p in found), *unused)


UNREAD_IS_FATAL = frozenset({"checkpoint-unread"})
"""Warnings of a plan that must not be open when slices are taken."""


def for_submission(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The same problems, stricter: what a plan may leave unknown, a submission may not."""
    return tuple(replace(p, severity="error") if p.id in UNREAD_IS_FATAL else p for p in problems)


_ORDER = {"error": 0, "warning": 1, "note": 2}


def _silenced(problem: Problem, reasons: Mapping[str, str]) -> Problem:
    if problem.id not in reasons or problem.severity != "warning":
        return problem
    return replace(problem, severity="note", message=f"{problem.message} (accepted: {reasons[problem.id]})")


def _unused(name: str) -> Problem:
    return warning(
        "checks-unused",
        f"checks.{name}",
        f"nothing raises {name} here.",
        "Remove it, or correct the id (docs/checks.md).",
    )
