"""One process of a run and its log, whichever pod and container it is in by now."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator

from msgspec import Struct, field

from xsft.base.errors import Unreachable, XsftError
from xsft.cluster.answers import LostAnswer
from xsft.cluster.cluster import Cluster
from xsft.cluster.http import Stream
from xsft.cluster.observation import RunObject
from xsft.cluster.pod_fields import Pod
from xsft.cluster.reads import ContainerLogRequest, open_log
from xsft.machine import clock
from xsft.machine.deadline import NEVER, Retries, doubling_pauses
from xsft.runs.log_roles import ProcessRole
from xsft.trainer.progress import LoggedLine, parse_logged_line, sortable

AT_A_RESTART, AT_THE_END = 2, 5
"""Maximum number of reads of a process's last lines, with growing waits between them; its node may be gone for good."""
_FRACTION = re.compile(r"\.\d+")


class LogLine(Struct, frozen=True, kw_only=True):
    role: ProcessRole
    pod: str
    at: str
    """RFC 3339 with nanoseconds; empty for a line written by the kubelet itself."""
    text: str
    attempt: int = 0
    """The restart-attempt of its Job."""


class Mark(Struct, frozen=True, kw_only=True):
    """A mark between two lines: what happened to the process that prints them."""

    text: str


class Pace(Struct, frozen=True, kw_only=True):
    poll_s: float = 2.0
    """Interval between checks for a missing pod or for the end of the run."""
    longest_wait_s: float = 15.0
    """Longest wait before a retry if a cluster does not answer."""
    silence_s: float = 60.0
    """A stream without a line for this long is reopened: its connection may be dead."""
    first_s: float = 8.0
    """The same for a stream without a first line: a kubelet sends not even headers before that line."""
    look_s: float = 4.0
    """Interval between checks whether a silent stream still belongs to the current process. The stream of a node that
    is gone is never closed by the server.
    """

    def retries(self, stop: threading.Event) -> Retries:
        """Return tries without end, while a cluster does not answer."""
        return Retries(doubling_pauses(self.poll_s, longest_s=self.longest_wait_s), sleep=stop.wait)


class YieldedLines(Struct, kw_only=True):
    """The lines already yielded that a reopened log can repeat: those of the last second."""

    since: str | None = None
    floor: str = ""
    """Time of the first line of the requested tail. Older lines were not requested."""
    lines: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, line: LoggedLine) -> None:
        second = _FRACTION.sub("", line.at)
        if line.at and second != self.since:
            self.since = second
            self.lines.clear()
        self.lines[line.at, line.text] += 1

    def new(self, lines: Iterator[LoggedLine]) -> Iterator[LoggedLine]:
        """Yield the lines of a reopened log that were not yielded before."""
        repeated = Counter(self.lines)
        for line in lines:
            if repeated[line.at, line.text] > 0:
                repeated[line.at, line.text] -= 1
                continue
            if line.at and sortable(line.at) < sortable(self.floor):
                continue
            self.add(line)
            yield line


class Over:
    """A function that returns whether the run has ended. It queries the cluster at most once per `poll_s`, for all
    processes together.
    """

    def __init__(self, cluster: Cluster, jobset: RunObject, *, pace: Pace, now: Callable[[], float]) -> None:
        self._cluster, self._jobset, self._pace, self._now = cluster, jobset, pace, now
        self._lock = threading.Lock()
        self._asked: float | None = None
        self._over = False

    def __call__(self) -> bool:
        """Return whether the run has ended. Raises Unreachable."""
        with self._lock:
            if not self._over and (self._asked is None or self._now() - self._asked >= self._pace.poll_s):
                run = self._cluster.reads.again(self._jobset)
                self._over = run is None or run.uid != self._jobset.uid or run.terminal is not None
                self._asked = self._now()
            return self._over


class LogFollower:
    """A follower of one process's log. Call `begin` once, then iterate `lines`; call `interrupt` from another
    thread.
    """

    def __init__(
        self,
        cluster: Cluster,
        jobset: RunObject,
        role: ProcessRole,
        *,
        pace: Pace,
        over: Over,
        stop: threading.Event,
        say: Callable[[str], None],
    ) -> None:
        self._cluster, self._jobset, self._role = cluster, jobset, role
        self._pace, self._over, self._stop, self._say = pace, over, stop, say
        self._yielded = YieldedLines()
        self._pod: Pod | None = None
        self._stream: Stream | None = None
        self._heard = 0.0
        """Time of the last line, by the monotonic clock."""
        self._failures = 0
        """Consecutive failures to read a process's last lines."""
        self._drained = False
        """All lines of the pod's container are yielded, and no more can follow."""

    def begin(self, *, since: str | None, tail: int | None) -> Iterator[LogLine]:
        """Yield the lines so far. Raises Unreachable.

        With a tail of 0 the last line is read too, but not yielded: it marks the position in the log, so that no
        earlier line is yielded later.
        """
        self._yielded, floor = YieldedLines(), ""
        self._yielded.since = since
        self._pod = newest_pod(self._cluster, self._jobset, self._role)
        for line in self._read(self._pod, tail=None if tail is None else max(tail, 1)) if self._pod else ():
            floor = floor or line.at
            if tail != 0:
                yield line
        self._yielded.floor = floor if tail is not None else ""

    def lines(self) -> Iterator[LogLine | Mark]:
        """Yield all later lines, each once. Raises Unreachable if a retry cannot help."""
        retries = self._pace.retries(self._stop)
        while not self._stop.is_set():
            try:
                if (yield from self._follow_pod()):
                    return
                retries = self._pace.retries(self._stop)
                self._stop.wait(self._pace.poll_s)
            except XsftError as failed:
                if failed.again != "helps":
                    raise
                self._say(failed.message)
                retries.again()

    def interrupt(self) -> None:
        stream = self._stream  # the reading thread may clear it
        if stream is not None:
            stream.interrupt()

    def look(self) -> None:
        """End a silent stream if its process was replaced, has ended or is gone. Call this from another thread than the
        reader's.
        """
        stream, pod = self._stream, self._pod
        if stream is None or pod is None or clock.monotonic() - self._heard < self._pace.look_s:
            return
        try:
            current = newest_pod(self._cluster, self._jobset, self._role)
        except XsftError:
            return  # the stream itself may still work
        if (
            current is None
            or current.ended
            or (_pod_key(current), _container_restarts(current)) != (_pod_key(pod), _container_restarts(pod))
        ):
            stream.interrupt()

    def _follow_pod(self) -> Generator[LogLine | Mark, None, bool]:
        """Read the current pod and yield its log up to where the stream breaks or ends. Returns whether the run is
        over.
        """
        over = self._over()  # read first: lines printed before the end can then be read
        pod = newest_pod(self._cluster, self._jobset, self._role)
        if pod is not None:
            yield from self._switch_to(pod)
            if not self._drained and (over or pod.ended):
                yield from self._last_words(pod, tries=AT_THE_END)
                self._drained = pod.ended
            elif not self._drained:
                yield from self._yield_stream(pod)
        return over

    def _switch_to(self, pod: Pod) -> Iterator[LogLine | Mark]:
        """Yield the rest of the replaced pod's log, or of the restarted container's, and a Mark; then switch to the new
        one.
        """
        before = self._pod
        if before is None or (
            _pod_key(before) == _pod_key(pod) and _container_restarts(before) >= _container_restarts(pod)
        ):
            self._pod = pod
            return
        yield from self._last_words(before, tries=AT_A_RESTART, previous=_pod_key(before) == _pod_key(pod))
        yield Mark(text=_restart_text(before, pod, jobset=self._jobset))
        self._pod, self._yielded, self._drained = pod, YieldedLines(), False

    def _last_words(self, pod: Pod, *, tries: int, previous: bool = False) -> Iterator[LogLine]:
        """Yield the remaining lines. Raises Unreachable for the first `tries - 1` failures in a row; after that the
        lines are given up.
        """
        try:
            yield from self._read(pod, previous=previous)
        except XsftError as failed:
            self._failures += 1
            if failed.again != "helps" or self._failures < tries:
                raise
            self._say(f"The last lines of {pod.name} could not be read: {failed.message}")
        self._failures = 0

    def _read(self, pod: Pod, *, tail: int | None = None, previous: bool = False) -> Iterator[LogLine]:
        """Yield all lines so far, while they are read, however many there are."""
        retries = self._cluster.reads.api.patience.retries(NEVER)
        while True:
            answer = self._open_stream(pod, tail=tail, previous=previous, follow=False)
            if isinstance(answer, Stream):
                answer = yield from self._yield_whole(pod, answer)
            if answer is None:
                return
            if not retries.again():
                raise answer.failed() if isinstance(answer, LostAnswer) else answer

    def _yield_whole(self, pod: Pod, opened: Stream) -> Generator[LogLine, None, Unreachable | None]:
        """Yield the lines of the stream. Returns why it broke off, or None."""
        try:
            yield from self._yield_new(pod, opened)
        except OSError as broken:
            return Unreachable(f"The log of {pod.name} was interrupted: {broken}", fix="Try again.")
        finally:
            opened.close()
        return None

    def _yield_stream(self, pod: Pod) -> Iterator[LogLine]:
        opened = self._open_stream(pod, follow=True)
        if opened is None or (isinstance(opened, LostAnswer) and not self._yielded.lines):
            return  # no line yet; the next round shows whether the cluster answers
        if not isinstance(opened, Stream):
            raise opened.failed() if isinstance(opened, LostAnswer) else opened
        self._heard, self._stream = clock.monotonic(), opened
        try:
            for line in self._yield_new(pod, opened):
                self._heard = clock.monotonic()
                yield line
        except OSError:
            return  # reopened in the next round, where it broke off
        finally:
            self._stream = None
            opened.close()

    def _open_stream(
        self, pod: Pod, *, follow: bool, tail: int | None = None, previous: bool = False
    ) -> Stream | LostAnswer | Unreachable | None:
        api = self._cluster.reads.api
        request = ContainerLogRequest(
            namespace=self._jobset.namespace,
            pod=pod.name,
            container=pod.trainer_container,
            since=self._yielded.since,
            tail=tail,
            previous=previous,
        )
        streaming_s = self._pace.silence_s if self._yielded.lines else self._pace.first_s
        silence_s = streaming_s if follow else api.patience.read_timeout_s
        return open_log(api, request, follow=follow, read_timeout_s=silence_s)

    def _yield_new(self, pod: Pod, opened: Stream) -> Iterator[LogLine]:
        said_now: Iterator[LoggedLine] = (parse_logged_line(text.decode("utf-8", "replace")) for text in opened.lines())
        for line in self._yielded.new(said_now):
            yield LogLine(role=self._role, pod=pod.name, at=line.at, text=line.text, attempt=pod.attempt)


def newest_pod(cluster: Cluster, jobset: RunObject, role: ProcessRole) -> Pod | None:
    """Return the pod that has the role now; a pod that is being deleted only if there is no other."""
    pods = cluster.reads.pods(namespace=jobset.namespace, labels=role.selector(jobset)).objects
    return max(pods, key=lambda pod: pod.age_rank, default=None)


def _pod_key(pod: Pod) -> tuple[str, str]:
    return (pod.name, pod.metadata.creation_timestamp)


def _container_restarts(pod: Pod) -> int:
    """Return how often the container that is read restarted in place."""
    name = pod.trainer_container
    return sum(container.restart_count for container in pod.containers if name in (None, container.name))


def _restart_text(before: Pod, pod: Pod, *, jobset: RunObject) -> str:
    """Return the line that marks a restart in the log: the same text for all processes, if all of them are new."""
    if pod.attempt > before.attempt:
        limit = f" of {jobset.max_restarts}" if jobset.max_restarts is not None else ""
        return f"-- {jobset.name}: restart {pod.attempt}{limit}; the lines below are from the new processes --"
    if _pod_key(before) == _pod_key(pod):
        return f"-- {pod.name}: its container was restarted; the lines below are from the new one --"
    return f"-- {before.name} was replaced; the lines below are from {pod.name} --"
