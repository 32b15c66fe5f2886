"""What `why` reads beyond an observation, as types. Pure.

None was not read, empty was read and there is nothing. Messages are quoted here; a state never depends on them.
"""

from __future__ import annotations

from msgspec import Struct

from xsft.problems import Problem
from xsft.states.model import Condition, Observation, Status


class Event(Struct, frozen=True, kw_only=True):
    """A Kubernetes event about an object of the run."""

    reason: str
    """FailedScheduling, FailedCreate, …"""
    message: str
    object: str
    """Kind and name: `Pod/run-slice-job-0-0-abcde`."""
    count: int = 1
    at: str = ""
    """The last time; UTC, ISO 8601."""


class Quota(Struct, frozen=True, kw_only=True):
    """Of the ClusterQueue, one resource of one flavor; plain numbers as Kubernetes writes them."""

    flavor: str
    resource: str
    total: str
    used: str


class Neighbour(Struct, frozen=True, kw_only=True):
    """Another run in the same ClusterQueue."""

    name: str
    """Its run name; the Kueue Workload's where that is not known."""
    priority: int | None = None
    position: int | None = None
    """In the queue, 0 is next; None for one that is admitted."""
    holds: str = ""
    """What it holds, e.g. `512 google.com/tpu`; empty for one that waits."""


class Said(Struct, frozen=True, kw_only=True):
    """What the end of a process's output says of its failure (`xsft.trainers.failures.diagnose`)."""

    kind: str
    """A slug; `rules_trainer` has a rule for each."""
    line: str
    """The decisive line, as printed."""
    text: str
    """The same for a person, in one sentence or two."""
    signature: str
    """The line without what differs from one attempt to the next: equal signatures are one failure."""


class Log(Struct, frozen=True, kw_only=True):
    """The last lines of one process."""

    replicated_job: str
    slice_index: int
    host: int
    pod: str
    lines: tuple[str, ...]
    """The oldest first, the log's timestamps taken off."""
    said: Said | None = None
    said_at: str | None = None
    """When its last line was printed."""
    attempt: int = 0
    """restart-attempt of its Job."""


class End(Struct, frozen=True, kw_only=True):
    """How an earlier attempt of the run ended, as far as anything still tells."""

    name: str
    """Of the JobSet, or `restart 2`."""
    signature: str = ""
    """`Said.signature` of its first failing process; empty where nothing tells."""
    step: int | None = None
    """The last one done."""


class Evidence(Struct, frozen=True, kw_only=True):
    seen: Observation
    """With the pods of all hosts."""
    status: Status
    """`classify(seen)`."""
    events: tuple[Event, ...] | None = None
    node_events: tuple[Event, ...] | None = None
    """Warnings of the nodes that its pods are on; only of a run that was restarted."""
    logs: tuple[Log, ...] | None = None
    """Of the processes that failed, else of those that print steps; `failing.suspects` says whose are worth reading."""
    quotas: tuple[Quota, ...] | None = None
    cluster_queue: Condition | None = None
    """Its Active condition."""
    holders: tuple[Neighbour, ...] | None = None
    """Admitted in the same ClusterQueue."""
    ahead: tuple[Neighbour, ...] | None = None
    """Pending in front of this one, the next first."""
    preemptor: str | None = None
    """The run that took its quota, where its UID could be told."""
    missing: tuple[str, ...] | None = None
    """Objects that the run names and that are not there: `PriorityClass/high`, `Secret/hf-token`, `LocalQueue/main`."""
    dry_run: tuple[Problem, ...] | None = None
    """What the server says to the Jobs the JobSet should have made; empty: it would take them."""
    earlier: tuple[End, ...] = ()
    """The latest last."""
