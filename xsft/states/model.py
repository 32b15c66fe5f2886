"""What was read of a run, as types: the cluster's objects reduced to what a state can depend on. Pure.

`None` and the empty tuple differ everywhere: None was not read, empty was read and there is nothing.
"""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct

from xsft.naming import RowOrder
from xsft.states.moments import before, moment, seconds_between
from xsft.states.podmodel import Condition as Condition  # noqa: PLC0414 -- re-exported
from xsft.states.podmodel import Container as Container  # noqa: PLC0414 -- re-exported
from xsft.states.podmodel import Pod as Pod  # noqa: PLC0414 -- re-exported
from xsft.targets import Targeted

State = Literal[
    "queued",
    "starting",
    "compiling",
    "training",
    "saving",
    "succeeded",
    "failed",
    "cancelled",
    "evicted",
    "stalled",
    "unknown",
]
STATES: tuple[State, ...] = get_args(State)
RUNNING: frozenset[State] = frozenset({"compiling", "training", "saving"})
"""What `running` means in filters and in `wait`."""
ENDED: frozenset[State] = frozenset({"succeeded", "failed", "cancelled"})


class ReplicatedJob(Struct, frozen=True, kw_only=True):
    """A row of the JobSet's replicatedJobs with its counts; the counts are of Jobs, not of pods."""

    name: str
    replicas: int
    """Asked for."""
    ready: int = 0
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    suspended: int = 0

    @property
    def jobs(self) -> int:
        """Jobs that exist, as far as the JobSet's status knows."""
        return max(self.ready, self.active) + self.succeeded + self.failed + self.suspended


class JobSet(Struct, frozen=True, kw_only=True):
    name: str
    namespace: str
    uid: str
    created_at: str
    """UTC, ISO 8601."""
    run_name: str
    """xsft's label; the JobSet's own name where xsft did not make it."""
    ours: bool
    """xsft made it."""
    mode: str | None = None
    """mcjax | pathways; told from the label, else from the names of the replicated jobs."""
    tpu: str | None = None
    """e.g. `v6e-256`, of one slice."""
    num_slices: int | None = None
    steps: int | None = None
    """Asked for; None where nothing says."""
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
    """Whether the controller has written a status at all: conditions, counts or a terminal state. It writes nothing
    while it fails to create the Jobs, so this is what tells a broken spec from a slow start.
    """
    restarts: int = 0
    max_restarts: int | None = None
    data_on_restart: str | None = None
    """reshuffle | repeat; None where nothing says, which xsft did before it knew the one."""
    deleting_at: str | None = None


class KueueWorkload(Struct, frozen=True, kw_only=True):
    name: str
    conditions: tuple[Condition, ...] = ()
    active: bool = True
    """spec.active: a deactivated one never comes back by itself."""
    queue: str | None = None
    cluster_queue: str | None = None
    """Where it holds quota; None where it holds none."""
    priority: int | None = None
    evictions: int = 0
    position: int | None = None
    """In its LocalQueue, 0 is next; None where Kueue does not tell."""


class Status(Struct, frozen=True, kw_only=True):
    """The one word, and the cause as a slug."""

    state: State
    reason: str = ""
    """Stable; `docs/states.md` explains each. Empty where the state says all."""
    evidence: tuple[str, ...] = ()
    """What it was told from: jobset, workload, pods, log, metrics, checkpoints, record."""


class Before(Struct, frozen=True, kw_only=True):
    """How a run was seen when it had been restarted less often."""

    at: str
    """UTC, ISO 8601."""
    state: State
    reason: str = ""
    step: int | None = None
    """The last one done."""
    saved_step: int | None = None
    found: str = ""
    """Why a process of it had failed, where somebody asked then."""


Phase = Literal["starting", "compiling", "training", "evaluating", "saving", "ended"]


class Progress(Struct, frozen=True, kw_only=True):
    """What the trainer has said, from one source. Steps count from 1, resumptions included."""

    source: Literal["log", "metrics", "record", "checkpoints"]
    read_at: str
    """UTC, ISO 8601."""
    phase: Phase | None = None
    step: int | None = None
    """The last one done."""
    loss: float | None = None
    """Of that step."""
    step_seconds: float | None = None
    """Median of the steps read, the first of a process left out (it compiles)."""
    tflops_per_device: float | None = None
    tokens_per_second: float | None = None
    """Per device, padding included."""
    said_at: str | None = None
    """When the trainer last printed a step or a phase."""
    began_at: str | None = None
    """When the process whose log this is began."""
    saved_step: int | None = None
    """Latest complete checkpoint."""
    resumed_from: int | None = None
    resumed_order: RowOrder | None = None
    """Of the rows since then, where the source tells."""
    data_ended: bool = False
    """The trainer said that its data ran out."""
    aborted: str | None = None
    """Why the trainer gave up: the loss is not a number, …"""
    no_target_steps: int = 0
    """Steps in a row, at most, that had no token to learn from; of those that were read, as the next two."""
    not_finite_steps: int = 0
    """Steps whose loss was NaN or infinite."""
    zero_loss_steps: int = 0
    """Steps in a row, at most, whose loss was printed as 0.000 although they had tokens to learn from."""


class Recorded(Struct, frozen=True, kw_only=True):
    """The record that submitting wrote, as far as a state depends on it."""

    outcome: str
    """`records.model.Outcome`."""
    reason: str | None = None
    state_reason: str = ""
    """The slug that goes with the outcome, where the record names one (`reasons`)."""
    jobset: str | None = None
    uid: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    alive: bool = False
    """Local runs: somebody holds the run's lock now."""
    number: int | None = None
    """Of the attempt, from 1."""
    tpu: str | None = None
    """Of one slice, as submitted."""
    num_slices: int | None = None


What = Literal["jobsets", "workloads", "pods", "queue", "log", "metrics", "checkpoints", "record"]


class Unread(Struct, frozen=True, kw_only=True):
    """Something that would have been evidence, and could not be read."""

    what: What
    why: str
    """One line, without secrets."""
    id: str = "unreachable"
    """Problem id of the failure."""


class Observation(Targeted, Struct, frozen=True, kw_only=True):
    """All that was read of one run, at one time."""

    run_name: str
    target: str
    observed_at: str
    """UTC, ISO 8601: when the cluster (or this machine) answered; of a last known state, when that was. By the clock
    of the API server where it tells (its Date header): it is compared with the times of conditions.
    """
    mode: str | None = None
    cluster: str | None = None
    """As the user names it: project/zone/cluster or the context."""
    ahead_s: float = 0.0
    """How far the clock that the cluster's moments are from is ahead of the one of `observed_at`."""
    output: str | None = None
    """base_output_directory of a run on this machine: those of one name in two places are two runs."""
    steps: int | None = None
    """Asked for."""
    jobset: JobSet | None = None
    """None with `jobsets` not in `unread`: there is none."""
    was: JobSet | None = None
    """Where there is none any more: as it was known last. Shown, and no evidence of a state."""
    workload: KueueWorkload | None = None
    pods: tuple[Pod, ...] | None = None
    progress: Progress | None = None
    record: Recorded | None = None
    unread: tuple[Unread, ...] = ()
    last_known: Status | None = None
    """From an earlier call, where the cluster does not answer now; `observed_at` is that call's then."""
    known_end: Status | None = None
    """How an earlier call found that it had failed: the pods that told it may be gone."""
    before: Before | None = None
    """How an earlier call saw it last before its latest restart; None where no call did."""
    found: str = ""
    """Why a process of it has failed, told by pods that a restart takes away."""


def seconds_since(then: str | None, seen: Observation, until: str | None) -> float | None:
    """From a moment by the cluster's clock to one by the clock of `observed_at`; None where either is no time."""
    passed = seconds_between(then, until)
    return None if passed is None else passed + seen.ahead_s


def by_its_clock(seen: Observation, ours: str) -> str:
    """A moment by the clock of `observed_at`, as the cluster's clock had it."""
    return before(ours, -seen.ahead_s) if seen.ahead_s and moment(ours) else ours
