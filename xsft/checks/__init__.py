"""Checks: everything that can be known before a slice is taken. Pure: a resolved run and the gathered facts in,
problems out.

One module per subject, each with `check(run, keys, facts)`; docs/checks.md maps every trap to its check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from xsft.checks import (
    adapters,
    attention,
    checkpoint,
    conversion,
    data,
    environment,
    hub_data,
    image,
    key_values,
    learning_rate,
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
    rows,
    schedule,
    secrets,
    serving,
    shares,
    special_tokens,
    splits,
    startup,
    template,
    trainer_keys,
    unsupported,
    weights,
)
from xsft.checks.overrides import applied
from xsft.facts import Facts
from xsft.problems import Problem, warning
from xsft.spec.base import Keys
from xsft.spec.resolve import Run
from xsft.trainers.trainer import trainer_of

Check = Callable[[Run, Keys, Facts], Iterable[Problem]]


def check(run: Run, facts: Facts) -> tuple[Problem, ...]:
    """Return the problems of all subjects, errors first, each once."""
    keys = trainer_of(run).trainer_keys(run)
    whole = applied(run)
    found = (whole.named(problem) for subject in subjects() for problem in subject(whole.run, keys, facts))
    return tuple(sorted(dict.fromkeys((*whole.problems, *found)), key=lambda p: _ORDER[p.severity]))


def subjects() -> tuple[Check, ...]:
    """Return the entry function of every check module."""
    return (
        trainer_keys.check,
        key_values.check,
        unsupported.check,
        model.check,
        special_tokens.check,
        packaged.check,
        data.check,
        rows.check,
        hub_data.check,
        splits.check,
        template.check,
        schedule.check,
        learning_rate.check,
        startup.check,
        resumption.check,
        shares.check,
        lora.check,
        adapters.check,
        mesh.check,
        attention.check,
        memory.check,
        names.check,
        place.check,
        image.check,
        pathways.check,
        environment.check,
        secrets.check,
        restarts.check,
        conversion.check,
        checkpoint.check,
        weights.check,
        serving.check,
    )


AT_SUBMISSION = frozenset(
    {
        "admission-unseen",
        "conversion-disk",
        "conversion-memory",
        "controller-not-ready",
        "head-node-missing",
        "head-node-small",
        "image-device",
        "image-large",
        "image-maxtext-differs",
        "image-not-found",
        "image-package-old",
        "image-platform",
        "jobs-not-checked",
        "jobset-old",
        "kueue-not-managing",
        "limit-range-default",
        "maxtext-ignores",
        "maxtext-refuses",
        "node-memory",
        "node-scopes",
        "pathways-jax-differs",
        "pod-permission",
        "queue-in-order",
        "queue-inactive",
        "quota-in-use",
        "quota-uncovered",
        "resource-quota",
        "resource-quota-in-use",
        "slices-missing",
        "slices-unavailable",
        "topology-labels",
        "workload-identity-off",
        "workload-identity-unbound",
    }
)
"""Ids of problems that may be found only just before something is created or converted: a plan does not call them
unused."""


def silence(problems: Iterable[Problem], reasons: Mapping[str, str]) -> tuple[Problem, ...]:
    """Turn each problem that is accepted under `checks:` into a note with the reason.

    A name that no check raises, or that cannot be accepted, becomes a warning.
    """
    found = tuple(problems)
    raised = {p.id for p in found}
    refused = {p.id: p for p in found if p.id in reasons and p.severity != "note" and not p.can_be_accepted}
    unused = tuple(_unused(name) for name in reasons if name not in raised | AT_SUBMISSION)
    return (*overridden(found, reasons), *map(_not_accepted, refused.values()), *unused)


def overridden(problems: Iterable[Problem], reasons: Mapping[str, str]) -> tuple[Problem, ...]:
    """Return the problems as `silence` does, for those found later: no entry of `checks:` is called unused."""
    return tuple(_note_with_reason(p, reasons[p.id]) if p.id in reasons and p.can_be_accepted else p for p in problems)


def for_submission(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the problems for a submission: one that a plan may leave open becomes an error, unless it is accepted."""
    return tuple(replace(p, severity="error") if p.blocks_submission else p for p in problems)


_ORDER = {"error": 0, "warning": 1, "note": 2}


def _note_with_reason(problem: Problem, reason: str) -> Problem:
    return replace(problem, severity="note", message=f"{problem.message} (accepted: {reason})")


def _not_accepted(problem: Problem) -> Problem:
    why = (
        "a thing that the run needs does not exist yet"
        if problem.kind in ("absent", "unmade")
        else "it is an error, and only warnings can be accepted"
    )
    message = f"{problem.id} cannot be accepted: {why}."
    return warning("checks-not-accepted", f"checks.{problem.id}", message, f"Remove this line. {problem.fix}".strip())


def _unused(name: str) -> Problem:
    return warning(
        "checks-unused",
        f"checks.{name}",
        f"no check reports {name} here.",
        "Remove it, or correct the id (docs/checks.md).",
    )
