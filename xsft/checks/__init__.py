"""Checks: everything that can be known before a slice is taken. Pure: a resolved run and the gathered facts in,
problems out.

One module per subject, each with `check(run, keys, facts)`; docs/checks.md maps every trap to its check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

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
from xsft.problems import Problem
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


_ORDER = {"error": 0, "warning": 1, "note": 2}
