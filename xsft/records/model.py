"""The record of a run: what was submitted, every attempt, what came of it. One type for clusters and this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from xsft.naming import RowOrder
from xsft.problems import Problem
from xsft.records.where import ClusterAddress as ClusterAddress  # noqa: PLC0414 -- re-exported
from xsft.targets import Targeted

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
"""`submitting`: about to create the object; what a submitter that was killed leaves. `not-created`: the cluster refused
it. `created`: the object exists; what became of it is the cluster's to say. `short`: the trainer ended without an error
before the steps asked for. `running` in the record of a local run that nobody holds: it was killed. `unknown`: nothing
certain was learnt, or a newer xsft wrote a word that this one does not know.
"""


@dataclass(frozen=True, kw_only=True)
class RecordedImage:
    ref: str
    digest: str | None = None
    """`sha256:…`; None where the reference names a tag, which may mean another image tomorrow."""


@dataclass(frozen=True, kw_only=True)
class Git:
    """The checkout the workload lies in."""

    commit: str
    """40 hex digits."""
    dirty: bool | None = None
    """Whether a tracked file differed from it."""


@dataclass(frozen=True, kw_only=True)
class ReadBack:
    """What the cluster held after the create, compared with the manifest."""

    outcome: Literal["same", "differs", "not-read"]
    differences: tuple[str, ...] = ()
    """One `JSON pointer: sent -> held` each."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One submission, or one start of the trainer on this machine."""

    number: int
    """1, 2, …"""
    spec_digest: str = ""
    started_at: str = ""
    """UTC, ISO 8601: when it was about to be created or started."""
    argv: tuple[str, ...] = ()
    """Of the trainer."""
    env: Mapping[str, str] = field(default_factory=dict)
    """What xsft puts into the trainer's environment; secrets are mounted files and only named here."""
    outcome: Outcome = "running"
    finished_at: str | None = None
    reason: str | None = None
    state_reason: str | None = None
    """The reason that `status` shows beside the state (docs/states.md), where the outcome alone does not tell it."""
    problems: tuple[Problem, ...] = ()
    """Warnings that were accepted, and notes."""

    submitter: str = ""
    """16 hex digits, chosen by chance by the process that began it: tells its own attempt from another's."""
    action: str | None = None
    """created | adopted | attempt | finished, as `xsft.submit/1` has it."""
    jobset: str | None = None
    namespace: str | None = None
    cluster: ClusterAddress | None = None
    uid: str | None = None
    """Of the JobSet; None until it is known."""
    created_at: str | None = None
    created_by: str | None = None
    """The `submitter` whose create went through; another one may have begun the attempt and died."""
    read_back: ReadBack | None = None
    xpk_argv: tuple[str, ...] | None = None
    manifest_digest: str | None = None
    """sha256 of the canonical JSON of the manifest, 64 hex digits."""
    resolved: Mapping[str, Any] = field(default_factory=dict)
    """What planning decided beyond the spec: chips, why this mode, …"""
    image: RecordedImage | None = None
    git: Git | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    """xsft, xpk, maxtext, python."""
    user: str | None = None

    resumed_from: int | None = None
    """Step of the checkpoint it went on from; on a cluster the last one saved when it was submitted."""
    resumed_order: RowOrder | None = None
    """Of the rows it reads since, from the first one on; on a cluster at its first start."""

    log: str = ""
    """Everything the trainer printed; local runs only, as all below."""
    exit_status: int | None = None
    last_step: int | None = None
    private_pids: bool | None = None
    """Whether it ran in a PID namespace of its own."""

    @property
    def order(self) -> RowOrder | None:
        """Of the rows since it resumed; None where it has not. Records without the key are of runs that repeat."""
        return None if self.resumed_from is None else self.resumed_order or "repeated"


@dataclass(frozen=True, kw_only=True)
class Record(Targeted):
    run_name: str
    spec_digest: str = ""
    spec: Mapping[str, Any] = field(default_factory=dict)
    """The canonical JSON that the digest is taken over (`spec.digest.canonical`)."""
    steps: int = 0
    """Asked for."""
    target: str = "local"
    """xpk | local, or what a newer xsft knows."""
    mode: str | None = None
    output: str | None = None
    """base_output_directory; the run's folder is `<output>/<run_name>`."""
    attempts: tuple[Attempt, ...] = ()
    losses: Mapping[int, float] = field(default_factory=dict)
    """Local runs: step to loss over all attempts; a step that was done twice counts with its later loss."""
    schema: str = SCHEMA
    """Of the document it was read from; another one than ours is never written again."""
    unread: tuple[str, ...] = ()
    """Key paths whose values this xsft could not make sense of; empty for a record that it wrote itself."""

    @property
    def outcome(self) -> Outcome | None:
        return self.attempts[-1].outcome if self.attempts else None

    @property
    def last(self) -> Attempt:
        """The latest attempt. Raises IndexError where none was begun."""
        return self.attempts[-1]


@dataclass(frozen=True, kw_only=True)
class AttemptFacts:
    """What was learnt about an attempt after it had begun. None: nothing new."""

    outcome: Outcome
    at: str
    """UTC, ISO 8601."""
    submitter: str = ""
    """Who says so."""
    action: str | None = None
    uid: str | None = None
    reason: str | None = None
    state_reason: str | None = None
    """As `Attempt.state_reason`."""
    manifest_digest: str | None = None
    """What this submitter sent."""
    read_back: ReadBack | None = None
    problems: tuple[Problem, ...] = ()
    """In addition to the attempt's."""


_RANK: dict[Outcome, int] = {"submitting": 0, "unknown": 1, "not-created": 2, "created": 3, "running": 4}
_LAST_RANK = 5


def with_facts(attempt: Attempt, said: tuple[AttemptFacts, ...]) -> Attempt:
    """The attempt with all facts applied, whatever their order: a create that went through beats one that was refused,
    an end beats both, then the clock decides.
    """
    for facts in sorted(said, key=lambda f: (_RANK.get(f.outcome, _LAST_RANK), f.at)):
        attempt = _applied(attempt, facts)
    return attempt


def _applied(attempt: Attempt, facts: AttemptFacts) -> Attempt:
    kept = {name: getattr(facts, name) for name in ("action", "uid", "manifest_digest", "read_back")}
    learnt: dict[str, Any] = {name: value for name, value in kept.items() if value is not None}
    if facts.outcome == "created":
        learnt |= {"created_at": facts.at, "created_by": facts.submitter or None}
    ended = facts.outcome not in {"submitting", "unknown", "created", "running"}
    return replace(
        attempt,
        outcome=facts.outcome,
        reason=facts.reason,
        state_reason=facts.state_reason,
        problems=tuple(dict.fromkeys((*attempt.problems, *facts.problems))),
        finished_at=facts.at if ended else None,
        **learnt,
    )
