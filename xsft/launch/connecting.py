"""What a submission needs: a submitter connected to the plan's cluster, or the machine that trains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xsft.base.aliases import ShowLine
from xsft.base.errors import UsageError
from xsft.base.problems import Problem
from xsft.checks.demand import Demand
from xsft.checks.parsed import not_asked
from xsft.checks.pod_identity import PodRights
from xsft.cluster import cluster
from xsft.environments import environments
from xsft.launch import recording
from xsft.launch.local_machine import Machine, in_image
from xsft.launch.proposal import Proposal
from xsft.launch.submission import Submitter
from xsft.launch.through_xpk import NOTE, ThroughXpk, differences, refuse_losses
from xsft.machine.parallel import StartedCall, start
from xsft.machine.paths import own_cache
from xsft.machine.process import own_environment
from xsft.planning.api import LoadedWorkload, ask_maxtext, plan
from xsft.planning.asked_rows import ask_rows
from xsft.planning.steps import Plan
from xsft.records import record_files


def submitter_for(
    workload: LoadedWorkload,
    made: Plan,
    *,
    through_xpk: bool,
    progress: ShowLine,
    confirm: Callable[[Proposal], None] = lambda _proposal: None,
) -> Submitter:
    """Return a submitter connected to the plan's cluster. Raises Refused if xpk was requested and would lose a setting.

    `confirm`: asked just before something is created; raises Refused if the answer is no.
    """
    place = made.run.required_place()
    if through_xpk and made.xpk_argv is None:
        raise UsageError(f"--through-xpk: {made.target} is another launcher.", fix="Omit it.")
    if through_xpk:
        refuse_losses(made)
    answer = start(lambda: (*ask_maxtext((made,))[0], *ask_rows(made)))
    return Submitter(
        cluster=cluster.connect(place),
        store=record_files.record_store(),
        provenance=recording.gather_provenance(made.file, target=made.target),
        replan=lambda attempt: plan((workload,), attempt=attempt)[0],
        progress=progress,
        confirm=confirm,
        rights=_rights,
        parsed=lambda: parser_answer(answer),
        **(_by_xpk(progress) if through_xpk else {}),
    )


def _rights(source: str, demand: Demand) -> PodRights | None:
    from xsft.launch.pod_rights import connect_iam  # through google-auth

    iam = connect_iam(own_environment())
    return iam.rights(source, demand) if iam else None


PARSER_WAIT_S = 10.0
"""Seconds that a submission waits for MaxText's parser, which runs in parallel with its other reads."""


def parser_answer(started: StartedCall[tuple[Problem, ...]], *, within_s: float = PARSER_WAIT_S) -> tuple[Problem, ...]:
    """Return the problems that MaxText's parser found (it started before the cluster was read); a note if it takes too
    long."""
    if started.ended(within_s):
        return started.result()
    why = f"it did not answer within {within_s:g} s; `xsft check --deep FILE` waits longer"
    return tuple(not_asked(f"{why}, and the next submission uses its answer"))


def _by_xpk(progress: ShowLine) -> dict[str, Any]:
    xpk = environments.ensure("xpk", progress=progress)
    create = ThroughXpk(python=xpk.python, env=own_environment())
    return {"create": create, "compare": differences, "notes": (NOTE,)}


def machine_for(made: Plan, *, progress: ShowLine) -> Machine:
    """Return where a local plan runs: in its image, pulled if it is missing, else in MaxText's environment, built if it
    is missing.

    Raises EnvironmentMissing or Unreachable if neither is available.
    """
    env, cache = own_environment(), own_cache()
    if made.run.spec.image.ref:
        from xsft.launch.local_container import container_for  # through Docker's SDK

        container = container_for(made, env=env, progress=progress)
        if container:
            return in_image(container, env=env, cache=cache)
    return Machine(python=environments.ensure("maxtext", progress=progress).python, env=env, cache=cache)
