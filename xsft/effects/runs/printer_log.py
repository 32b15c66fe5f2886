"""The progress in the log of the process that prints steps: the end of its pod's log."""

from __future__ import annotations

from collections.abc import Callable

from xsft.effects.cluster.logs import LogAsk, read_log
from xsft.effects.cluster.reads import Reads
from xsft.reading.pods import trainer_container
from xsft.states.model import Pod, Progress
from xsft.trainers.progress import LoggedLine, progress_of

TAIL = 80
"""Lines read of a log. A step prints two, a save some twenty. Parsing them is most of the cost of reading a run."""
LONG_TAIL = 800
"""Lines read if the short tail has no step: the run is starting, or another writer fills the log. Also read for runs
that are named on the command line, so that the last save is included, which may be hundreds of steps ago.
"""
THREADS = 8
"""Maximum number of threads. Each has its own connection, whose TLS handshake costs both sides more than a log."""


def said_by(pod: Pod, *, reads: Reads, namespace: str, tail: int, now: Callable[[], str]) -> Progress | None:
    """Return the progress from the end of the pod's log, and from a longer part if that has no step. None if there is
    no log.

    Raises Unreachable.
    """
    wanted = LogAsk(namespace=namespace, pod=pod.name, container=trainer_container(pod), tail=tail)
    lines = read_log(reads.api, wanted)
    said = None if lines is None else _progress(lines, tail=tail, now=now)
    if lines is None or said is None or said.step is not None or len(lines) < tail or tail >= LONG_TAIL:
        return said
    return said_by(pod, reads=reads, namespace=namespace, tail=LONG_TAIL, now=now) or said


def _progress(lines: tuple[LoggedLine, ...], *, tail: int, now: Callable[[], str]) -> Progress | None:
    return progress_of(lines, read_at=now(), from_start=len(lines) < tail)
