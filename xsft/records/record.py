"""The record of a run: what was submitted, every attempt and its outcome. One type for clusters and this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from xsft.base.lenient import mapping
from xsft.base.names import RowOrder
from xsft.base.problems import Problem
from xsft.base.targets import THIS_MACHINE, TargetProperties
from xsft.records.run_cluster import ClusterAddress as ClusterAddress  # noqa: PLC0414 -- re-exported

SCHEMA = "xsft.record/1"

Outcome = Literal[
    "submitting",
    "not-created",
    "created",
    "running",
    "completed",
    "short",
    "failed",
    "interrupted",
    "cancelled",
    "unknown",
]
"""`submitting`: about to create the object, or the submitter was killed then. `not-created`: the cluster refused it.
`created`: the object exists; the cluster has its state. `short`: the trainer ended without an error before the
requested steps. `running` in the record of a local run without a process: it was killed. `unknown`: nothing certain
is known, or a newer xsft wrote a word that this one does not know.
"""


@dataclass(frozen=True, kw_only=True)
class RecordedImage:
    ref: str
    digest: str | None = None
    """`sha256:…`; None if the reference has only a tag, which may later mean another image."""


@dataclass(frozen=True, kw_only=True)
class Git:
    """The git checkout of the workload's file."""

    commit: str
    """Commit, 40 hex digits."""
    dirty: bool | None = None
    """Whether a tracked file was modified."""


@dataclass(frozen=True, kw_only=True)
class ReadBack:
    """Comparison of the created object with the manifest."""

    outcome: Literal["same", "differs", "not-read"]
    differences: tuple[str, ...] = ()
    """Each difference as `JSON pointer: sent -> held`."""


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """The time and data that an attempt used and trained. None: its lines do not tell."""

    seconds: Mapping[str, float] = field(default_factory=dict)
    """State (`runs.receipt.ReceiptState`) -> seconds, of all its chips together."""
    steps: int = 0
    """Steps whose result was kept."""
    tokens_per_device: float | None = None
    """Tokens of those steps, padding included."""
    target_tokens: int | None = None
    """Tokens that their losses are taken over."""
    tflops_per_device: float | None = None
    """Median model TFLOP/s of a device."""
    notes: tuple[str, ...] = ()
    """Facts that it cannot state, one sentence each."""

    @property
    def held_s(self) -> float:
        """Return the seconds in which the run held its chips."""
        return sum(seconds for state, seconds in self.seconds.items() if state != "queued")


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One submission, or one start of the trainer on this machine."""

    number: int
    """Number of the attempt: 1, 2, …"""
    spec_digest: str = ""
    started_at: str = ""
    """UTC, ISO 8601: just before creation or start."""
    argv: tuple[str, ...] = ()
    """The trainer's command line."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that xsft sets for the trainer; secrets are mounted files, only named here."""
    outcome: Outcome = "running"
    finished_at: str | None = None
    reason: str | None = None
    state_reason: str | None = None
    """The reason that `status` shows beside the state (docs/states.md), if the outcome alone does not give it."""
    problems: tuple[Problem, ...] = ()
    """Warnings that were accepted, and notes."""

    submitter: str = ""
    """16 random hex digits of the process that began it, to tell its own attempt from another's."""
    action: str | None = None
    """created | adopted | attempt | finished, as in `xsft.submit/1`."""
    jobset: str | None = None
    namespace: str | None = None
    cluster: ClusterAddress | None = None
    uid: str | None = None
    """UID of the JobSet; None until known."""
    created_at: str | None = None
    created_by: str | None = None
    """The `submitter` whose create succeeded; another one may have begun the attempt and been killed."""
    read_back: ReadBack | None = None
    xpk_argv: tuple[str, ...] | None = None
    manifest_digest: str | None = None
    """sha256 of the canonical JSON of the manifest, 64 hex digits."""
    resolved: Mapping[str, Any] = field(default_factory=dict)
    """Decisions of planning beyond the spec: chips, why this mode, …"""
    image: RecordedImage | None = None
    git: Git | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of xsft, xpk, maxtext, python."""
    user: str | None = None

    resumed_from: int | None = None
    """Step of the checkpoint it resumed from; on a cluster the last one saved when it was submitted."""
    resumed_order: RowOrder | None = None
    """Order of the rows since it resumed, from the first one; on a cluster at its first start."""

    log: str = ""
    """The trainer's output; local runs only, like the fields below."""
    exit_status: int | None = None
    last_step: int | None = None
    receipt: Receipt | None = None
    """Its receipt, once it has ended; on a cluster once `xsft status RUN --receipt` has read it."""
    private_pids: bool | None = None
    """Whether it ran in its own PID namespace."""

    @property
    def order(self) -> RowOrder | None:
        """Order of the rows since it resumed; None if it did not resume. Records without the key are of runs that
        repeat rows.
        """
        return None if self.resumed_from is None else self.resumed_order or "repeated"


@dataclass(frozen=True, kw_only=True)
class Record(TargetProperties):
    run_name: str
    spec_digest: str = ""
    spec: Mapping[str, Any] = field(default_factory=dict)
    """The canonical JSON that the digest is computed from (`spec.digest.canonical`)."""
    steps: int = 0
    """Steps requested."""
    target: str = THIS_MACHINE
    """`xpk`, `local`, or a target of a newer xsft."""
    mode: str | None = None
    output: str | None = None
    """base_output_directory; the run's folder is `<output>/<run_name>`."""
    attempts: tuple[Attempt, ...] = ()
    losses: Mapping[int, float] = field(default_factory=dict)
    """Local runs: step to loss over all attempts; of a repeated step, the later loss."""
    schema: str = SCHEMA
    """Schema of the document it was read from; a record of another schema is never written."""
    unread: tuple[str, ...] = ()
    """Key paths whose values could not be read; empty for a record that this xsft wrote."""

    @property
    def outcome(self) -> Outcome | None:
        return self.attempts[-1].outcome if self.attempts else None

    @property
    def hub_commits(self) -> Mapping[str, Any]:
        """Return the commits of the hub that the newest attempt with any recorded, by `tokenizer` and `data`."""
        recorded = (mapping(attempt.resolved, "hub_commits") for attempt in reversed(self.attempts))
        return next(filter(None, recorded), {})

    @property
    def last(self) -> Attempt:
        """The latest attempt. Raises IndexError if there is none."""
        return self.attempts[-1]


@dataclass(frozen=True, kw_only=True)
class MeasuredPace:
    """The ratio of the time of a run's steps to their bound."""

    model: str
    tpu: str
    compiled: bool
    """Whether the bound was that of the compiled step."""
    ratio: float
    """Measured time of a step over its bound."""


def measured_pace(record: Record) -> MeasuredPace | None:
    """Return the pace of the last attempt; None without a receipt of steps, and for a run that had no bound."""
    receipt, resolved = record.last.receipt, record.last.resolved
    bound, model = resolved.get("step_time_bound"), record.spec.get("model")
    if receipt is None or not receipt.steps or not isinstance(bound, Mapping) or not isinstance(model, Mapping):
        return None
    return MeasuredPace(
        model=model.get("name", ""),
        tpu=resolved.get("tpu", ""),
        compiled=bound["compiled"],
        ratio=receipt.seconds.get("training", 0.0) / receipt.steps / bound["seconds"],
    )


@dataclass(frozen=True, kw_only=True)
class AttemptFacts:
    """Facts about an attempt, learnt after its start. None: nothing new."""

    outcome: Outcome
    at: str
    """UTC, ISO 8601."""
    submitter: str = ""
    """The `submitter` that wrote them."""
    action: str | None = None
    uid: str | None = None
    reason: str | None = None
    state_reason: str | None = None
    """As `Attempt.state_reason`."""
    manifest_digest: str | None = None
    """Digest of the manifest that this submitter sent."""
    read_back: ReadBack | None = None
    receipt: Receipt | None = None
    problems: tuple[Problem, ...] = ()
    """Problems in addition to the attempt's."""


_RANK: dict[Outcome, int] = {"submitting": 0, "unknown": 1, "not-created": 2, "created": 3, "running": 4}
_LAST_RANK = 5


def with_facts(attempt: Attempt, said: tuple[AttemptFacts, ...]) -> Attempt:
    """Return the attempt with all facts applied, in any order: a successful create wins over a refused one, an end wins
    over both, then the later time wins, then `completed`: only a complete result proves that.
    """
    for facts in sorted(said, key=lambda f: (_RANK.get(f.outcome, _LAST_RANK), f.at, f.outcome == "completed")):
        values = {name: getattr(facts, name) for name in ("action", "uid", "manifest_digest", "read_back", "receipt")}
        learnt: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
        if facts.outcome == "created":
            learnt |= {"created_at": facts.at, "created_by": facts.submitter or None}
        ended = facts.outcome not in {"submitting", "unknown", "created", "running"}
        attempt = replace(
            attempt,
            outcome=facts.outcome,
            reason=facts.reason,
            state_reason=facts.state_reason,
            problems=tuple(dict.fromkeys((*attempt.problems, *facts.problems))),
            finished_at=facts.at if ended else None,
            **learnt,
        )
    return attempt
