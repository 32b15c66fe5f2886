"""Documents about what runs are doing."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from xsft.base.state_names import State
from xsft.runs.cause_rule import Cause
from xsft.runs.rows import Row
from xsft.verbs.document import Document, ProblemFields


class StatusDocument(Document, frozen=True, kw_only=True):
    """`xsft status [RUN…] --json`."""

    schema_: Literal["xsft.status/1"] = field(name="schema")
    runs: list[Row]
    """Active ones first, then the newest first."""
    problems: list[ProblemFields]
    """Problems of reading, for example a cluster that does not answer."""


class WaitDocument(Document, frozen=True, kw_only=True):
    """`xsft wait RUN --json`; also printed if the goal was not reached."""

    schema_: Literal["xsft.wait/1"] = field(name="schema")
    run_name: str
    for_: str = field(name="for")
    """Goal: done, running or step=N."""
    outcome: Literal["reached", "ended", "timeout", "lost", "unreachable"]
    """ended: it failed, was cancelled or ended before the goal · lost: its JobSet is gone and the result is unknown."""
    waited_s: float
    run: Row | None
    """The last state of the run that was read; null if no source answered."""
    problems: list[ProblemFields]
    exit_status: int


class CancelDocument(Document, frozen=True, kw_only=True):
    """`xsft cancel RUN --json`."""

    schema_: Literal["xsft.cancel/1"] = field(name="schema")
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
    """False if another tool submitted the JobSet (it has no xsft labels); null without a JobSet."""
    state: State
    """State that was read before the run was cancelled."""
    step: int | None
    saved_step: int | None
    """Latest complete checkpoint, by the output and the log; null if there is none, or it is unknown."""
    lost_steps: int | None
    """Steps since then; null if unknown, or if nothing was cancelled."""
    freed_chips: int | None
    problems: list[ProblemFields]


class Point(Document, frozen=True, kw_only=True):
    step: int
    loss: float


class Resumed(Document, frozen=True, kw_only=True):
    """A later start of a run."""

    step: int
    """Step of the checkpoint from which it resumed."""
    order: Literal["reshuffled", "repeated"] | None
    """Order of the rows it read since, starting with the first row: another order than before, or the same; null if
    unknown."""


class Curve(Document, frozen=True, kw_only=True):
    """The losses of one run."""

    run_name: str
    sources: list[str]
    """Sources of the losses: record, metrics, log."""
    resumed: list[Resumed]
    """Later starts by step; for a run on a cluster, those that are still in its log or records."""
    points: list[Point]
    """Losses by step; NaN and infinite values are left out."""
    unread: list[str]
    """Sources that could not be read, as `source: reason`."""
    differs: list[str] | None = None
    """`key: value -> value`: the workload of the first run against this one's, without names; null unless the records
    of both could be read."""


class CompareDocument(Document, frozen=True, kw_only=True):
    """`xsft compare RUN… --json`."""

    schema_: Literal["xsft.compare/1"] = field(name="schema")
    runs: list[Curve]
    """Curves of the runs, in the order given."""
    plot: str | None
    """Path of the picture; null without `-o`."""
    problems: list[ProblemFields]


class SpentDocument(Document, frozen=True, kw_only=True):
    """One value for each state of a run."""

    queued: float
    """Before the run got its chips."""
    starting: float
    compiling: float
    training: float
    evaluating: float
    saving: float
    """Without saving in parallel with the training."""
    lost: float
    """Steps that were trained again after a restart, and the time between two processes."""


class ReceiptDocument(Document, frozen=True, kw_only=True):
    """`xsft receipt RUN --json`."""

    schema_: Literal["xsft.receipt/1"] = field(name="schema")
    run_name: str
    jobset: str | None
    cluster: str | None
    state: State
    chips: int | None
    """Chips of all slices; null for a run on this machine."""
    seconds: SpentDocument
    chip_hours: SpentDocument | None
    """null without chips."""
    held_s: float
    """Seconds of all states but `queued`."""
    steps: int
    """Steps whose result was kept."""
    tokens: int | None
    """Tokens of these steps, with padding; null if the log does not contain them."""
    target_tokens: int | None
    """Tokens that count in the loss."""
    tokens_per_chip_second: float | None
    """`tokens` per second and chip, while the chips were held; on this machine, per second."""
    mfu: float | None
    """Share of the chips' bfloat16 peak while training, 0 to 1."""
    notes: list[str]
    """Data that is missing in the receipt, one sentence each."""
    problems: list[ProblemFields]
    exit_status: int


class WhyDocument(Document, frozen=True, kw_only=True):
    """`xsft why RUN --json`."""

    schema_: Literal["xsft.why/1"] = field(name="schema")
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
    """Other possible causes, the most likely first."""
    unread: list[str]
    """Sources that could not be read, as `source: reason`."""
    problems: list[ProblemFields]
    exit_status: int
    """Exit status: 0, or 8 if nothing certain is known of the run."""
