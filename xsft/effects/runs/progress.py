"""How far runs have come: their trainers' own lines, else what lies beside their output; in parallel, by a deadline."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from xsft.effects.cluster.cluster import Cluster
from xsft.effects.machine import clock
from xsft.effects.machine.parallel import Hurry, answers
from xsft.effects.records.objects import Objects
from xsft.effects.records.saved import latest_step
from xsft.effects.runs.first_pods import FirstPods, printer_of
from xsft.effects.runs.observe import unread
from xsft.effects.runs.printer_log import TAIL, THREADS, said_by
from xsft.effects.runs.wanted import NOT_ASKED, NOT_READ, untold
from xsft.errors import XsftError
from xsft.reading.pods import prints_steps
from xsft.states.model import JobSet, Observation, Pod, Progress, Recorded, Unread, What
from xsft.states.pods import oom_killed, started_at, trouble
from xsft.trainers.metrics import FOLDER, newest_files, progress_of_metrics, rows_of

T = TypeVar("T")
Place = tuple[str, str]
"""The cluster's name and the namespace."""

MAX_METRICS = 4 * 1024 * 1024
"""Bytes of one file; log_period is 100 steps of some 2 KB unless a workload says otherwise."""


class Source(Struct, frozen=True, kw_only=True):
    """Where progress is read."""

    cluster: Callable[[str], Cluster]
    """By the name an Observation has for it. Raises XsftError."""
    objects: Callable[[str], Objects]
    """That hold a path. Raises Unreachable."""
    output: Callable[[Observation], str | None] = lambda seen: seen.jobset.output if seen.jobset else None
    """base_output_directory; None where nothing tells it."""
    recorded: Callable[[Observation], Recorded | None] = lambda _: None
    """The record beside its output, of a run that its cluster has forgotten. Raises XsftError."""
    now: Callable[[], str] = clock.now
    first_pods: Mapping[Place, FirstPods] = field(default_factory=dict)
    """That were asked for already."""


def read_progress(
    observations: Sequence[Observation],
    *,
    source: Source,
    deadline_s: float,
    tail: int = TAIL,
    hurry: Hurry | None = None,
) -> tuple[Observation, ...]:
    """The same observations, those that have something to tell with their progress, the first ones first; what did not
    come in time is in `unread`. `tail`: lines of each log; `hurry` counts those that have something to tell. Never
    raises.
    """
    asked = [i for i, one in enumerate(observations) if untold(one)]
    found = list(observations)
    under_way = [_begun(observations[i]) for i in asked]
    looks = _looks(under_way, source=source, tail=tail)
    read = answers(looks, threads=THREADS, timeout_s=deadline_s, hurry=hurry)
    for n, (i, one) in enumerate(zip(asked, read, strict=True)):
        late = NOT_READ if hurry is None or n < hurry.first else NOT_ASKED
        found[i] = one or _lacking(under_way[n].seen, late, what=under_way[n].what)
    return tuple(found)


def not_asked(seen: Observation) -> Observation:
    """Says so of one that has something to tell."""
    return _lacking(seen, NOT_ASKED, what=_begun(seen).what) if untold(seen) else seen


class _UnderWay(Struct, kw_only=True):
    """Written by the thread that reads, and read by the one that waits no longer."""

    seen: Observation
    """With what has come so far."""
    what: What
    """Which is being read."""


def _begun(seen: Observation) -> _UnderWay:
    return _UnderWay(seen=seen, what="record" if seen.jobset is None else "log")


def _looks(asked: Sequence[_UnderWay], *, source: Source, tail: int) -> list[Callable[[], Observation]]:
    first_pods = _printers([one.seen for one in asked], source)
    return [partial(_one, one, first_pods, source, tail=tail) for one in asked]


def _one(doing: _UnderWay, first_pods: Mapping[Place, FirstPods], source: Source, *, tail: int) -> Observation:
    """The log first; the files beside the output where there is none, or where it does not reach to the end."""
    seen = doing.seen
    said, missing, pod = _logged(seen, first_pods, source, tail=tail)
    if pod is not None and pod not in (seen.pods or ()) and (oom_killed([pod]) or trouble([pod])):
        seen = replace(seen, pods=(*(seen.pods or ()), pod))  # nobody else tells that of it
    if said is not None and not _falls_short(seen, said):
        return replace(seen, progress=said)
    if seen.jobset is None:
        seen = _recorded(seen, source)
    doing.seen = replace(seen, progress=said, unread=(*seen.unread, *missing))
    written, lacking = _written(seen, source, doing)
    if said is not None and written is not None:
        said = replace(said, saved_step=max_of(said.saved_step, written.saved_step))
    return replace(seen, progress=said or written, unread=(*seen.unread, *missing, *lacking))


def _falls_short(seen: Observation, said: Progress) -> bool:
    """It ended well, and its log does not show the last step: a run that finds its last checkpoint prints none."""
    over = seen.jobset is None or seen.jobset.terminal == "Completed"
    done = max_of(said.step, said.saved_step)
    return over and (done is None or seen.steps is None or done < seen.steps)


def _logged(
    seen: Observation, first_pods: Mapping[Place, FirstPods], source: Source, *, tail: int
) -> tuple[Progress | None, tuple[Unread, ...], Pod | None]:
    """And the pod that prints the steps, where it is there."""
    jobset, pod = seen.jobset, None
    if jobset is None:
        return None, (), None
    try:
        pod = _printer(seen, jobset, first_pods)
        said = _said(pod, jobset, source, seen.cluster or "", tail=tail) if pod else None
    except XsftError as failed:
        return None, (unread("log", failed),), pod
    if pod is None or said is None:
        return None, (Unread(what="log", why="the pod that prints the steps is gone, and its log with it"),), pod
    return replace(said, began_at=min(started_at([pod]), default=None)), (), pod


def _said(pod: Pod, jobset: JobSet, source: Source, cluster: str, *, tail: int) -> Progress | None:
    return said_by(pod, reads=source.cluster(cluster).reads, namespace=jobset.namespace, tail=tail, now=source.now)


def _printer(seen: Observation, jobset: JobSet, first_pods: Mapping[Place, FirstPods]) -> Pod | None:
    there = seen.pods or ()
    if any(prints_steps(pod, jobset) for pod in there):
        return printer_of(jobset, there)
    return printer_of(jobset, first_pods[_where(seen)].pods())


def _printers(asked: Sequence[Observation], source: Source) -> Mapping[Place, FirstPods]:
    """One list per cluster and namespace, whatever the number of runs."""
    names: dict[Place, set[str]] = defaultdict(set)
    for seen in asked:
        if seen.jobset is not None:
            names[_where(seen)].add(seen.jobset.name)
    return {where: _of_all(where, several, source) for where, several in names.items()}


def _of_all(where: Place, jobsets: AbstractSet[str], source: Source) -> FirstPods:
    cluster, namespace = where
    there = source.first_pods.get(where, FirstPods())
    return there.also_of(jobsets, reads=lambda: source.cluster(cluster).reads, namespace=namespace)


def _where(seen: Observation) -> Place:
    return (seen.cluster or "", seen.jobset.namespace if seen.jobset else "")


def _recorded(seen: Observation, source: Source) -> Observation:
    """What submitting, or cancelling, wrote down; else what the index says."""
    record, missing = _tried("record", lambda: source.recorded(seen))
    return replace(seen, record=record or seen.record, unread=(*seen.unread, *missing))


def _written(seen: Observation, source: Source, doing: _UnderWay) -> tuple[Progress | None, tuple[Unread, ...]]:
    """By the metrics and the checkpoints beside the output."""
    output = source.output(seen)
    if output is None:
        return None, ()
    doing.what = "metrics"
    metrics, no_metrics = _tried("metrics", lambda: metrics_of(source.objects(output), output, seen.run_name, source))
    doing.what = "checkpoints"
    saved, no_saved = _tried("checkpoints", lambda: _saved(source.objects(output), output, seen.run_name))
    missing = (*no_metrics, *no_saved)
    if metrics is not None:
        return replace(metrics, saved_step=saved), missing
    if saved is None:
        return None, missing
    return Progress(source="checkpoints", read_at=source.now(), saved_step=saved), missing


def metrics_of(objects: Objects, output: str, run_name: str, source: Source) -> Progress | None:
    """None where none were written. Raises Unreachable."""
    folder = f"{output.rstrip('/')}/{run_name}/{FOLDER}"
    names = newest_files(objects.written(folder))
    texts = [(objects.read(f"{folder}/{name}", limit=MAX_METRICS) or b"").decode("utf-8", "replace") for name in names]
    return progress_of_metrics((row for text in texts for row in rows_of(text)), read_at=source.now())


def _saved(objects: Objects, output: str, run_name: str) -> int | None:
    return latest_step(objects, output=output, run_name=run_name)


def _tried(what: What, look: Callable[[], T]) -> tuple[T | None, tuple[Unread, ...]]:
    try:
        return look(), ()
    except XsftError as failed:
        return None, (unread(what, failed),)


def _lacking(seen: Observation, why: str, *, what: What) -> Observation:
    return replace(seen, unread=(*seen.unread, Unread(what=what, why=why)))


def max_of(*numbers: int | None) -> int | None:
    return max((number for number in numbers if number is not None), default=None)
