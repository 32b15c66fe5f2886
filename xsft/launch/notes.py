"""Notes printed with the outcome of a submission."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from xsft.base.acceptance import accept_late
from xsft.base.errors import RunFailed, XsftError
from xsft.base.lenient import JsonObject, mapping, text
from xsft.base.problems import Problem, warning
from xsft.checks.admission import ClusterFacts
from xsft.checks.controllers import check_ready_timeout
from xsft.checks.image_contents import check_image_contents, unread_with_secret
from xsft.checks.node_pools import HEAD_NODE_MISSING, SLICES_MISSING
from xsft.cluster.cluster import Cluster
from xsft.cluster.evidence import Evidence
from xsft.cluster.jobset_fields import JobSet, parse_jobset
from xsft.cluster.objects import JOB_UID_LABEL, true_condition
from xsft.cluster.observation import Observation
from xsft.image.contents import ImageLook
from xsft.launch.identity import LastEnd
from xsft.machine import clock
from xsft.machine.objects import Objects, begun_steps
from xsft.planning.steps import JobPlan, Plan, Planned
from xsft.records.jobset_paths import WRITES_ANNOTATION
from xsft.records.record import ReadBack
from xsft.runs.causes import explain_state
from xsft.runs.classify import classify
from xsft.runs.read_evidence import read_evidence


def image_of(plan: Planned, *, look: Callable[[str], ImageLook]) -> ImageLook | None:
    """Return what the registry has of the image. None for an image with a pull secret: its registry may report it as
    missing without that login.
    """
    image = plan.run.spec.image
    if image.pull_secret:
        return None
    return look(str(image.ref))


def image_notes(plan: Planned, image: ImageLook | None) -> tuple[Problem, ...]:
    """Return the problems of the image. A problem that the user accepts by its id becomes a note."""
    if image is None:
        return (unread_with_secret(plan.run, str(plan.run.spec.image.pull_secret)),)
    return accept_late(check_image_contents(image, plan.run, trains=isinstance(plan, Plan)), plan.run.spec.checks)


def start_notes(
    plan: Planned, image: ImageLook | None, facts: ClusterFacts, *, found: tuple[Problem, ...]
) -> tuple[Problem, ...]:
    """Return a warning if Kueue evicts the run before it can have started. `found`: the cluster's problems."""
    image_bytes = None
    if image and image.configuration:
        image_bytes = image.configuration.size
    problems = check_ready_timeout(
        facts.ready_timeout_s,
        image_bytes=image_bytes,
        lacks_nodes=any(problem.id in (SLICES_MISSING.id, HEAD_NODE_MISSING.id) for problem in found),
        context=facts.context,
    )
    return accept_late(problems, plan.run.spec.checks)


def read_back_notes(read_back: ReadBack | None) -> tuple[Problem, ...]:
    fix = "`xsft plan --manifest` prints the plan; `kubectl get jobset -o yaml` prints the JobSet."
    if read_back is None or read_back.outcome == "same":
        return ()
    if read_back.outcome == "not-read":
        message = "The JobSet was created, but could not be read back."
        return (warning("not-read-back", "", message, fix),)
    message = f"The created JobSet differs from the plan: {'; '.join(read_back.differences)}."
    return (warning("read-back-differs", "", message, fix),)


def read_end(cluster: Cluster, jobset: JsonObject, *, attempt: int) -> LastEnd:
    """Return how the JobSet ended, from its pods and their logs. What cannot be read is left out."""
    of_run = parse_jobset(jobset)
    observation = Observation(run_name=of_run.run_name, target=of_run.target, observed_at=clock.now(), jobset=of_run)
    evidence = read_evidence(cluster, seen=observation, status=classify(observation))
    cause = explain_state(evidence).cause
    return LastEnd(
        attempt=attempt,
        digest=of_run.spec_digest,
        message=cause.message,
        fix=cause.fix,
        repeats=cause.repeats,
        still_runs=any(pod.status.phase == "Running" for pod in evidence.seen.pods or ()),
    )


def with_workload_end(jobset: JobSet, cluster: Cluster, *, namespace: str) -> JobSet:
    """Return the JobSet as failed if it is suspended and Kueue has finished its Workload: nothing resumes it."""
    if not (jobset.live and jobset.spec.suspend):
        return jobset
    try:
        workloads = cluster.reads.workloads(namespace=namespace, labels=f"{JOB_UID_LABEL}={jobset.uid}")
    except XsftError:
        return jobset  # it counts as live, so nothing is created beside it
    if any(true_condition(workload.conditions, "Finished") for workload in workloads.objects):
        return replace(jobset, status=replace(jobset.status, terminal_state="Failed"))
    return jobset


def is_nothing_saved(end: LastEnd | None, objects: Objects, *, output: str, run_name: str) -> bool:
    """Return whether the run's attempts, the last of which ended so, saved no step, not even a part of one."""
    # The steps are read after the pods: one that still ran could have saved a step since. A path that is no bucket's
    # may be a folder in the pods, which cannot be read here.
    if not output.startswith("gs://") or (end and end.still_runs):
        return False
    return not begun_steps(objects, output=output, run_name=run_name)


def resume_notes(latest: int | None, *, attempt: int) -> tuple[Problem, ...]:
    if latest is None or attempt > 1:
        return ()
    message = f"The output has checkpoints up to step {latest}; training resumes from there."
    return (warning("resumes-unrecorded", "output", message, "To start over, use another name."),)


def finished_for_nothing(run_name: str, why: str) -> RunFailed:
    return RunFailed(
        f"{run_name} completed all its steps, but failed: {why}. Nothing was sent.",
        fix=f"Correct the workload and submit it under another name; xsft why {run_name} shows the details.",
    )


def passed_over_note(jobset: JobSet, *, run_name: str) -> Problem:
    """Return the note that the JobSet `jobset`, which has the name of an attempt of `run_name`, belongs to another run
    and is left alone.
    """
    owner = "a JobSet that xsft did not create"
    if jobset.labelled_run:
        owner = f"run {jobset.labelled_run}"
    message = (
        f"The name {jobset.name} belongs to {owner} (uid {jobset.uid}); this attempt of {run_name} takes the next name."
    )
    return warning("name-passed-over", "", message, f"Nothing is lost: {run_name} keeps its output and checkpoints.")


def maybe_created(plan: Planned) -> str:
    """Return the message for Ctrl-C while the create is in progress. The attempt is already recorded, whether or not
    the create succeeded.
    """
    return (
        f"Interrupted while creating JobSet {plan.jobset}; it may exist. Run the command again: it checks first and"
        f" never creates it twice. `xsft status {plan.run_name}` only checks."
    )


def held_by(facts: ClusterFacts, uid: str) -> dict[str, Any] | None:
    """Return the listed JobSet with that UID, or None."""
    listed = (*facts.jobsets, *((facts.same_name,) if facts.same_name else ()))
    return next((jobset for jobset in listed if jobset["metadata"].get("uid") == uid), None)


def as_held(plan: Planned, jobset: JsonObject | None) -> Planned:
    """Return the plan as the cluster holds it: a running conversion keeps writing to the folder it started with, though
    this call would have chosen another.
    """
    match plan:
        case Plan():
            return plan
        case JobPlan():
            path = written_by(jobset or {})
            if not path:
                return plan
            return replace(plan, job=replace(plan.job, writes=path))


def written_by(jobset: JsonObject) -> str | None:
    """Return the folder into which the JobSet of a CPU job writes."""
    return text(mapping(jobset, "metadata", "annotations").get(WRITES_ANNOTATION))


def adopted_notes(document: dict[str, Any] | None) -> tuple[Problem, ...]:
    """Return the notes on a live JobSet that no queue will resume, in the words of `xsft why`, or that is in no
    queue.
    """
    if document is None:
        return ()
    jobset = parse_jobset(document)
    if jobset.queue is not None:
        return ()
    if jobset.suspended:
        observation = Observation(
            run_name=jobset.run_name, target=jobset.target, observed_at=clock.now(), jobset=jobset
        )
        cause = explain_state(Evidence(seen=observation, status=classify(observation))).cause
        return (warning("suspended", "queue", cause.message, cause.fix),)
    message = f"The JobSet {jobset.name} has no queue, so Kueue neither admits it nor counts its chips."
    fix = f"If this is intended, ignore it; otherwise xsft cancel {jobset.name} and resubmit."
    return (warning("no-queue", "queue", message, fix),)
