"""What the process that prints steps has said of them: the end of its pod's log."""

from __future__ import annotations

from collections.abc import Callable

from xsft.effects.cluster.logs import LogAsk, read_log
from xsft.effects.cluster.reads import Reads
from xsft.reading.pods import trainer_container
from xsft.states.model import Pod, Progress
from xsft.trainers.progress import Said, progress_of

TAIL = 80
"""Lines of a log. A step prints two, a save some twenty. Taking them apart is most of what a run costs."""
LONG_TAIL = 800
"""Where those do not tell a step: it starts, or something beside it talks a lot. And of runs that are named: the last
save is in it, which may be hundreds of steps ago.
"""
THREADS = 8
"""Each has a connection of its own, whose TLS costs both sides more than a log does."""


def said_by(pod: Pod, *, reads: Reads, namespace: str, tail: int, now: Callable[[], str]) -> Progress | None:
    """By the end of its log, and a longer one where that tells no step. None where there is no log.

    Raises Unreachable.
    """
    wanted = LogAsk(namespace=namespace, pod=pod.name, container=trainer_container(pod), tail=tail)
    lines = read_log(reads.api, wanted)
    said = None if lines is None else _progress(lines, tail=tail, now=now)
    if lines is None or said is None or said.step is not None or len(lines) < tail or tail >= LONG_TAIL:
        return said
    return said_by(pod, reads=reads, namespace=namespace, tail=LONG_TAIL, now=now) or said


def _progress(lines: tuple[Said, ...], *, tail: int, now: Callable[[], str]) -> Progress | None:
    return progress_of(lines, read_at=now(), from_start=len(lines) < tail)
