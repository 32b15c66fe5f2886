"""The real runs behind the verbs about runs: read from clusters and from this machine."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from xsft.effects.runs.runs import Runs, runs_at_place, runs_for
from xsft.effects.runs.sources import Asked
from xsft.errors import UsageError

if TYPE_CHECKING:
    from xsft.steps import Plan


def runs_of(args: argparse.Namespace, *names: str, everything: bool = True) -> Runs:
    """Of these names, none meaning all; where the arguments of `run_arguments.add_where` say."""
    return runs_asked(
        Asked(place=args.place, context=args.context, namespace=args.namespace), *names, everything=everything
    )


def runs_asked(asked: Asked, *names: str, everything: bool = True) -> Runs:
    """As `runs_of`, for what is asked in Python."""
    return runs_for(asked, names=names, everything=everything)


def runs_at(plan: Plan) -> Runs:
    """Of the cluster and namespace that the plan goes to."""
    if plan.run.place is None:
        raise UsageError("the workload names no place.", fix="Give it one: place: main, or inline.")
    return runs_at_place(plan.run.place, namespace=plan.run.namespace, name=plan.run_name)
