"""Logs that may explain a run: of the processes that failed first, and of the earlier attempts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from xsft.base.errors import XsftError
from xsft.cluster.cluster import Cluster
from xsft.cluster.evidence import AttemptEnd, Log
from xsft.cluster.logs import ContainerLogRequest, read_log
from xsft.cluster.observation import Container, Observation, Pod, RunObject
from xsft.cluster.pod_fields import prints_steps, selector_of, trainer_container
from xsft.machine.parallel import start
from xsft.runs.failing import suspects
from xsft.runs.failures import diagnose
from xsft.runs.pod_reasons import by_server_clock
from xsft.trainer.progress import LoggedLine as LogLine
from xsft.trainer.progress import progress_of

LOGS = 3
"""Maximum number of logs of failed processes, the likeliest causes first. A run of two slices has 128 logs."""
EARLIER = 2
"""Maximum number of earlier attempts whose end is read."""
TAIL = 400
"""Lines read of each log."""


def failing_logs(cluster: Cluster, seen: Observation, jobset: RunObject) -> tuple[Log, ...]:
    """Return the logs of the processes that failed; if none failed, the log of the process that prints steps."""
    pods = seen.pods or ()
    wanted = suspects(pods)[:LOGS] or [pod for pod in pods if prints_steps(pod, jobset)][:1]
    started = [start(partial(_log_of_pod, cluster, jobset, pod)) for pod in wanted]
    return tuple(log for one in started if (log := one.result()) is not None)


def _log_of_pod(cluster: Cluster, jobset: RunObject, pod: Pod) -> Log | None:
    """Return the log of the failed container; if the container restarted, of the container before the restart.

    The termination message is the end of the log, and remains after the log itself is gone. None if neither exists.
    """
    container = _failed_container(pod)
    again = container is not None and container.state != "terminated"
    wanted = ContainerLogRequest(
        namespace=jobset.namespace,
        pod=pod.name,
        container=container.name if container else trainer_container(pod),
        tail=TAIL,
        previous=again,
    )
    lines = _lines_or_none(cluster, wanted)
    end = container.last if again and container else container
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


def _lines_or_none(cluster: Cluster, wanted: ContainerLogRequest) -> tuple[LogLine, ...]:
    """Return the lines of the log; empty if the log cannot be read."""
    try:
        return read_log(cluster.reads.api, wanted) or ()
    except XsftError:
        return ()


def _failed_container(pod: Pod) -> Container | None:
    """Return the failed container of the pod, the trainer's before any other."""
    ended = [one for one in pod.containers for end in (one, one.last) if end is not None and _is_failure(end)]
    return next((one for one in ended if one.name == trainer_container(pod)), ended[0] if ended else None)


def _is_failure(container: Container) -> bool:
    return container.state == "terminated" and container.exit_code != 0


def attempts_before(jobset: RunObject, attempts: Sequence[Observation]) -> tuple[RunObject, ...]:
    """Return the earlier attempts whose JobSets still exist, the latest last."""
    others = [one.jobset for one in attempts if one.jobset and one.jobset.uid != jobset.uid]
    earlier = [one for one in others if one.created_at <= jobset.created_at]
    return tuple(sorted(earlier, key=lambda one: one.created_at)[-EARLIER:])


def ends_of(cluster: Cluster, earlier: Sequence[RunObject], now: Callable[[], str]) -> tuple[AttemptEnd, ...]:
    return tuple(_attempt_end(cluster, jobset, now) for jobset in earlier)


def _attempt_end(cluster: Cluster, jobset: RunObject, now: Callable[[], str]) -> AttemptEnd:
    pods = cluster.reads.pods(namespace=jobset.namespace, labels=selector_of(jobset))
    found = suspects(pods)[:1]
    log = _log_of_pod(cluster, jobset, found[0]) if found else None
    printers = [pod for pod in pods if prints_steps(pod, jobset)][:1]
    wanted = [
        ContainerLogRequest(namespace=jobset.namespace, pod=p.name, container=trainer_container(p), tail=TAIL)
        for p in printers
    ]
    lines = read_log(cluster.reads.api, wanted[0]) if wanted else None
    step = progress_of(lines, read_at=now()).step if lines else None
    return AttemptEnd(name=jobset.name, signature=log.said.signature if log and log.said else "", step=step)
