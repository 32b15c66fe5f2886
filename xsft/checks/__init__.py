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

AT_SUBMISSION = frozenset({"image-not-found", "image-maxtext-differs"})
"""What may be found only just before something is created: a plan does not call it unused."""


def silence(problems: Iterable[Problem], reasons: Mapping[str, str]) -> tuple[Problem, ...]:
    """Warnings named under `checks:` become notes that carry the reason; errors stay errors, but for `OVERRIDABLE`; a
    name that silences nothing is said.
    """
    found = tuple(problems)
    ids = {p.id for p in found} | AT_SUBMISSION
    unused = tuple(_unused(name) for name in reasons if name not in ids)
    return (*overridden(found, reasons), *unused)


def overridden(problems: Iterable[Problem], reasons: Mapping[str, str]) -> tuple[Problem, ...]:
    """Like `silence`, for what is found later: nothing is called unused."""
    return tuple(_silenced(p, reasons) for p in problems)


UNREAD_IS_FATAL = frozenset({"checkpoint-unread"})
"""Warnings of a plan that must not be open when slices are taken."""

KNOWN_ABSENT = frozenset({"image-not-pushed", "checkpoint-to-convert"})
"""Warnings of a plan about what the run needs and what does not exist yet; accepting one does not make it exist."""

FATAL_UNLESS_ACCEPTED = frozenset({"image-not-pinned"})


def for_submission(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The same problems, stricter: what a plan may leave unknown, a submission may not."""
    return tuple(replace(p, severity="error") if _is_fatal(p) else p for p in problems)


def _is_fatal(problem: Problem) -> bool:
    accepted = problem.severity == "note"
    return problem.id in UNREAD_IS_FATAL | KNOWN_ABSENT or (problem.id in FATAL_UNLESS_ACCEPTED and not accepted)


_ORDER = {"error": 0, "warning": 1, "note": 2}


def _silenced(problem: Problem, reasons: Mapping[str, str]) -> Problem:
    open_to_it = problem.severity == "warning" or problem.id in OVERRIDABLE
    if problem.id not in reasons or not open_to_it:
        return problem
    return replace(problem, severity="note", message=f"{problem.message} (accepted: {reasons[problem.id]})")


def _unused(name: str) -> Problem:
    return warning(
        "checks-unused",
        f"checks.{name}",
        f"nothing raises {name} here.",
        "Remove it, or correct the id (docs/checks.md).",
    )
