"""The JobSet that will be created, for the caller that may still decline it."""

from __future__ import annotations

import json

from msgspec import Struct

from xsft.base.problems import Problem
from xsft.launch.identity import RunHistory
from xsft.planning.steps import Planned
from xsft.records.resumption import all_differences
from xsft.spec.digest import canonical


class Proposal(Struct, frozen=True, kw_only=True):
    """One new JobSet that the cluster would accept."""

    plan: Planned
    attempt: int
    resumes_from: int | None
    """The step of the last saved checkpoint."""
    since: int | None
    """The attempt that `changed` compares with; None if none is recorded."""
    changed: tuple[str, ...]
    """`key: old -> new`."""
    problems: tuple[Problem, ...]


def proposal_of(plan: Planned, *, attempt: int, world: RunHistory, problems: tuple[Problem, ...]) -> Proposal:
    before = world.records[-1] if world.records and world.records[-1].spec else None
    now = json.loads(canonical(plan.run))
    return Proposal(
        plan=plan,
        attempt=attempt,
        resumes_from=world.latest_step,
        since=before.last.number if before else None,
        changed=all_differences(before.spec, now) if before else (),
        problems=problems,
    )
