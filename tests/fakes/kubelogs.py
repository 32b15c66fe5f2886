"""The stand-in's logs of pods: lines that a test has them say, followed while they come, cut when a test cuts them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.faults.answer import Answer, status
from tests.faults.server import Unanswered
from xsft.cluster.observation import RunObject
from xsft.cluster.pod_fields import Pod
from xsft.runs.log_roles import ProcessRole

PLAIN = {"Content-Type": "text/plain"}


@dataclass
class Log:
    """A log of one container, of one life of it."""

    lines: list[tuple[str, str]] = field(default_factory=list)
    """(RFC 3339 with nanoseconds, text)."""
    ended: bool = False
    cuts: int = 0
    """How often a reader was to be cut so far."""
    followed: int = 0
    """The number of followers, which the next cut ends."""


@dataclass
class PodLogs:
    """`logs[pod, previous]`."""

    logs: dict[tuple[str, bool], Log] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def say(self, pod: str, *texts: str, second: int = 0, previous: bool = False, end: bool = False) -> None:
        """One line per text, a nanosecond apart, `second` seconds after 10:00:00."""
        with self.changed:
            log = self.logs.setdefault((pod, previous), Log())
            words = f"2026-11-21T10:{second // 60:02}:{second % 60:02}"
            log.lines += [(f"{words}.{len(log.lines) + i:09}Z", text) for i, text in enumerate(texts)]
            log.ended = log.ended or end
            self.changed.notify_all()

    def end(self, pod: str) -> None:
        with self.changed:
            self.logs.setdefault((pod, False), Log()).ended = True
            self.changed.notify_all()

    def followed(self, pod: str) -> int:
        """Return how many have begun to follow it: a request that was only received is not cut yet."""
        with self.changed:
            return self.logs[pod, False].followed

    def cut(self, pod: str) -> None:
        """Everybody who follows it loses the connection."""
        with self.changed:
            self.logs[pod, False].cuts += 1
            self.changed.notify_all()

    def replace(self, pod: str) -> None:
        """Start the container anew: its lines become the previous log."""
        with self.changed:
            self.logs[pod, True] = self.logs.pop((pod, False))
            self.logs[pod, True].ended = True
            self.logs[pod, False] = Log()
            self.changed.notify_all()

    def gone(self, pod: str) -> None:
        with self.changed:
            for key in [key for key in self.logs if key[0] == pod]:
                self.logs.pop(key).ended = True
            self.changed.notify_all()

    def answer(self, path: str, query: dict[str, str], *, stopping: threading.Event) -> Answer:
        pod = path.split("/")[-2]
        log = self.logs.get((pod, query.get("previous") == "true"))
        if log is None:
            details = {"name": pod, "kind": "pods"}
            return status(404, "NotFound", f'pods "{pod}" not found', details=details)
        skip = self._skipped(log, query)
        stamped = query.get("timestamps") == "true"
        if query.get("follow") != "true":
            return Answer(200, b"".join(_line(*line, stamped=stamped) for line in log.lines[skip:]), PLAIN)
        return Answer(200, None, PLAIN, stream=self._followed(log, skip, stamped=stamped, stopping=stopping))

    def _skipped(self, log: Log, query: dict[str, str]) -> int:
        """The kubelet knows whole seconds only, and counts the lines that are left."""
        since = query.get("sinceTime", "")[:19]
        skip = sum(1 for moment, _ in log.lines if moment[:19] < since)
        return max(skip, len(log.lines) - int(query["tailLines"])) if "tailLines" in query else skip

    def _followed(self, log: Log, passed_count: int, *, stamped: bool, stopping: threading.Event) -> Iterator[bytes]:
        with self.changed:
            cuts = log.cuts
            log.followed += 1
        while not stopping.is_set():
            with self.changed:
                if passed_count >= len(log.lines) and not log.ended and log.cuts == cuts:
                    self.changed.wait(0.05)
                new, passed_count = log.lines[passed_count:], len(log.lines)
            yield from (_line(*line, stamped=stamped) for line in new)
            if log.cuts != cuts:
                yield b"2026-11-21T10:"
                raise Unanswered
            if log.ended and passed_count >= len(log.lines):
                return


def _line(moment: str, text: str, *, stamped: bool) -> bytes:
    return (f"{moment} {text}\n" if stamped else f"{text}\n").encode()


def printer(jobset: RunObject) -> ProcessRole:
    """Return the one process that prints steps."""
    return ProcessRole(replicated_job=jobset.trainer_job or "", slice_index=0, host=0)


def role_of(pod: Pod) -> ProcessRole:
    return ProcessRole(replicated_job=pod.replicated_job, slice_index=pod.slice_index, host=pod.host)
