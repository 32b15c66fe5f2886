"""Documents about what runs are doing."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from xsft.commands.interface_base import Document, Problem

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


class Progress(Document):
    """Where step, loss and the like come from."""

    read: bool
    """Whether the trainer's word was read; where not, step and loss are null and mean nothing."""
    why: str
    """Why it was not read; empty where it was, or where there is nothing to read yet."""
    source: str | None
    """log, metrics, record or checkpoints."""
    said_at: str | None
    """When the trainer last said something; UTC, ISO 8601."""
    saved_step: int | None
    """Latest complete checkpoint; null where it was not read or there is none."""
    resumed_from: int | None
    """Step of the checkpoint it went on from."""
    resumed_order: Literal["reshuffled", "repeated"] | None
    """Of the rows it reads since then, from the first one on: another order than before, or the same; null where it has
    not resumed, or nothing tells.
    """
    no_target_steps: int
    """Steps in a row, at most, that had no token to learn from; of those that were read, as the next two."""
    not_finite_steps: int
    """Steps whose loss was NaN or infinite."""
    zero_loss_steps: int
    """Steps in a row, at most, whose loss was printed as 0.000 although they had tokens to learn from."""


class Run(Document):
    """One run, all its attempts folded into the newest. null: not read, or the run has none."""

    run_name: str
    jobset: str | None
    """Of the newest attempt; null for a run on this machine."""
    namespace: str | None
    cluster: str | None
    """Project/zone/cluster, or the kubeconfig context; null for a run on this machine."""
    target: str
    """`local`, or the launcher that took it to a cluster: `xpk`."""
    mode: str | None
    """mcjax or pathways."""
    tpu: str | None
    """Of one slice, e.g. `v6e-256`."""
    num_slices: int | None
    state: State
    """docs/states.md explains each; `stalled` and `unknown` are states too, and unreachable is never `failed`."""
    reason: str
    """Stable slug; empty where the state says all."""
    step: int | None
    """The last one done."""
    steps: int | None
    """Asked for."""
    loss: float | None
    """Of `step`; null also where it is not a number."""
    step_seconds: float | None
    """Median, compilation left out."""
    mfu: float | None
    """Share of the chips' bfloat16 peak, 0 … 1; null off a TPU."""
    tokens_per_second: float | None
    """Per device, padding included."""
    eta_s: float | None
    """Seconds until the last step, at the present pace; only while it runs."""
    restarts: int | None
    max_restarts: int | None
    created_at: str | None
    """UTC, ISO 8601, as all times."""
    ended_at: str | None
    age_s: float | None
    """Seconds since `created_at`."""
    queue: str | None
    """Kueue LocalQueue."""
    queue_position: int | None
    """Workloads ahead of it; null where Kueue does not tell."""
    evidence: list[str]
    """What the state was told from: jobset, workload, pods, log, metrics, checkpoints, record."""
    observed_at: str
    """When that was read."""
    evidence_age_s: float | None
    """Seconds since `observed_at`; large where a cluster does not answer and its last known state is shown."""
    progress: Progress
    unread: list[str]
    """`what: why` of what would have been evidence and could not be read."""
    attempts: int
    """Submissions of this run that are known."""
    output: str | None
    """base_output_directory."""
    spec_digest: str | None
    uid: str | None
    """Of the JobSet."""


class StatusDocument(Document):
    """`xsft status [RUN…] --json`."""

    schema_: Literal["xsft.status/1"] = Field(alias="schema")
    runs: list[Run]
    """Active ones first, then the newest first."""
    problems: list[Problem]
    """What could not be read: a cluster that does not answer does not hide the others."""


class WaitDocument(Document):
    """`xsft wait RUN --json`; also where the run did not come there."""

    schema_: Literal["xsft.wait/1"] = Field(alias="schema")
    run_name: str
    for_: str = Field(alias="for")
    """done, running or step=N."""
    outcome: Literal["reached", "ended", "timeout", "lost", "unreachable"]
    """ended: it failed, was cancelled or ended short of it · lost: it is gone, and nothing says how it ended."""
    waited_s: float
    run: Run | None
    """As it was seen last; null where nothing answered."""
    problems: list[Problem]
    exit_status: int


class CancelDocument(Document):
    """`xsft cancel RUN --json`."""

    schema_: Literal["xsft.cancel/1"] = Field(alias="schema")
    run_name: str
    action: Literal["cancelled", "nothing"]
    why: str
    """Why there was nothing to cancel; empty where it was cancelled."""
    jobset: str | None
    """That was deleted; null for a run on this machine."""
    namespace: str | None
    cluster: str | None
    uid: str | None
    ours: bool | None = None
    """False: the JobSet bears no label of xsft, so that something else submitted it; null without a JobSet."""
    state: State
    """When it was read, before the cancel."""
    step: int | None
    saved_step: int | None
    """Latest complete checkpoint, by the output and the log; null where there is none, or where that is unknown."""
    lost_steps: int | None
    """Done since then; null where that is unknown, or nothing was cancelled."""
    freed_chips: int | None
    problems: list[Problem]


class Point(Document):
    step: int
    loss: float


class Resumed(Document):
    """A start of a run that was not its first."""

    step: int
    """Of the checkpoint it continued from."""
    order: Literal["reshuffled", "repeated"] | None
    """Of the rows it read since, from the first one on: another than before, or the same; null where nothing tells."""


class Curve(Document):
    """The losses of one run."""

    run_name: str
    sources: list[str]
    """record, metrics, log: those that gave losses."""
    resumed: list[Resumed]
    """By step; of a run on a cluster those that its log or its records still tell of."""
    points: list[Point]
    """By step; losses that are no numbers are left out."""
    unread: list[str]
    """`source: why` of those that could not be read."""
    differs: list[str] | None = None
    """`key: value -> value`: the workload of the first run against this one's, without names; null where no record of
    both could be read.
    """


class CompareDocument(Document):
    """`xsft compare RUN… --json`."""

    schema_: Literal["xsft.compare/1"] = Field(alias="schema")
    runs: list[Curve]
    """In the order given."""
    plot: str | None
    """The picture; null without `-o`."""
    problems: list[Problem]


class Cause(Document):
    """One thing that explains the run's state."""

    id: str
    """Stable; docs/why.md explains each."""
    message: str
    fix: str
    """The next step; empty where there is none."""
    where: str
    """The object or process it is about; empty where it is about the run."""
    basis: Literal["direct", "inferred", "state"]
    """`direct`: the cluster or the trainer names it, and only that is certain; `inferred`: concluded from what they do
    not say; `state`: no more than the state itself.
    """
    evidence: list[str]
    """Lines as the cluster or the trainer wrote them, without secrets."""


class WhyDocument(Document):
    """`xsft why RUN --json`."""

    schema_: Literal["xsft.why/1"] = Field(alias="schema")
    run_name: str
    jobset: str | None
    cluster: str | None
    state: State
    reason: str
    evidence: list[str]
    """What the state was told from."""
    observed_at: str
    cause: Cause
    """The one cause."""
    others: list[Cause]
    """What else was seen, the likelier first."""
    unread: list[str]
    """`what: why` of what would have been evidence and could not be read."""
    problems: list[Problem]
    exit_status: int
    """0, or 8 where nothing certain is known of the run."""
