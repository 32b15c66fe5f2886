"""The logs that `xsft logs`, `compare` and `submit --follow` read."""

from __future__ import annotations

import heapq
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.amounts import before
from xsft.base.errors import Unknown, UsageError, XsftError
from xsft.base.lenient import ShowLine
from xsft.cluster.cluster import Cluster
from xsft.cluster.observation import Observation, RunObject
from xsft.machine import clock
from xsft.machine.deadline import Retries
from xsft.machine.filelock import is_held
from xsft.machine.parallel import start
from xsft.machine.regular import follow_log, read_log
from xsft.runs.compare import LossCurve, read_curve
from xsft.runs.local_runs import lock_of
from xsft.runs.log_roles import LogRequest, ProcessRole, chosen_roles
from xsft.runs.logstream import LogFollower, LogLine, Mark, Over, Pace
from xsft.runs.lookup import FoldedRun, folder
from xsft.runs.read_all import Runs
from xsft.trainer.progress import sortable

WINDOW_S = 0.25
"""Lines of several processes that arrive within this time are sorted by their timestamps."""
STREAM_THREAD = "xsft-log"
WATCH_THREAD = "xsft-log-watch"
WAITING_LINES = 10_000
"""Maximum number of lines that are not consumed yet; the streams pause when it is reached."""

LOOKS_PER_S = 2.0
"""Pod reads per second for all silent streams together: --all may have opened a hundred."""

LogItem = LogLine | Mark | Exception | None
"""One item of the queue. None: one stream has ended."""
LogQueue = queue.Queue[LogItem]


def read_logs(
    cluster: Cluster,
    *,
    jobset: RunObject,
    roles: Sequence[ProcessRole],
    since: str | None = None,
    tail: int | None = None,
) -> Iterator[LogLine]:
    """Yield the log lines of these processes so far, by time; the log of a single process is yielded while it is read.
    `tail`: number of lines of each log.

    Raises Unreachable during iteration if a log cannot be read.
    """
    stop, pace = threading.Event(), Pace()
    over = Over(cluster, jobset, pace=pace, now=clock.monotonic)
    followers = [
        LogFollower(cluster, jobset, role, pace=pace, over=over, stop=stop, say=lambda _: None) for role in roles
    ]
    return _begin_followers(followers, since=since, tail=tail)


def follow_logs(
    cluster: Cluster,
    *,
    jobset: RunObject,
    roles: Sequence[ProcessRole],
    since: str | None = None,
    tail: int | None = None,
    pace: Pace | None = None,
    trouble: ShowLine = lambda _text: None,
) -> Iterator[LogLine]:
    """Yield the log lines so far (`read_logs`) and all later ones, through restarts in place and new pods, until the
    JobSet has ended or is gone and all its lines are read. `trouble` is called with one line for each thing being
    waited for and, between log lines, for each restart.

    Each line is yielded once. Raises as `read_logs`; if the cluster does not answer for a while, it is retried.
    """
    lines: LogQueue = queue.Queue(WAITING_LINES)
    stop = threading.Event()
    pace = pace or Pace()
    over = Over(cluster, jobset, pace=pace, now=clock.monotonic)
    followers = [LogFollower(cluster, jobset, role, pace=pace, over=over, stop=stop, say=trouble) for role in roles]
    try:
        begun = partial(_begin_followers, followers, since=since, tail=tail)
        yield from _retry_lines(begun, retries=pace.retries(stop), say=_drop_repeats(trouble))
        for follower in followers:
            threading.Thread(target=_queue_lines, args=(follower, lines, stop), daemon=True, name=STREAM_THREAD).start()
        threading.Thread(target=_watch_followers, args=(followers, pace, stop), daemon=True, name=WATCH_THREAD).start()
        yield from _merge_lines(lines, streams=len(followers), mark=_drop_repeats(trouble))
    finally:
        stop.set()
        for follower in followers:
            follower.interrupt()


def _begin_followers(followers: Sequence[LogFollower], *, since: str | None, tail: int | None) -> Iterator[LogLine]:
    """Yield the lines of whole logs, sorted by time."""
    if len(followers) == 1:
        return followers[0].begin(since=since, tail=tail)
    started = [start(partial(_after_first_line, follower.begin(since=since, tail=tail))) for follower in followers]
    return heapq.merge(*(follower.result() for follower in started), key=_time_key)


def _retry_lines(begun: Callable[[], Iterator[LogLine]], *, retries: Retries, say: ShowLine) -> Iterator[LogLine]:
    """Yield the lines; start again from the beginning if the cluster does not answer. If a stream breaks later, the
    follower reopens it.
    """
    has_yielded = False
    while True:
        try:
            for line in begun():
                has_yielded = True
                yield line
        except XsftError as failed:
            if failed.again != "helps":
                raise
            say(failed.message)
            if has_yielded or not retries.again():
                return
        else:
            return


def _after_first_line(lines: Iterator[LogLine]) -> Iterator[LogLine]:
    """Return the lines once the first one has arrived, which takes a server the longest. The others are read on
    demand.
    """
    return chain(tuple(islice(lines, 1)), lines)


def _queue_lines(follower: LogFollower, lines: LogQueue, stop: threading.Event) -> None:
    """Put the lines of one stream into the queue, then None."""
    last: Exception | None = None
    try:
        for line in follower.lines():
            _put_item(lines, line, stop)
    except Exception as failed:  # noqa: BLE001 - raised again in the reading thread, which would otherwise wait forever
        last = failed
    _put_item(lines, last, stop)


def _watch_followers(followers: Sequence[LogFollower], pace: Pace, stop: threading.Event) -> None:
    """Notice processes that are new while their old streams stay open."""
    while not stop.wait(max(pace.look_s / 2, len(followers) / LOOKS_PER_S)):
        for follower in followers:
            follower.look()


def _drop_repeats(say: ShowLine) -> ShowLine:
    """Return a `say` that drops repeated lines: a restart of the run is reported by each of its processes."""
    told_lines: set[str] = set()

    def tell(text: str) -> None:
        if text not in told_lines:
            told_lines.add(text)
            say(text)

    return tell


def _put_item(lines: LogQueue, item: LogItem, stop: threading.Event) -> None:
    while not stop.is_set():
        with suppress(queue.Full):
            lines.put(item, timeout=0.2)
            return


def _merge_lines(lines: LogQueue, *, streams: int, mark: ShowLine) -> Iterator[LogLine]:
    open_streams = streams
    while open_streams:
        batch: list[LogLine] = []
        for item in _take_batch(lines, window_s=WINDOW_S if open_streams > 1 else 0.0):
            if isinstance(item, LogLine):
                batch.append(item)
                continue
            yield from sorted(batch, key=_time_key)  # lines before the mark come first
            batch.clear()
            if isinstance(item, Exception):
                raise item
            if isinstance(item, Mark):
                mark(item.text)
            open_streams -= item is None
        yield from sorted(batch, key=_time_key)


def _take_batch(lines: LogQueue, *, window_s: float) -> list[LogItem]:
    """Return at least one item, and all others that arrive within the window."""
    batch = [lines.get()]
    end = clock.monotonic() + window_s
    with suppress(queue.Empty):
        while True:
            batch.append(lines.get(timeout=max(0.0, end - clock.monotonic())) if window_s else lines.get_nowait())
    return batch


def _time_key(line: LogLine) -> str:
    return sortable(line.at)


class RunLogs(Struct, frozen=True, kw_only=True):
    runs: Runs
    trouble: Callable[[str], None] = lambda _line: None
    """Function that gets a line on what following waits for."""

    def lines(
        self, observation: Observation, jobset: RunObject, roles: tuple[ProcessRole, ...], request: LogRequest
    ) -> Iterator[LogLine]:
        """Yield the lines of these processes. Raises as `read_logs` and `follow_logs`."""
        cluster = self.runs.cluster(observation.cluster or "")
        since = None if request.since_s is None else before(observation.observed_at, request.since_s)
        if request.follow:
            return follow_logs(
                cluster, jobset=jobset, roles=roles, since=since, tail=request.tail, trouble=self.trouble
            )
        return read_logs(cluster, jobset=jobset, roles=roles, since=since, tail=request.tail)

    def local_lines(self, observation: Observation, request: LogRequest) -> Iterator[str]:
        """Yield the lines of a local run. Raises Unknown if no record names the file, UsageError for an attempt that
        never existed."""
        output = self.runs.output_of(observation)
        records = self.runs.records(observation)
        numbers = sorted({record.last.number for record in records})
        if request.attempt is not None and numbers and request.attempt not in numbers:
            raise UsageError(
                f"{observation.run_name} has no attempt {request.attempt}. "
                f"Known attempts: {', '.join(map(str, numbers))}.",
                fix="Pass one of them to --attempt, or omit it for the newest.",
            )
        logged = [one for one in records if request.attempt in (None, one.last.number) and one.last.log]
        if not output or not logged:
            reasons = "".join(f" {record.last.reason}." for record in records if record.unread)
            raise Unknown(
                f"No record of {observation.run_name} contains the path of its log.{reasons}",
                fix="Look in its output folder: xsft/trainer-*.log.",
            )
        log = Path(logged[-1].last.log)
        lock = lock_of(output, observation.run_name)
        if request.follow:
            return follow_log(log, tail=request.tail, alive=lambda: is_held(lock))
        return read_log(log, tail=request.tail)

    def follow(self, observation: Observation) -> Iterator[str]:
        """Yield the lines of the process that prints steps, from its start to the run's end."""
        return self._printed_texts(observation, request=LogRequest(follow=True))

    def curves(self, hits: tuple[FoldedRun, ...]) -> tuple[LossCurve, ...]:
        """Return the curves; if two runs share a name, each is named by its folder."""
        called = [hit.row.run_name for hit in hits]
        names = [
            folder(hit.row) or name if called.count(name) > 1 else name for hit, name in zip(hits, called, strict=True)
        ]
        lines = partial(self._printed_texts, request=LogRequest())
        curves = []
        for hit, name in zip(hits, names, strict=True):
            curve = read_curve(hit.seen, output=self.runs.output_of(hit.seen), store=self.runs.store, lines=lines)
            curves.append(replace(curve, run_name=name))
        return tuple(curves)

    def printed(self, observation: Observation, request: LogRequest | None = None) -> Iterator[LogLine]:
        """Yield the lines of the process that prints steps, all of them so far by default; none if the JobSet is
        gone.
        """
        if observation.jobset is not None:
            roles = chosen_roles(observation.jobset, slice_index=None, host=None, every=False)
            yield from self.lines(observation, observation.jobset, roles, request or LogRequest())

    def _printed_texts(self, observation: Observation, request: LogRequest) -> Iterator[str]:
        return (line.text for line in self.printed(observation, request))
