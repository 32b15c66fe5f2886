"""Every reason that a state can have, with its meaning. docs/states.md is the same table; a test compares them."""

from __future__ import annotations

from msgspec import Struct

from xsft.states.names import State


class Reason(Struct, frozen=True, kw_only=True):
    slug: str
    states: tuple[State, ...]
    meaning: str
    """The text, one line."""


def _of(state: State, **meanings: str) -> tuple[Reason, ...]:
    return tuple(
        Reason(slug=name.replace("_", "-"), states=(state,), meaning=meaning) for name, meaning in meanings.items()
    )


REASONS: tuple[Reason, ...] = (
    *_of(
        "queued",
        waiting_for_quota="Kueue has not reserved quota yet; `why` shows whether it can",
        inadmissible="Kueue does not consider it now: the LocalQueue does not exist, or the queue is stopped",
        admission_checks="quota is reserved, and an admission check (such as provisioning) has not passed yet",
        no_workload="the JobSet is suspended and has no Kueue Workload: no such PriorityClass, or no Kueue",
        suspended="the JobSet is suspended and has no queue; a user must resume it",
        workload_not_read="the JobSet is suspended, and its Workload could not be read",
    ),
    Reason(
        slug="deactivated",
        states=("queued", "evicted"),
        meaning="the Kueue Workload is deactivated; Kueue admits it only after a user activates it",
    ),
    *_of(
        "starting",
        admitted="Kueue has admitted it; the JobSet is not resumed yet",
        no_jobs="the JobSet is resumed, but no Job has running pods yet",
        not_scheduled="no node fits a pod",
        image_pull="a pod cannot pull its image",
        container_config="a container cannot be created: a Secret, a key in one, or a volume is missing",
        crash_loop="a container ends repeatedly and is restarted in its pod",
        containers_creating="pods have nodes; their containers are being created",
        pods_pending="pods wait for a node or for other pods",
        workers_after_head="Pathways: the workers wait until the head is ready",
        pods_not_ready="not all pods of all slices are running",
        pods_replaced="the run has trained; now a pod is being replaced, for example after a node was lost",
        trainer_starting="the processes are running; the trainer is loading and has not started to compile",
        copying_weights="a server: its weights are being copied from the bucket",
        loading_model="a server: the process is loading the model; /health does not answer yet",
    ),
    Reason(
        slug="restarted",
        states=("starting", "compiling"),
        meaning="restarted recently; it resumes from its last checkpoint",
    ),
    *_of(
        "training",
        progress_not_read="the processes are running; its log was not read, so it may also be loading or compiling",
        trainer_silent="the processes are running; xsft did not create the JobSet, and recognises no line of its log",
        cpu_job="the process is running; it has no steps (for example a conversion)",
        evaluating="an evaluation runs between two steps",
        aborting="the trainer has stopped because the loss is NaN or infinite, and will exit",
    ),
    Reason(
        slug="no-target-tokens",
        states=("training", "saving", "failed"),
        meaning="3 steps in a row, or all of them, had no target token (total_weights: 0)",
    ),
    Reason(
        slug="loss-not-finite",
        states=("training", "saving", "failed"),
        meaning="the loss of 3 steps, or of all, was NaN or infinite, and MaxText was configured to continue",
    ),
    *_of("saving", ending="the last step is done; the final checkpoint is being saved"),
    Reason(
        slug="data-ended",
        states=("saving", "failed"),
        meaning="the data ended before the requested steps; MaxText saves and exits 0",
    ),
    *_of(
        "stalled",
        no_output="the processes are running, and the trainer has printed nothing for an hour",
        no_first_step="no first step an hour after the trainer's last line",
        no_step="no step for 10 times the median step (at least 5 minutes; 30 minutes if no median is known)",
        eval_hangs="an evaluation has taken more than 60 minutes",
        save_hangs="a save has taken more than 30 minutes",
        health_failing="a server: /health answered before, and does not answer now",
        start_deadline="a server: it did not answer before the deadline of its Deployment",
    ),
    *_of(
        "evicted",
        preempted="preempted by a workload with higher priority; the run is in the queue again",
        queue_stopped="its queue was stopped and drained",
        pods_ready_timeout="the pods were not ready before Kueue's timeout",
        admission_check="an admission check was withdrawn",
        node_failures="Kueue evicted it from failed nodes",
        time_limit="its maximum execution time was exceeded",
        evicted="Kueue evicted it for a reason that xsft does not know",
    ),
    *_of(
        "succeeded",
        steps_not_known="it completed; the number of requested steps is unknown, because xsft did not create it",
        after_last_step="the checkpoint of the last step is saved; afterwards a process ended with an error",
        last_step_saved="the JobSet is gone; the checkpoint of the last step exists",
    ),
    *_of(
        "failed",
        trainer_failed="a process ended with an error that is not restarted",
        restarts_used_up="it failed more often than restarts.max allows",
    ),
    Reason(
        slug="oom-killed",
        states=("starting", "failed"),
        meaning="a process exceeded the memory limit of its pod; only the pod shows this (see below)",
    ),
    *_of(
        "failed",
        aborted="the trainer stopped because the loss is NaN or infinite",
        ended_short="it ended without an error before the requested steps",
        broken_spec="admitted and using quota, but no Job can be created from the JobSet",
        jobset_failed="the JobSet failed for a reason that xsft does not know",
        not_created="the cluster refused the JobSet",
        killed="a run on this machine: its process was killed",
    ),
    *_of(
        "cancelled",
        deleting="the JobSet is being deleted; pods may still be saving",
        interrupted="a run on this machine: the user stopped it",
    ),
    *_of(
        "unknown",
        unreachable="the cluster does not answer, and no earlier state is known",
        jobset_gone="the JobSet was created and is gone: deleted, or past its TTL",
        not_found="no JobSet, and no record that one was created",
        submitting="`xsft submit` was killed, and no JobSet exists",
        steps_not_read="the run completed; its last step could not be read",
        record_not_read="a run on this machine: its record could not be read",
        record_unknown="a run on this machine: the record does not contain its state, or a newer xsft wrote it",
    ),
)

BY_SLUG: dict[str, Reason] = {reason.slug: reason for reason in REASONS}
