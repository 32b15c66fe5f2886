"""One process of a run and its log, whichever pod and container it is in by now."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field

from xsft.effects.cluster import Cluster
from xsft.effects.cluster_http import Stream
from xsft.effects.cluster_logs import LogAsk, open_log, read_log
from xsft.errors import Unreachable, XsftError
from xsft.launchers.observed_pods import COMPLETION_INDEX, JOB_INDEX, JOBSET_NAME, REPLICATED_JOB, trainer_container
from xsft.states.model import JobSet, Pod
from xsft.trainers.progress import Said, said, sortable

MENDS_ITSELF = frozenset({"unreachable", "cluster-error"})
"""Ids of failures after which the cluster is asked again."""

_FRACTION = re.compile(r"\.\d+")


@dataclass(frozen=True, kw_only=True)
class Role:
    """A process by its place in the JobSet; its pod may be replaced."""

    replicated_job: str
    slice_index: int
    host: int

    def selector(self, jobset: str) -> str:
        return (
            f"{JOBSET_NAME}={jobset},{REPLICATED_JOB}={self.replicated_job},"
            f"{JOB_INDEX}={self.slice_index},{COMPLETION_INDEX}={self.host}"
        )


@dataclass(frozen=True, kw_only=True)
class LogLine:
    role: Role
    pod: str
    at: str
    """RFC 3339 with nanoseconds; empty for the kubelet's own words."""
    text: str
    attempt: int = 0
    """restart-attempt of its Job."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    poll_s: float = 2.0
    """Between two looks for a pod that is not there, or an end."""
    longest_wait_s: float = 15.0
    """Before asking a cluster again that does not answer."""
    silence_s: float = 60.0
    """A stream that says nothing for so long is opened anew: its connection may be dead."""


@dataclass(kw_only=True)
class Given:
    """Lines that were given already, as far as a reopened log repeats them: those of the last second."""

    since: str | None = None
    floor: str = ""
    """Where a tail was asked for: the time of its first line. What is older was not asked for."""
    lines: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, line: Said) -> None:
        second = _FRACTION.sub("", line.at)
        if line.at and second != self.since:
            self.since = second
            self.lines.clear()
        self.lines[line.at, line.text] += 1

    def new(self, lines: Iterator[Said]) -> Iterator[Said]:
        """Those of a reopened log that were not given before."""
        left = Counter(self.lines)
        for line in lines:
            if left[line.at, line.text] > 0:
                left[line.at, line.text] -= 1
                continue
            if line.at and sortable(line.at) < sortable(self.floor):
                continue
            self.add(line)
            yield line


class Over:
    """Whether the run has ended; asked at most once per `poll_s`, by whichever process asks."""

    def __init__(self, cluster: Cluster, jobset: JobSet, *, pace: Pace, now: Callable[[], float]) -> None:
        self._cluster, self._jobset, self._pace, self._now = cluster, jobset, pace, now
        self._lock = threading.Lock()
        self._asked: float | None = None
        self._over = False

    def __call__(self) -> bool:
        """Raises Unreachable."""
        with self._lock:
            if not self._over and (self._asked is None or self._now() - self._asked >= self._pace.poll_s):
                there = self._cluster.reads.jobset(name=self._jobset.name, namespace=self._jobset.namespace)
                self._over = there is None or there.uid != self._jobset.uid or there.terminal is not None
                self._asked = self._now()
            return self._over


class Follower:
    """`begin` once, then `lines`; `interrupt` from another thread."""

    def __init__(
        self,
        cluster: Cluster,
        jobset: JobSet,
        role: Role,
        *,
        pace: Pace,
        over: Over,
        stop: threading.Event,
        say: Callable[[str], None],
    ) -> None:
        self._cluster, self._jobset, self._role = cluster, jobset, role
        self._pace, self._over, self._stop, self._say = pace, over, stop, say
        self._given = Given()
        self._pod: Pod | None = None
        self._stream: Stream | None = None
        self._wait_s = 0.0
        self._drained = False
        """All that the pod's container has said is given, and it says no more."""

    def begin(self, *, since: str | None, tail: int | None) -> list[LogLine]:
        """What it has said so far. Raises Unreachable.

        With a tail of 0 the last line is read all the same: it tells where the log is, so that none of it comes later.
        """
        self._given.since = since
        self._pod = newest(self._cluster, self._jobset, self._role)
        if self._pod is None:
            return []
        found = list(self._read(self._pod, tail=None if tail is None else max(tail, 1)))
        self._given.floor = found[0].at if found and tail is not None else ""
        return [] if tail == 0 else found

    def lines(self) -> Iterator[LogLine]:
        """What it says from then on, each line once. Raises Unreachable where asking again will not help."""
        while not self._stop.is_set():
            try:
                if (yield from self._round()):
                    return
                self._stop.wait(self._pace.poll_s)
            except XsftError as failed:
                self._back_off(failed)

    def interrupt(self) -> None:
        if self._stream is not None:
            self._stream.interrupt()

    def _round(self) -> Generator[LogLine, None, bool]:
        """One look at what its pod is now, and its log up to where that breaks or ends; True at the end of it all."""
        over = self._over()  # first: what is said before the end is there once the end is
        pod = newest(self._cluster, self._jobset, self._role)
        if pod is not None:
            yield from self._turned_to(pod)
            if not self._drained and (over or has_ended(pod)):
                yield from self._read(pod)
                self._drained = has_ended(pod)
            elif not self._drained:
                yield from self._streamed(pod)
        return over

    def _turned_to(self, pod: Pod) -> Iterator[LogLine]:
        """The rest of the pod, or of the container in it, that was there before."""
        before = self._pod
        if before is not None and _key(before) != _key(pod):
            yield from self._read(before)
        elif before is not None and _restarts(before) < _restarts(pod):
            yield from self._read(before, previous=True)
        else:
            self._pod = pod
            return
        self._pod, self._given, self._drained = pod, Given(), False

    def _read(self, pod: Pod, *, tail: int | None = None, previous: bool = False) -> Iterator[LogLine]:
        wanted = self._ask(pod, tail=tail, previous=previous)
        read = read_log(self._cluster.reads.api, wanted) or ()
        yield from (self._line(pod, line) for line in self._given.new(iter(read)))

    def _streamed(self, pod: Pod) -> Iterator[LogLine]:
        opened = open_log(self._cluster.reads.api, self._ask(pod), read_timeout_s=self._pace.silence_s)
        if isinstance(opened, Unreachable):
            raise opened
        if opened is None:
            return
        self._stream = opened
        try:
            for line in self._given.new(said(text.decode("utf-8", "replace")) for text in opened.lines()):
                self._wait_s = 0.0
                yield self._line(pod, line)
        except OSError:
            return  # opened anew in the next round, from where it broke
        finally:
            opened.close()

    def _ask(self, pod: Pod, *, tail: int | None = None, previous: bool = False) -> LogAsk:
        return LogAsk(
            namespace=self._jobset.namespace,
            pod=pod.name,
            container=trainer_container(pod),
            since=self._given.since,
            tail=tail,
            previous=previous,
        )

    def _line(self, pod: Pod, line: Said) -> LogLine:
        return LogLine(role=self._role, pod=pod.name, at=line.at, text=line.text, attempt=pod.attempt)

    def _back_off(self, failed: XsftError) -> None:
        """Longer each time; what no time mends is raised."""
        if failed.problem_id not in MENDS_ITSELF:
            raise failed
        self._say(failed.message)
        self._wait_s = min(self._pace.longest_wait_s, max(self._pace.poll_s, 2 * self._wait_s))
        self._stop.wait(self._wait_s)


def newest(cluster: Cluster, jobset: JobSet, role: Role) -> Pod | None:
    """The pod that has the role now; one that is being deleted only where there is no other."""
    pods = cluster.reads.pods(namespace=jobset.namespace, labels=role.selector(jobset.name))
    return max(pods, key=lambda pod: (not pod.deleting, pod.attempt, pod.created_at, pod.name), default=None)


def has_ended(pod: Pod) -> bool:
    return pod.phase in ("Succeeded", "Failed")


def _key(pod: Pod) -> tuple[str, str]:
    return (pod.name, pod.created_at)


def _restarts(pod: Pod) -> int:
    """Of the container that is read, in place."""
    name = trainer_container(pod)
    return sum(container.restarts for container in pod.containers if name in (None, container.name))
