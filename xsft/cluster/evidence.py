"""Types of what `why` reads in addition to an observation. Pure.

None: not read. Empty: read, and there is none. Messages are quoted here; a state never depends on them.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field
from msgspec.json import Decoder

from xsft.base.lenient import JsonObject, mapping, rows, text
from xsft.base.problems import Problem
from xsft.cluster.jobset_fields import QUEUE_LABEL
from xsft.cluster.objects import Condition, KubernetesObject, KubernetesStruct, Quota
from xsft.cluster.observation import Observation, RunObject, Status


class InvolvedObject(KubernetesStruct, frozen=True, kw_only=True):
    kind: str = ""
    name: str = ""


class EventSeries(KubernetesStruct, frozen=True, kw_only=True):
    last_observed_time: str | None = None


class Event(KubernetesObject, frozen=True, kw_only=True):
    """An event about an object of the run. source: k8s.io/api core/v1 Event; `series` and `eventTime` replaced `count`
    and `lastTimestamp` in new ones."""

    involved_object: InvolvedObject = InvolvedObject()
    reason: str = ""
    """FailedScheduling, FailedCreate, …"""
    written: str = field(name="message", default="")
    series: EventSeries = EventSeries()
    last_timestamp: str | None = None
    event_time: str | None = None

    @property
    def message(self) -> str:
        """Return the message in one line."""
        return " ".join(self.written.split())

    @property
    def object(self) -> str:
        """Return kind and name: `Pod/run-slice-job-0-0-abcde`."""
        return f"{self.involved_object.kind}/{self.involved_object.name}"

    @property
    def at(self) -> str:
        """Return the last time; UTC, ISO 8601."""
        last = self.series.last_observed_time or self.last_timestamp or self.event_time
        return last or self.metadata.creation_timestamp


EVENT = Decoder(Event)


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


def is_about(event: Event, jobset: RunObject, *, workload: str | None) -> bool:
    """Return whether the event is about the JobSet, its Jobs, its pods or its Workload; names of other runs may share a
    prefix.
    """
    kind, _, name = event.object.partition("/")
    if jobset.serves:
        # the Deployment's ReplicaSet is `<name>-<hash>`, a pod of it `<name>-<hash>-abcde`
        owners = {"Deployment": name, "ReplicaSet": name.rsplit("-", 1)[0], "Pod": name.rsplit("-", 2)[0]}
        return owners.get(kind) == jobset.name
    if kind == "JobSet":
        return name == jobset.name
    if kind == "Workload":
        return name == workload
    jobs = {f"{jobset.name}-{job.name}-{i}" for job in jobset.jobs for i in range(min(job.replicas, 10_000))}
    if kind == "Job":
        return name in jobs
    return kind == "Pod" and name.rsplit("-", 2)[0] in jobs  # Job, completion index, five letters


def named_objects(jobset: JsonObject) -> tuple[tuple[str, str], ...]:
    """Return (kind, name) of each PriorityClass, Secret and LocalQueue that its pods and queue label refer to."""
    names = [("LocalQueue", text(mapping(jobset, "metadata", "labels").get(QUEUE_LABEL)))]
    for job in rows(mapping(jobset, "spec").get("replicatedJobs")):
        pod = mapping(job, "template", "spec", "template", "spec")
        names.append(("PriorityClass", text(pod.get("priorityClassName"))))
        names += (("Secret", secret) for secret in _required_secrets(pod))
    return tuple(dict.fromkeys((kind, name) for kind, name in names if name))


def _required_secrets(pod: JsonObject) -> Iterator[str | None]:
    """Yield the Secrets that must exist; optional ones may be missing."""
    references = [(mapping(volume, "secret"), "secretName") for volume in rows(pod.get("volumes"))]
    references += ((pull, "name") for pull in rows(pod.get("imagePullSecrets")))
    for container in (*rows(pod.get("initContainers")), *rows(pod.get("containers"))):
        for variable in rows(container.get("env")):
            references.append((mapping(variable, "valueFrom", "secretKeyRef"), "name"))
    for reference, key in references:
        if reference.get("optional") is not True:
            yield text(reference.get(key))
