"""Types of what `why` reads in addition to an observation. Pure.

None: not read. Empty: read, and there is none. Messages are quoted here; a state never depends on them.
"""

from __future__ import annotations

from msgspec import Struct

from xsft.base.problems import Problem
from xsft.cluster.observation import Condition, Observation, Status


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
    """The quota of one resource of one flavor in the ClusterQueue; numbers as Kubernetes writes them."""

    flavor: str
    resource: str
    total: str
    used: str


class Neighbour(Struct, frozen=True, kw_only=True):
    """Another run in the same ClusterQueue."""

    name: str
    """Its run name; if unknown, the Kueue Workload's name."""
    priority: int | None = None
    position: int | None = None
    """Position in the queue, 0 is next; None if admitted."""
    holds: str = ""
    """Its quota, e.g. `512 google.com/tpu`; empty while it waits."""


class Diagnosis(Struct, frozen=True, kw_only=True):
    """The diagnosis from the end of a process's output (`xsft.runs.failures.diagnose`)."""

    kind: str
    """Id of a rule with `log` in rules.toml."""
    line: str
    """The decisive line, as printed."""
    text: str
    """The explanation, in one or two sentences."""
    signature: str
    """The line without parts that differ between attempts: equal signatures are the same failure."""
    lost_peer: bool = False
    """Whether the process died because another one died."""
    earlier: bool = False
    """Whether the line is not at the log's end: the process went on after it."""


class Log(Struct, frozen=True, kw_only=True):
    """The last lines of one process."""

    replicated_job: str
    slice_index: int
    host: int
    pod: str
    lines: tuple[str, ...]
    """The oldest line first, without the log's timestamps."""
    said: Diagnosis | None = None
    said_at: str | None = None
    """Time of its last line."""
    attempt: int = 0
    """The restart-attempt of its Job."""


class AttemptEnd(Struct, frozen=True, kw_only=True):
    """The end of an earlier attempt of the run, as far as it is known."""

    name: str
    """The JobSet's name, or `restart 2`."""
    signature: str = ""
    """`Diagnosis.signature` of its first failed process; empty if unknown."""
    step: int | None = None
    """The last one done."""


class Evidence(Struct, frozen=True, kw_only=True):
    seen: Observation
    """The observation, with the pods of all hosts."""
    status: Status
    """`classify(seen)`."""
    events: tuple[Event, ...] | None = None
    node_events: tuple[Event, ...] | None = None
    """Warnings of the nodes of its pods; only for a restarted run."""
    logs: tuple[Log, ...] | None = None
    """Logs of the failed processes, else of those that print steps; `failing.suspects` selects them."""
    quotas: tuple[Quota, ...] | None = None
    cluster_queue: Condition | None = None
    """Its condition Active."""
    holders: tuple[Neighbour, ...] | None = None
    """Runs admitted in the same ClusterQueue."""
    ahead: tuple[Neighbour, ...] | None = None
    """Runs ahead of this one, the next first."""
    preemptor: str | None = None
    """The run that preempted it, if its UID is known."""
    missing: tuple[str, ...] | None = None
    """Objects that the run names and the cluster does not have: `PriorityClass/high`, `Secret/hf-token`,
    `LocalQueue/main`."""
    dry_run: tuple[Problem, ...] | None = None
    """The API server's answer to a dry run of the missing Jobs; empty if it accepts them."""
    earlier: tuple[AttemptEnd, ...] = ()
    """Earlier attempts, the latest last."""
