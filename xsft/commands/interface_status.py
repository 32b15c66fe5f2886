"""Documents about what runs are doing."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from xsft.commands.interface_base import Document, Problem
from xsft.states.names import State


class Progress(Document):
    """The source of step, loss and other progress."""

    read: bool
    """Whether the trainer's output was read; if not, step and loss are null and mean nothing."""
    why: str
    """Why it was not read; empty if it was, or if there is nothing to read yet."""
    source: str | None
    """Source: log, metrics, record or checkpoints."""
    said_at: str | None
    """Time of the trainer's last output; UTC, ISO 8601."""
    saved_step: int | None
    """Latest complete checkpoint; null if it was not read or there is none."""
    resumed_from: int | None
    """Step of the checkpoint it resumed from."""
    resumed_order: Literal["reshuffled", "repeated"] | None
    """Order of the rows it reads since then, starting with the first row: another order than before, or the same; null
    if it has not resumed, or it is unknown."""
    no_target_steps: int
    """Longest series of steps without a token to learn from; among the steps that were read, as for the next two."""
    not_finite_steps: int
    """Steps whose loss was NaN or infinite."""
    zero_loss_steps: int
    """Longest series of steps whose loss was printed as 0.000 although they had tokens to learn from."""


class Run(Document):
    """One run, with all its attempts folded into the newest. null: not read, or the run has none."""

    run_name: str
    pipeline: str | None
    """run_name of the training that the run belongs to, its own for a training; null for a run of another tool."""
    stage: Literal["convert", "train", "evaluate", "export", "serve"] | None
    """What the run does of its pipeline; null for a run of another tool."""
    jobset: str | None
    """JobSet of the newest attempt; null for a run on this machine."""
    namespace: str | None
    cluster: str | None
    """Project/zone/cluster, or the kubeconfig context; null for a run on this machine."""
    target: str
    """`local`, or the launcher that puts it on a cluster: `xpk`."""
    mode: str | None
    """Mode: mcjax or pathways."""
    tpu: str | None
    """TPU type of one slice, e.g. `v6e-256`."""
    num_slices: int | None
    state: State
    """docs/states.md explains each; `stalled` and `unknown` are states too, and unreachable is never `failed`."""
    reason: str
    """Stable id of the reason; empty if the state is explanation enough."""
    step: int | None
    """The last finished step."""
    steps: int | None
    """Requested steps."""
    loss: float | None
    """Loss of `step`; null also if it is not a number."""
    step_seconds: float | None
    """Median seconds per step, without compilation."""
    mfu: float | None
    """Share of the chips' bfloat16 peak, 0 … 1; null off a TPU."""
    tokens_per_second: float | None
    """Tokens per second and device, padding included."""
    eta_s: float | None
    """Seconds until the last step, at the present pace; only while it runs."""
    restarts: int | None
    max_restarts: int | None
    created_at: str | None
    """Time of creation; UTC, ISO 8601, as all times."""
    ended_at: str | None
    age_s: float | None
    """Seconds since `created_at`."""
    queue: str | None
    """Kueue LocalQueue."""
    queue_position: int | None
    """Workloads ahead of it in the queue; null if Kueue does not report it."""
    evidence: list[str]
    """Sources of the state: jobset, workload, pods, log, metrics, checkpoints, record."""
    observed_at: str
    """Time when they were read."""
    evidence_age_s: float | None
    """Seconds since `observed_at`; large if a cluster does not answer and its last known state is shown."""
    progress: Progress
    unread: list[str]
    """`what: why` of evidence that could not be read."""
    attempts: int
    """Number of known submissions of this run."""
    output: str | None
    """base_output_directory."""
    tensorboard: str | None
    """Folder of the TensorBoard files; null for work without steps, and if the output is unknown."""
    spec_digest: str | None
    uid: str | None
    """UID of the JobSet."""


class StatusDocument(Document):
    """`xsft status [RUN…] --json`."""

    schema_: Literal["xsft.status/1"] = Field(alias="schema")
    runs: list[Run]
    """Active ones first, then the newest first."""
    problems: list[Problem]
    """Problems of reading: a cluster that does not answer does not hide the others."""


class WaitDocument(Document):
    """`xsft wait RUN --json`; printed also if the goal was not reached."""

    schema_: Literal["xsft.wait/1"] = Field(alias="schema")
    run_name: str
    for_: str = Field(alias="for")
    """Goal: done, running or step=N."""
    outcome: Literal["reached", "ended", "timeout", "lost", "unreachable"]
    """ended: it failed, was cancelled or ended before the goal · lost: it is gone, and how it ended is unknown."""
    waited_s: float
    run: Run | None
    """The run as it was read last; null if nothing answered."""
    problems: list[Problem]
    exit_status: int


class CancelDocument(Document):
    """`xsft cancel RUN --json`."""

    schema_: Literal["xsft.cancel/1"] = Field(alias="schema")
    run_name: str
    action: Literal["cancelled", "nothing"]
    why: str
    """Why there was nothing to cancel; empty if it was cancelled."""
    jobset: str | None
    """JobSet that was deleted; null for a run on this machine."""
    namespace: str | None
    cluster: str | None
    uid: str | None
    ours: bool | None = None
    """False: the JobSet has no label of xsft, so another tool submitted it; null without a JobSet."""
    state: State
    """State that was read before the run was cancelled."""
    step: int | None
    saved_step: int | None
    """Latest complete checkpoint, by the output and the log; null if there is none, or it is unknown."""
    lost_steps: int | None
    """Steps since then; null if unknown, or if nothing was cancelled."""
    freed_chips: int | None
    problems: list[Problem]


class Point(Document):
    step: int
    loss: float


class Resumed(Document):
    """A start of a run that was not its first."""

    step: int
    """Step of the checkpoint it continued from."""
    order: Literal["reshuffled", "repeated"] | None
    """Order of the rows it read since, starting with the first row: another order than before, or the same; null if
    unknown."""


class Curve(Document):
    """The losses of one run."""

    run_name: str
    sources: list[str]
    """Sources that gave losses: record, metrics, log."""
    resumed: list[Resumed]
    """Later starts by step; of a run on a cluster those that its log or its records still hold."""
    points: list[Point]
    """Losses by step; those that are no numbers are left out."""
    unread: list[str]
    """`source: why` of the sources that could not be read."""
    differs: list[str] | None = None
    """`key: value -> value`: the workload of the first run against this one's, without names; null unless the records
    of both could be read."""


class CompareDocument(Document):
    """`xsft compare RUN… --json`."""

    schema_: Literal["xsft.compare/1"] = Field(alias="schema")
    runs: list[Curve]
    """Curves of the runs, in the order given."""
    plot: str | None
    """Path of the picture; null without `-o`."""
    problems: list[Problem]


class Cause(Document):
    """One cause of the run's state."""

    id: str
    """Stable id; docs/why.md explains each."""
    message: str
    fix: str
    """The next step; empty if there is none."""
    where: str
    """The object or process it is about; empty if it is about the run."""
    basis: Literal["direct", "inferred", "state"]
    """`direct`: the cluster or the trainer names it, and only that is certain; `inferred`: concluded from what they do
    not report; `state`: no more than the state itself."""
    evidence: list[str]
    """Lines as the cluster or the trainer wrote them, without secrets."""


class SpentDocument(Document):
    """One figure for each state of a run."""

    queued: float
    """Before its chips were given; they were not held."""
    starting: float
    compiling: float
    training: float
    evaluating: float
    saving: float
    """Without the saving that ran beside the training."""
    lost: float
    """Steps that were trained again after a restart, and the time between two processes."""


class ReceiptDocument(Document):
    """`xsft receipt RUN --json`."""

    schema_: Literal["xsft.receipt/1"] = Field(alias="schema")
    run_name: str
    jobset: str | None
    cluster: str | None
    state: State
    chips: int | None
    """Of all slices; null for a run on this machine."""
    seconds: SpentDocument
    chip_hours: SpentDocument | None
    """null without chips."""
    held_s: float
    """Seconds of all states but `queued`."""
    steps: int
    """Steps whose result was kept."""
    tokens: int | None
    """Tokens of these steps, padding included; null if the log does not tell."""
    target_tokens: int | None
    """Tokens that the loss is taken over."""
    tokens_per_chip_second: float | None
    """`tokens` over the time in which the chips were held; for this machine, per second."""
    mfu: float | None
    """Share of the chips' bfloat16 peak while training, 0 to 1."""
    notes: list[str]
    """What the receipt cannot tell, one sentence each."""
    problems: list[Problem]
    exit_status: int


class WhyDocument(Document):
    """`xsft why RUN --json`."""

    schema_: Literal["xsft.why/1"] = Field(alias="schema")
    run_name: str
    jobset: str | None
    cluster: str | None
    state: State
    reason: str
    evidence: list[str]
    """Sources of the state."""
    observed_at: str
    tensorboard: str | None
    """As in `xsft status --json`."""
    cause: Cause
    """The most likely cause."""
    others: list[Cause]
    """Other possible causes, the likelier first."""
    unread: list[str]
    """`what: why` of evidence that could not be read."""
    problems: list[Problem]
    exit_status: int
    """Exit status: 0, or 8 if nothing certain is known of the run."""
