"""Explain runs by the evidence beyond their states: events, its queue and the queue's workloads, and the logs of
failed processes. All parts are requested at the same time. A part that cannot be read is None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.amounts import seconds_between
from xsft.base.errors import Unreachable, XsftError
from xsft.base.lenient import JsonObject
from xsft.base.problems import Problem
from xsft.cluster.cluster import Cluster
from xsft.cluster.errors import last_net
from xsft.cluster.evidence import AttemptEnd, Event, Evidence, Log, Neighbour, is_about, named_objects
from xsft.cluster.objects import ClusterQueue, LocalQueue, Workload
from xsft.cluster.observation import LogTail, Observation, RunObject, Status
from xsft.cluster.pod_fields import Container, Pod
from xsft.cluster.reads import ContainerLogRequest, read_log
from xsft.machine import clock, regular
from xsft.machine.parallel import StartedCall, start
from xsft.runs.cause_rule import Explanation
from xsft.runs.causes import explain_state, found_of, needs_clue
from xsft.runs.classify import classify
from xsft.runs.failures import diagnose
from xsft.runs.lastknown import attempt_gone, recall
from xsft.runs.lookup import FoldedRun, attempt_of, no_attempt, one_run, silent
from xsft.runs.pod_reasons import by_server_clock, suspects
from xsft.runs.read_all import RunAccess, Runs
from xsft.runs.read_progress import unread_of
from xsft.runs.rows import Row, row_of
from xsft.trainer.lines import bare_text
from xsft.trainer.progress import LoggedLine as LogLine

T = TypeVar("T")

DEADLINE_S = 15.0

_UID = re.compile(r"\bUID: ([0-9a-f-]{36})\b")


def read_evidence(
    cluster: Cluster,
    *,
    seen: Observation,
    status: Status,
    attempts: Sequence[Observation] = (),
    deadline_s: float = DEADLINE_S,
) -> Evidence:
    """Return the evidence on one run. `seen` must have a JobSet. `attempts`: all known attempts of the run, including
    this one. Does not raise if a part cannot be read.
    """
    jobset = seen.jobset
    if jobset is None:
        return Evidence(seen=seen, status=status)
    pods = start(partial(_pods_of, cluster, jobset, observation=seen))
    local_queue = start(partial(_local_queue, cluster, seen.queue, namespace=jobset.namespace))
    queries = _EvidenceQueries(
        cluster=cluster, jobset=jobset, workload=seen.workload, status=status, local_queue=local_queue
    )
    manifest = start(queries.manifest)
    events, node_events, cluster_queue = start(queries.events), start(queries.node_events), start(queries.cluster_queue)
    holdings = start(queries.holdings)
    missing = start(lambda: queries.missing(manifest.result()))
    dry_run = start(lambda: queries.dry_run(manifest.result()))
    earlier = start(lambda: tuple(_attempt_end(cluster, before) for before in attempts_before(seen, attempts)))
    seen = _with_pods(seen, pods, deadline_s)
    logs = start(partial(failing_logs, cluster, seen, jobset))
    until = clock.monotonic() + deadline_s
    queue, holding = _result_by(cluster_queue, until), _result_by(holdings, until)
    return Evidence(
        seen=seen,
        # computed again: the pods of all hosts can show more than those that `status` reads
        status=status if seen.pods is None else classify(seen),
        events=_result_by(events, until),
        node_events=_of_its_nodes(_result_by(node_events, until), seen),
        logs=_result_by(logs, until),
        quotas=None if queue is None else queue.quotas,
        cluster_queue=None if queue is None else next((c for c in queue.status.conditions if c.type == "Active"), None),
        holders=None if holding is None else queries.holders(holding, queue),
        ahead=_runs_ahead(seen),
        preemptor=queries.preemptor(holding or ()),
        missing=_result_by(missing, until),
        dry_run=_result_by(dry_run, until),
        earlier=_result_by(earlier, until) or (),
    )


def _result_by(started: StartedCall[T], until: float) -> T | None:
    try:
        with last_net(""):
            return started.result(until - clock.monotonic())
    except XsftError:
        return None


def _with_pods(observation: Observation, pods: StartedCall[tuple[Pod, ...]], timeout_s: float) -> Observation:
    try:
        with last_net(observation.cluster or ""):
            return replace(observation, pods=pods.result(timeout_s))
    except XsftError as failed:
        return replace(observation, unread=(*observation.unread, unread_of("pods", failed)))


def _local_queue(cluster: Cluster, name: str | None, *, namespace: str) -> LocalQueue | None:
    return cluster.local_queue(name=name, namespace=namespace) if name else None


def _pods_of(cluster: Cluster, jobset: RunObject, *, observation: Observation) -> tuple[Pod, ...]:
    if observation.every_pod:
        return observation.pods or ()
    return cluster.reads.pods(namespace=jobset.namespace, labels=jobset.selector).objects


def _of_its_nodes(events: tuple[Event, ...] | None, observation: Observation) -> tuple[Event, ...] | None:
    """Return the events of the nodes that the run's pods are on. New pods are usually placed on the same nodes as the
    pods they replace.
    """
    nodes = {f"Node/{pod.spec.node_name}" for pod in observation.pods or () if pod.spec.node_name}
    return None if events is None else tuple(event for event in events if event.object in nodes)


def _runs_ahead(observation: Observation) -> tuple[Neighbour, ...] | None:
    """Return the runs before this one in its queue, the next one first; None if it does not wait or Kueue did not
    tell.
    """
    if observation.pending is None:
        return None
    before = [
        workload for workload in observation.pending if workload.position_in_local_queue < (observation.position or 0)
    ]
    return tuple(
        Neighbour(
            name=workload.metadata.jobset_owner.name or workload.name,
            priority=workload.priority,
            position=workload.position_in_local_queue,
        )
        for workload in sorted(before, key=lambda workload: workload.position_in_local_queue)
    )


class _EvidenceQueries(Struct, frozen=True, kw_only=True):
    """The queries about one run. Each raises XsftError, or returns None if it does not apply."""

    cluster: Cluster
    jobset: RunObject
    workload: Workload | None
    status: Status
    local_queue: StartedCall[LocalQueue | None]

    def events(self) -> tuple[Event, ...]:
        """Return the namespace's warnings about the run, and all events of the JobSet itself."""
        reads, namespace = self.cluster.reads, self.jobset.namespace
        about_jobset = reads.events(namespace=namespace, fields=f"involvedObject.uid={self.jobset.uid}")
        warnings = reads.events(namespace=namespace, fields="type=Warning")
        name = self.workload.name if self.workload else None
        about = (one for one in warnings if is_about(one, self.jobset, workload=name))
        return tuple({event.name: event for event in (*about_jobset, *about)}.values())

    def node_events(self) -> tuple[Event, ...] | None:
        """Return the warnings of all nodes since the JobSet was created. Node events are in the namespace `default`,
        whatever the run's namespace.
        """
        if not self.jobset.restarts:
            return None
        warnings = self.cluster.reads.events(namespace="default", fields="involvedObject.kind=Node,type=Warning")
        return tuple(event for event in warnings if (seconds_between(self.jobset.created_at, event.at) or 0.0) >= 0)

    def cluster_queue(self) -> ClusterQueue | None:
        """Return the ClusterQueue that the run's LocalQueue points to, or in which the run holds quota."""
        name = self.workload.cluster_queue if self.workload else None
        if name is None and (local_queue := self.local_queue.result()):
            name = local_queue.spec.cluster_queue
        return self.cluster.cluster_queue(name) if name else None

    def holdings(self) -> tuple[Workload, ...] | None:
        """Return the quota holdings of the whole cluster if they may be read, since a ClusterQueue serves several
        namespaces; else those of the run's namespace.
        """
        if self.workload is None or not self.workload.waits:
            return None
        try:
            listed = self.cluster.reads.workloads(namespace=None)
        except XsftError:
            listed = self.cluster.reads.workloads(namespace=self.jobset.namespace)
        return tuple(workload for workload in listed.objects if workload.cluster_queue is not None)

    def holders(self, holding: Sequence[Workload], queue: ClusterQueue | None) -> tuple[Neighbour, ...]:
        """Return the workloads that hold accelerators in the queue. Those that hold none do not block the run."""
        name = queue.name if queue else None
        holders = [workload for workload in holding if name in (None, workload.cluster_queue) and workload.holds]
        holders.sort(key=lambda workload: (-(workload.spec.priority or 0), workload.owner.name))
        return tuple(
            Neighbour(name=workload.owner.name or workload.uid, priority=workload.spec.priority, holds=workload.holds)
            for workload in holders
        )

    def preemptor(self, holding: Sequence[Workload]) -> str | None:
        """Return the JobSet that preempted the run, or None. Kueue names the preemptor's Workload only by its UID in a
        message.
        """
        messages = (c.message for c in (self.workload.conditions if self.workload else ()) if c.type == "Preempted")
        uids = {uid for message in messages for uid in _UID.findall(message)}
        return next((workload.owner.name for workload in holding if uids & {workload.uid, workload.owner.uid}), None)

    def manifest(self) -> JsonObject | None:
        """Return the whole JobSet, which names the objects that it needs and can be tried again."""
        # a run that is up or over lacks none of them: only these states are explained by one
        if not (needs_clue("missing", self.status) or needs_clue("refused", self.status)):
            return None
        return self.cluster.get_jobset(name=self.jobset.name, namespace=self.jobset.namespace)

    def missing(self, manifest: JsonObject | None) -> tuple[str, ...] | None:
        """Return the objects that the run references and that the cluster reports as not found."""
        if manifest is None or not needs_clue("missing", self.status):
            return None
        return tuple(f"{kind}/{name}" for kind, name in named_objects(manifest) if not self._is_there(kind, name))

    def dry_run(self, manifest: JsonObject | None) -> tuple[Problem, ...] | None:
        if manifest is None or not needs_clue("refused", self.status):
            return None
        return self.cluster.dry_run_jobs(manifest)

    def _is_there(self, kind: str, name: str) -> bool:
        namespace = self.jobset.namespace
        try:
            match kind:
                case "LocalQueue":
                    return self.local_queue.result() is not None
                case "PriorityClass":
                    return self.cluster.priority_class(name) is not None
                case _:
                    return self.cluster.secret_exists(name=name, namespace=namespace)
        except XsftError:
            return True  # it may exist


LOGS = 3
"""Maximum number of logs of failed processes, the likeliest causes first. A run of two slices has 128 logs."""
EARLIER = 2
"""Maximum number of earlier attempts whose end is read."""
TAIL = 400
"""Lines read of each log."""


def failing_logs(cluster: Cluster, observation: Observation, jobset: RunObject) -> tuple[Log, ...]:
    """Return the logs of the processes that failed; if none failed, the log of the process that prints steps."""
    pods = observation.pods or ()
    pods_to_read = suspects(pods)[:LOGS] or list(filter(jobset.prints_steps, pods))[:1]
    calls = [start(partial(_log_of_pod, cluster, jobset, pod, known=observation.log)) for pod in pods_to_read]
    return tuple(log for call in calls if (log := call.result()) is not None)


def _log_of_pod(cluster: Cluster, jobset: RunObject, pod: Pod, *, known: LogTail | None = None) -> Log | None:
    """Return the log of the failed container; if the container restarted, of the container before the restart. `known`:
    the log of the trainer's container, if it was read.

    The termination message is the end of the log, and remains after the log itself is gone. None if neither exists.
    """
    container = _failed_container(pod)
    again = container is not None and not container.state.terminated
    request = ContainerLogRequest(
        namespace=jobset.namespace,
        pod=pod.name,
        container=container.name if container else pod.trainer_container,
        tail=TAIL,
        previous=again,
    )
    if known is not None and known.pod == pod.name and request.container == pod.trainer_container and not again:
        lines = known.lines[-TAIL:]
    else:
        lines = _lines_or_none(cluster, request)
    end = container and (container.state.terminated or container.last_state.terminated)
    last = tuple(end.message.splitlines()) if end else ()
    texts = tuple(line.text for line in lines) or last
    if not texts:
        return None
    return Log(
        replicated_job=pod.replicated_job,
        slice_index=pod.slice_index,
        host=pod.host,
        pod=pod.name,
        lines=texts,
        said=diagnose(texts) or diagnose(last),
        said_at=by_server_clock(next((line.at for line in reversed(lines) if line.at), None), pod),
        attempt=pod.attempt,
    )


def _lines_or_none(cluster: Cluster, request: ContainerLogRequest) -> tuple[LogLine, ...]:
    """Return the lines of the log; empty if the log cannot be read."""
    try:
        return read_log(cluster.reads.api, request) or ()
    except XsftError:
        return ()


def _failed_container(pod: Pod) -> Container | None:
    """Return the failed container of the pod, the trainer's before any other."""
    failed = [container for container in pod.containers if container.failures]
    return min(failed, key=lambda container: container.name != pod.trainer_container, default=None)


def attempts_before(observation: Observation, attempts: Sequence[Observation]) -> tuple[Observation, ...]:
    """Return the earlier attempts whose JobSets still exist, the latest last."""
    others = [other for other in attempts if other.jobset and other.uid != observation.uid]
    earlier = [other for other in others if _creation_time(other) <= _creation_time(observation)]
    return tuple(sorted(earlier, key=_creation_time)[-EARLIER:])


def _creation_time(observation: Observation) -> str:
    return observation.jobset.created_at if observation.jobset else ""


def _attempt_end(cluster: Cluster, observation: Observation) -> AttemptEnd:
    jobset = observation.jobset
    if jobset is None:
        return AttemptEnd(name=observation.run_name)
    failed = suspects(_pods_of(cluster, jobset, observation=observation))[:1]
    log = _log_of_pod(cluster, jobset, failed[0], known=observation.log) if failed else None
    return AttemptEnd(
        name=jobset.name,
        signature=log.said.signature if log and log.said else "",
        step=observation.progress.step if observation.progress else None,
    )


LOCAL_TAIL = 2000
"""Lines read from the end of a log; a traceback through JAX has several hundred."""


def evidence_of(runs: Runs, hit: FoldedRun) -> Evidence:
    """Return a run's evidence; raises nothing for what cannot be read."""
    if hit.seen.on_this_machine:
        log = _local_log(runs, hit)
        return Evidence(seen=hit.seen, status=hit.status, logs=(log,) if log else None)
    if hit.seen.jobset is None:
        return Evidence(seen=hit.seen, status=hit.status)
    cluster = runs.cluster(hit.seen.cluster or "")
    return read_evidence(cluster, seen=hit.seen, status=hit.status, attempts=hit.attempts)


def forgotten_attempt(runs: Runs, hit: FoldedRun, number: int) -> Observation | None:
    """Return what an attempt's record says; None if there is no record, or none can be read."""
    try:
        records = runs.records(hit.seen)
    except XsftError:
        return None
    record = next((other for other in records if other.last.number == number), None)
    if record is None:
        return None
    cluster = hit.seen.cluster or ""
    recall_states = partial(recall, runs.store.state, cluster=cluster)
    observation = attempt_gone(
        record, cluster=cluster, known=lambda where: recall_states(namespace=where), now=runs.store.now()
    )
    return replace(observation, target=hit.seen.target, cluster=hit.seen.cluster, output=hit.seen.output)


def _local_log(runs: Runs, hit: FoldedRun) -> Log | None:
    """Return the log of a local run; None if no record names it, or it is gone."""
    progress = hit.seen.progress
    try:
        number = hit.seen.record.number if hit.seen.record else None
        its = [record for record in runs.records(hit.seen) if record.attempts and number in (None, record.last.number)]
        path = its[-1].last.log if its else ""
        lines = tuple(regular.read_log(Path(path), tail=LOCAL_TAIL)) if path else ()
    except XsftError:
        return None
    if not lines:
        return None
    said_at = progress.said_at if progress else None
    return Log(replicated_job="", slice_index=0, host=0, pod="", lines=lines, said=diagnose(lines), said_at=said_at)


ReadEvidence = Callable[[FoldedRun], Evidence]
"""Return all evidence that may explain the run. What cannot be read is None in it; raises nothing for that."""
ReadAttempt = Callable[[FoldedRun, int], Observation | None]
"""Return an attempt of which only the record is left; None if there is none, or it cannot be read."""


class RunExplanation(Struct, frozen=True, kw_only=True):
    row: Row
    evidence: Evidence
    explanation: Explanation


def explain_run(
    name: str, *, runs: RunAccess, evidence: ReadEvidence, recorded: ReadAttempt, attempt: int | None = None
) -> RunExplanation:
    """Return the explanation. Raises UsageError for a name that no run has or an attempt that never existed,
    Unreachable if the run's cluster does not answer."""
    hit = one_run(name, runs.look())
    observation = _observation_of(hit, name=name, attempt=attempt, recorded=recorded)
    if observation is not hit.seen:
        now = runs.now()
        status = classify(observation)
        hit = replace(
            hit, seen=observation, status=status, row=row_of(observation, status, now=now, attempts=hit.row.attempts)
        )
    if mute := silent(hit.seen):
        row = hit.row
        last_state = f" Last known state, at {row.observed_at}: {row.state}{f' ({row.reason})' if row.reason else ''}."
        raise Unreachable(
            f"The cluster of {row.run_name} does not answer: {mute.clause}.{last_state if hit.seen.last_known else ''}",
            fix="The state of the run is unknown. Try again later.",
        )
    all_evidence = evidence(hit)
    explanation = explain_state(all_evidence)
    # what the pods show and `status` does not read stays known after they are gone
    failure = "" if hit.row.ended else bare_text(found_of(all_evidence, explanation.cause))
    status = all_evidence.status
    if failure or (status != hit.status and status.state == "failed"):
        runs.keep([(replace(all_evidence.seen, found=failure), status)])
    return RunExplanation(row=hit.row, evidence=all_evidence, explanation=explanation)


def _observation_of(hit: FoldedRun, *, name: str, attempt: int | None, recorded: ReadAttempt) -> Observation:
    """Return the observation of the requested attempt, the newest by default."""
    observation = attempt_of(hit, name=name, attempt=attempt)
    if attempt is not None and (observation is None or (observation.jobset is None and observation is not hit.seen)):
        observation = recorded(hit, attempt) or observation
    if observation is None:
        fix = "xsft status shows the run's state; Cloud Logging may have its log."
        raise no_attempt(hit, attempt or 0, gone="and no record of it could be read", fix=fix)
    return observation
