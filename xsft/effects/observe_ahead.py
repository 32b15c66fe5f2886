"""What will be asked once the lists are there is asked while they are under way, by what they told at the last look:
the first pods of runs, and what those have said that print steps.

Most runs go on from one look to the next. Where one has not, something was asked for nothing, or is asked after all;
nothing that is shown comes from the last look. Of a run that has ended or was restarted since, what was asked before
that was known is asked again (`overtaken`): its log is read to its end, and its pods are those that ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial

from xsft.effects import clock
from xsft.effects.cluster_lists import Lists
from xsft.effects.cluster_reads import Reads
from xsft.effects.first_pods import Asked, FirstPods, printer_of
from xsft.effects.observe import is_label, starts
from xsft.effects.observe_turns import Turns, turns
from xsft.effects.observe_wanted import Wanted
from xsft.effects.parallel import Started, start
from xsft.effects.printer_log import LONG_TAIL, TAIL, hear, said_by
from xsft.effects.recordindex import IndexEntry
from xsft.launchers.observed_pods import first_hosts_selector
from xsft.states.model import JobSet, Observation, Pod, Progress

BEGIN_SOON = 12
"""Runs that waited at the last look and may have begun since, the newest ones."""

MOST_STARTING = 64
"""Where more start all pending pods are listed instead: a name has up to 40 characters, a URL had better not have more
than 8,000.
"""

Turn = Callable[[Sequence[JobSet]], Turns]


def turns_of(jobsets: Sequence[JobSet], *, with_known: Callable[[Observation], Observation], wanted: Wanted) -> Turns:
    """Whose turn it will be, for all that the JobSets tell."""
    bare = (
        Observation(run_name=one.run_name, target="xpk", observed_at=wanted.now, jobset=one)
        for one in jobsets
        if one.terminal or not one.suspended
    )
    return turns((with_known(one) for one in bare if wanted.run(one)), wanted=wanted)


def names_of(whose: Turns) -> list[str]:
    return [one.jobset.name for one in whose.asked if one.jobset]


def few_starting(jobsets: Sequence[JobSet], *, wanted: Wanted) -> list[str] | None:
    """Names of those of which the first pods tell why they do not run; None where that are too many to be named."""
    found = [one.name for one in jobsets if starts(one) and wanted.jobset(one)]
    return found if len(found) <= MOST_STARTING else None


def ask_ahead(lists: Lists, *, turn: Turn, submitted: Sequence[IndexEntry], wanted: Wanted) -> FirstPods:
    """Empty where nothing is known of the last look. `submitted`: there, from here."""
    before = lists.before()
    if not before or wanted.effort.progress_s <= 0:
        return FirstPods()
    whose = turn(before)
    starting = few_starting(before, wanted=wanted) or ()
    names = frozenset((*names_of(whose), *starting, *_soon(before, submitted, wanted=wanted)))
    if not names:
        return FirstPods()
    first = [one.jobset for one in whose.asked[: whose.first] if one.jobset]
    heard: dict[str, Started[Progress | None]] = {}
    pods = start(partial(_pods, lists, names, heard, first=first, tail=LONG_TAIL if wanted.names else TAIL))
    return FirstPods(asked=(Asked(jobsets=names, answer=pods, heard=heard),))


def overtaken(jobsets: Sequence[JobSet], *, before: Sequence[JobSet]) -> frozenset[str]:
    """Names of those that have ended or were restarted since the last look, perhaps a moment ago."""
    then = {one.uid: (one.terminal, one.restarts) for one in before}
    return frozenset(one.name for one in jobsets if then.get(one.uid, (None, 0)) != (one.terminal, one.restarts))


def _soon(before: Sequence[JobSet], submitted: Sequence[IndexEntry], *, wanted: Wanted) -> list[str]:
    """Names of JobSets that may run by now."""
    waited = [one for one in before if one.suspended and not one.terminal and wanted.jobset(one)]
    newest = sorted(waited, key=lambda one: one.created_at, reverse=True)[:BEGIN_SOON]
    there = {one.uid for one in before}
    begun = (one for one in submitted if one.uid not in there and is_label(one.jobset or ""))
    latest = sorted(begun, key=lambda one: one.updated_at, reverse=True)[:BEGIN_SOON]
    return [*(one.name for one in newest), *(one.jobset for one in latest if one.jobset)]


def _pods(
    lists: Lists,
    names: frozenset[str],
    heard: dict[str, Started[Progress | None]],
    *,
    first: Sequence[JobSet],
    tail: int,
) -> tuple[Pod, ...]:
    reads, namespace = lists.reads, lists.namespace
    pods = reads.cached_pods(namespace=namespace, labels=first_hosts_selector(sorted(names)))
    of: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        of[pod.jobset].append(pod)
    print_now = [one for jobset in first if (one := printer_of(jobset, of[jobset.name]))]
    said = hear(print_now, partial(_said, reads=reads, namespace=namespace, tail=tail))
    heard.update(zip((one.name for one in print_now), said, strict=True))
    return pods


def _said(pod: Pod, *, reads: Reads, namespace: str, tail: int) -> Progress | None:
    return said_by(pod, reads=reads, namespace=namespace, tail=tail, now=clock.now)
