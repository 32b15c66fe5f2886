"""Types of the evidence about a run: the cluster's objects, reduced to the fields that a state depends on. Pure.

`None` and the empty tuple differ everywhere: None means not read; empty means read, and nothing was found.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from xsft.base.names import ModeName
from xsft.base.problems import RetryAdvice
from xsft.base.state_names import State
from xsft.base.targets import FIRST, TargetProperties
from xsft.cluster.objects import Condition, PendingWorkload, Workload
from xsft.cluster.pod_fields import Pod, pods_selector
from xsft.records.jobset_paths import RUN_LABEL, WORK_LABEL
from xsft.spec.modes import mode_rules
from xsft.trainer.progress import LoggedLine, Progress


class ReplicatedJob(Struct, frozen=True, kw_only=True):
    """One of the JobSet's replicatedJobs with its counts; the counts are of Jobs, not of pods."""

    name: str = ""
    replicas: int = 1
    """Requested replicas."""
    ready: int = 0
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    suspended: int = 0

    @property
    def jobs(self) -> int:
        """Number of Jobs that exist, by the JobSet's status."""
        return max(self.ready, self.active) + self.succeeded + self.failed + self.suspended


class RunObject(Struct, frozen=True, kw_only=True):
    """The object of a run: a JobSet, or the Deployment of a server."""

    name: str
    namespace: str
    uid: str
    created_at: str
    """UTC, ISO 8601."""
    run_name: str
    """xsft's label; the JobSet's own name if xsft did not create it."""
    ours: bool
    """Created by xsft."""
    target: str = FIRST
    """The launcher that rendered it."""
    mode: ModeName | None = None
    """From the label, else from the names of the replicated jobs."""
    tpu: str | None = None
    """The TPU type of one slice, e.g. `v6e-256`."""
    num_slices: int | None = None
    steps: int | None = None
    """Requested steps; None if unknown."""
    output: str | None = None
    """base_output_directory."""
    spec_digest: str | None = None
    queue: str | None = None
    image: str | None = None
    suspended: bool = False
    terminal: str | None = None
    """status.terminalState: Completed | Failed."""
    conditions: tuple[Condition, ...] = ()
    jobs: tuple[ReplicatedJob, ...] = ()
    has_status: bool = True
    """Whether the controller has written a status: conditions, counts or a terminal state. It writes none while it
    fails to create the Jobs, so this distinguishes a broken spec from a slow start."""
    restarts: int = 0
    max_restarts: int | None = None
    work: str | None = None
    """Its work if it is not a training (`naming.StageWork`)."""
    writes: str | None = None
    """Path of the result of such work."""
    data_on_restart: str | None = None
    """reshuffle | repeat; None if unknown, as in runs that xsft did not create."""
    deleting_at: str | None = None
    kind: Literal["JobSet", "Deployment"] = "JobSet"

    @property
    def serves(self) -> bool:
        """Return whether it is the Deployment of a server."""
        return self.kind == "Deployment"

    @property
    def selector(self) -> str:
        """Return the label selector of all its pods."""
        return f"{WORK_LABEL}=serve,{RUN_LABEL}={self.run_name}" if self.serves else pods_selector([self.name])

    @property
    def trainer_job(self) -> str | None:
        """Return the replicated job whose first pod prints the steps; the first one of a JobSet of unknown origin."""
        if self.mode:
            return mode_rules(self.mode).trainer_job
        return self.jobs[0].name if self.jobs else None

    @property
    def slice_job(self) -> str | None:
        """Return the replicated job of the slices; the trainer's for a JobSet of unknown origin."""
        return mode_rules(self.mode).replicated_job if self.mode else self.trainer_job

    def prints_steps(self, pod: Pod) -> bool:
        """Return whether the pod is host 0 of slice 0, or the Pathways head: every McJAX host prints steps, and this
        one is also the coordinator.
        """
        return (pod.jobset, pod.replicated_job, pod.slice_index, pod.host) == (self.name, self.trainer_job, 0, 0)


class Status(Struct, frozen=True, kw_only=True):
    """A run's state, and its cause as a slug."""

    state: State
    reason: str = ""
    """Stable; `docs/states.md` explains each. Empty if the state needs no reason."""
    evidence: tuple[str, ...] = ()
    """The sources: jobset, workload, pods, log, metrics, checkpoints, record."""


class Before(Struct, frozen=True, kw_only=True):
    """The run as it was read before its latest restart."""

    at: str
    """UTC, ISO 8601."""
    state: State
    reason: str = ""
    step: int | None = None
    """The last one done."""
    saved_step: int | None = None
    found: str = ""
    """Why one of its processes had failed, if `xsft why` ran at that time."""


UNENDED = frozenset({"submitting", "created", "running"})
"""Outcomes of a record of a run that has not ended, as far as the record says."""


class Recorded(Struct, frozen=True, kw_only=True):
    """The parts of the submission's record that a state depends on."""

    outcome: str
    """`records.record.Outcome`; one of `UNENDED` if it names no end."""
    reason: str | None = None
    state_reason: str = ""
    """The outcome's reason, if the record names one (`reasons`)."""
    jobset: str | None = None
    uid: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    work: str | None = None
    """`naming.StageWork`, if it is not a training."""
    alive: bool = False
    """Local runs: a process holds the run's lock now."""
    number: int | None = None
    """Number of the attempt, from 1."""
    tpu: str | None = None
    """The TPU type of one slice, as submitted."""
    num_slices: int | None = None


What = Literal["jobsets", "object", "servers", "workloads", "pods", "queue", "log", "metrics", "checkpoints", "record"]


class Unread(Struct, frozen=True, kw_only=True):
    """A source that could not be read."""

    what: What
    why: str
    """One line, without secrets."""
    fix: str = ""
    """The next step; empty if none is known."""
    id: str = "unreachable"
    """Problem id of the failure."""
    again: RetryAdvice = "helps"
    passed_over: bool = False
    """Whether it was not requested, or had not arrived when its time was up; so a later call may read it."""

    @property
    def clause(self) -> str:
        """Return the reason without its full stop, for the middle of a sentence."""
        return self.why.rstrip(".")


class LogTail(Struct, frozen=True, kw_only=True):
    """The last lines of the process that prints steps."""

    pod: str
    lines: tuple[LoggedLine, ...]


class Observation(TargetProperties, Struct, frozen=True, kw_only=True):
    """Everything read about one run, at one time."""

    run_name: str
    target: str
    observed_at: str
    """UTC, ISO 8601: when the cluster (or this machine) answered; for a last known state, that earlier time. By the API
    server's clock (its Date header), which writes the times of conditions, too."""
    read_at: str = ""
    """The same time by this machine's clock; empty if the clocks agree."""
    mode: str | None = None
    cluster: str | None = None
    """The cluster as the user names it: project/zone/cluster or the context."""
    output: str | None = None
    """base_output_directory of a run on this machine; runs of one name in two folders are two runs."""
    steps: int | None = None
    """Requested steps."""
    jobset: RunObject | None = None
    """None: there is no JobSet, unless `unread` has `jobsets`."""
    was: RunObject | None = None
    """The last known JobSet, if it is gone. It is shown, but is not evidence of a state."""
    workload: Workload | None = None
    position: int | None = None
    """Position of the Workload in its LocalQueue, 0 is next; None if Kueue does not report it."""
    pending: tuple[PendingWorkload, ...] | None = None
    """All that wait in its LocalQueue, itself too; None if it does not wait, or they were not read."""
    pods: tuple[Pod, ...] | None = None
    every_pod: bool = False
    """Whether `pods` has the pods of all hosts."""
    log: LogTail | None = None
    """The lines that `progress` is read from."""
    progress: Progress | None = None
    record: Recorded | None = None
    unread: tuple[Unread, ...] = ()
    last_known: Status | None = None
    """The state from an earlier call, if the cluster does not answer now; `observed_at` is then that call's time."""
    known_end: Status | None = None
    """The failure that an earlier call found: the pods that showed it may be gone."""
    before: Before | None = None
    """The run as an earlier call read it before its latest restart; None if no call did."""
    found: str = ""
    """Why one of its processes failed, from pods that a restart deletes."""

    @property
    def held(self) -> RunObject | None:
        """Return the JobSet, or the last known one if it is gone."""
        return self.jobset or self.was

    @property
    def jobset_name(self) -> str | None:
        """Return the name of the JobSet, even of a deleted one; None if there never was one, or it is unknown."""
        if self.jobset:
            return self.jobset.name
        return self.record.jobset if self.record else None

    @property
    def uid(self) -> str | None:
        """Return the UID of the JobSet, as `jobset_name`."""
        if self.jobset:
            return self.jobset.uid
        return self.record.uid if self.record else None

    @property
    def names(self) -> frozenset[str]:
        """Return the names by which a user may ask for it: the run's, and the JobSet's if that exists."""
        return frozenset({self.run_name, self.jobset.name} if self.jobset else {self.run_name})

    @property
    def queue(self) -> str | None:
        """Return the LocalQueue of its Workload, or that of its label."""
        queue = self.workload.spec.queue_name if self.workload else None
        return queue or (self.jobset.queue if self.jobset else None)

    @property
    def steps_asked(self) -> int | None:
        if self.steps is None and self.jobset:
            return self.jobset.steps
        return self.steps

    @property
    def shared_name(self) -> tuple[str, str, str]:
        """Return the name that all attempts of the run share; different runs may share it too."""
        return (self.target, self.cluster or self.output or "", self.run_name)
