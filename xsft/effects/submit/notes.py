"""What is told beside the outcome of a submission."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xsft.checks import overridden
from xsft.checks.admission import ClusterFacts
from xsft.checks.image import maxtext_differs
from xsft.effects.machine import clock
from xsft.errors import RunFailed
from xsft.identity import Seen
from xsft.problems import Problem, warning
from xsft.reading.jobsets import jobset_of
from xsft.records.model import ReadBack
from xsft.states.causes import explain
from xsft.states.classify import classify
from xsft.states.evidence import Evidence
from xsft.states.model import JobSet, Observation
from xsft.steps import Plan


def image_notes(
    plan: Plan, *, look: Callable[[str], tuple[Problem, ...]], maxtext: Callable[[str], str | None]
) -> tuple[Problem, ...]:
    """Is it there, and does it hold the MaxText that was planned for? What a user accepts by its id is a note.

    An image that takes a pull secret is not ours to see: its registry may call it missing.
    """
    image = plan.run.spec.image
    found = () if image.pull_secret else look(str(image.ref))
    if not found and not image.pull_secret:
        holds = maxtext(str(image.ref))
        found = (maxtext_differs(holds, plan.run),) if holds and holds != image.maxtext else ()
    return overridden(found, plan.run.spec.checks)


def read_back_notes(read_back: ReadBack | None) -> tuple[Problem, ...]:
    fix = "`xsft plan --manifest` prints what was sent, `kubectl get jobset -o yaml` what is there."
    if read_back is None or read_back.outcome == "same":
        return ()
    if read_back.outcome == "not-read":
        message = "The JobSet was created, and could not be read back or was deleted since."
        return (warning("not-read-back", "", message, fix),)
    message = f"The cluster holds something else than was sent: {'; '.join(read_back.differences)}."
    return (warning("read-back-differs", "", message, fix),)


def resume_notes(latest: int | None, *, attempt: int) -> tuple[Problem, ...]:
    if latest is None or attempt > 1:
        return ()
    message = f"Checkpoints up to step {latest} lie in this run's output: it goes on from there."
    return (warning("resumes-unrecorded", "output", message, "Take another name for a run from the start."),)


def finished_for_nothing(run_name: str, why: str) -> RunFailed:
    return RunFailed(
        f"{run_name} has done all of its steps, and failed: {why}. Nothing was sent.",
        fix=f"Correct the workload and submit it under another name; xsft why {run_name} says more.",
    )


def passed_over_note(there: Seen, *, run_name: str) -> Problem:
    """`there` has the name of an attempt of `run_name`, and is left alone."""
    owner = f"is of the run {there.run_name}" if there.run_name else "was not made by xsft"
    message = f"The JobSet {there.name} (uid {there.uid}) {owner}: this attempt of {run_name} takes the next name."
    return warning("name-passed-over", "", message, f"Nothing is lost: {run_name} keeps its output and checkpoints.")


def maybe_created(plan: Plan) -> str:
    """To who interrupts while the create is under way: what was begun is recorded, whatever came of it."""
    return (
        f"JobSet {plan.jobset} was being created, and whether it is there is not known. Submit it again: that finds"
        f" out, and makes it where it is not there, never twice. `xsft status {plan.run_name}` looks without creating."
    )


def held_by(facts: ClusterFacts, uid: str) -> dict[str, Any] | None:
    """The JobSet of that UID, where it was listed."""
    listed = (*facts.jobsets, *((facts.same_name,) if facts.same_name else ()))
    return next((one for one in listed if one["metadata"].get("uid") == uid), None)


def adopted_notes(held: dict[str, Any] | None) -> tuple[Problem, ...]:
    """Of a live JobSet that no queue resumes, in the words of `xsft why`, or that no queue holds."""
    if held is None:
        return ()
    jobset = jobset_of(held)
    if jobset.queue is not None:
        return ()
    if jobset.suspended:
        return (_suspended(jobset),)
    message = f"The JobSet {jobset.name} names no queue: Kueue neither admits it nor counts its chips."
    fix = f"Leave it where that is meant; else xsft cancel {jobset.name}, and submit it again."
    return (warning("no-queue", "queue", message, fix),)


def _suspended(jobset: JobSet) -> Problem:
    now = clock.now()
    seen = Observation(run_name=jobset.run_name, target="xpk", observed_at=now, jobset=jobset)
    cause = explain(Evidence(seen=seen, status=classify(seen, now=now)), now=now).cause
    return warning("suspended", "queue", cause.message, cause.fix)
