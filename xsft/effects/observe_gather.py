"""All runs at once: every cluster that was asked for, this machine, and what both have forgotten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xsft.effects.cluster import Cluster
from xsft.effects.lastknown_line import Known
from xsft.effects.observe_ask import Effort, Look, Wanted
from xsft.effects.observe_forgotten import cluster_of, recorded_of
from xsft.effects.observe_local import observe_local
from xsft.effects.progress import Source, not_asked, read_progress, untold
from xsft.effects.recordindex import IndexEntry
from xsft.effects.records import RecordStore
from xsft.problems import Problem
from xsft.states.model import Observation, Recorded


@dataclass(frozen=True, kw_only=True)
class Gathered:
    observations: tuple[Observation, ...]
    problems: tuple[Problem, ...] = ()
    """Clusters that did not answer: warnings."""
    answered: bool = True
    """Anything could be read at all."""
    whole: bool = True
    """Everything that was asked answered."""


def gather_runs(look: Look, *, store: RecordStore, local: bool = True, effort: Effort | None = None) -> Gathered:
    """One Observation per attempt of a run. Never raises. `local`: also the runs on this machine.

    A cluster that does not answer gives what was last known of its runs, if anything, and a problem.
    """
    wanted, entries = look.wanted, look.index.entries
    here = observe_local((one for one in entries if wanted.entry(one)), now=wanted.now) if local else ()
    answers = [one.result() for one in look.asked]
    found = tuple(seen for answer in answers for seen in answer.observations)
    silent = tuple(answer.problem for answer in answers if answer.problem is not None)
    clusters = {one.name: answer.cluster for one, answer in zip(look.targets, answers, strict=True) if answer.cluster}
    source = _source(clusters, store=store, entries=entries)
    read = _with_progress(found, source=source, wanted=wanted, effort=effort or Effort())
    return Gathered(
        observations=(*(_with_last_words(one, [answer.known for answer in answers]) for one in read), *here),
        problems=(*silent, *look.index.problems),
        answered=len(silent) < len(answers) or not answers or bool(found) or bool(here),
        whole=not silent,
    )


def _with_last_words(seen: Observation, known: Sequence[Mapping[str, Known]]) -> Observation:
    """Of a run that has failed and whose log is gone with its pods: what it had said when it was looked at before.

    Only of one that the cluster says has failed: of one that completed, an older step could be taken for its last.
    """
    failed = seen.jobset is not None and seen.jobset.terminal == "Failed" and seen.progress is None
    if not failed or seen.jobset is None:
        return seen
    last = next((one[seen.jobset.uid] for one in known if seen.jobset.uid in one), None)
    return replace(seen, progress=last.progress) if last else seen


def _with_progress(
    found: Sequence[Observation], *, source: Source, wanted: Wanted, effort: Effort
) -> tuple[Observation, ...]:
    """The newest first, so many of those that are active and so many of those that are over."""
    newest = sorted(found, key=lambda one: one.jobset.created_at if one.jobset else "", reverse=True)
    counts = {True: effort.ended_at_most, False: effort.at_most} if effort.progress_s > 0 else {True: 0, False: 0}
    asked: list[Observation] = []
    rest: list[Observation] = []
    for one in newest:
        over = one.jobset is None or one.jobset.terminal is not None
        worth = wanted.progress(one) and untold(one)
        counts[over] -= worth
        (asked if worth and counts[over] >= 0 else rest).append(one)
    read = read_progress(asked, source=source, deadline_s=effort.progress_s)
    return (*read, *(not_asked(one) if wanted.progress(one) else one for one in rest))


def _source(clusters: Mapping[str, Cluster], *, store: RecordStore, entries: Sequence[IndexEntry]) -> Source:
    outputs = {(cluster_of(one), one.run_name): one.output for one in entries if one.output}

    def output(seen: Observation) -> str | None:
        said = seen.jobset.output if seen.jobset else None
        return said or outputs.get((seen.cluster or "", seen.run_name))

    def recorded(seen: Observation) -> Recorded | None:
        place = output(seen)
        records = store.read_run(place, seen.run_name) if place else ()
        return recorded_of(records, seen.record.uid if seen.record else None)

    return Source(
        cluster=lambda name: clusters[name],
        objects=store.objects_at,
        output=output,
        recorded=recorded,
        now=store.now,
    )
