"""The first pod of each Job of some runs: those that print steps are among them, and those that tell why a run does not
start. Asked for as soon as it is known of which runs; a server looks at every pod of the namespace for each such list.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from xsft.effects.cluster_reads import Reads
from xsft.effects.parallel import Started, start
from xsft.launchers.observed_pods import first_hosts_selector, prints_steps
from xsft.states.model import JobSet, Pod, Progress


class Asked(Struct, frozen=True, kw_only=True):
    """One list, under way."""

    jobsets: frozenset[str]
    """Names of those whose pods it gives."""
    answer: Started[tuple[Pod, ...]]
    heard: Mapping[str, Started[Progress | None]] = field(default_factory=dict)
    """What some of the pods have said, by their names; none comes to it once they are there."""

    def ended(self, timeout_s: float) -> bool:
        return self.answer.ended(timeout_s)

    def result(self) -> tuple[Pod, ...]:
        """Raises what asking raised."""
        return tuple(pod for pod in self.answer.result() if pod.jobset in self.jobsets)


class FirstPods(Struct, frozen=True, kw_only=True):
    """Of one namespace of one cluster."""

    asked: tuple[Asked, ...] = ()

    def pods(self) -> tuple[Pod, ...]:
        """A little old. Raises what asking raised."""
        return tuple(pod for one in self.asked for pod in one.result())

    def heard(self, pod: Pod) -> Started[Progress | None] | None:
        """What it has said, where that was asked for already."""
        return next((one.heard.get(pod.name) for one in self.asked if pod.jobset in one.jobsets), None)

    def without(self, jobsets: Collection[str]) -> FirstPods:
        """As if it had not been asked about these."""
        return FirstPods(asked=tuple(replace(one, jobsets=one.jobsets.difference(jobsets)) for one in self.asked))

    def also_of(self, jobsets: Iterable[str], *, reads: Callable[[], Reads], namespace: str) -> FirstPods:
        """One more list where not all of these were asked about. What `reads` raises is raised by `pods`."""
        missing = frozenset(jobsets).difference(*(one.jobsets for one in self.asked))
        if not missing:
            return self
        labels = first_hosts_selector(sorted(missing))
        pods = start(lambda: reads().cached_pods(namespace=namespace, labels=labels))
        return FirstPods(asked=(*self.asked, Asked(jobsets=missing, answer=pods)))


def printer_of(jobset: JobSet, pods: Iterable[Pod]) -> Pod | None:
    """Of the attempt that runs now; a pod that is being deleted only where there is no other."""
    found = [pod for pod in pods if prints_steps(pod, jobset)]
    return max(found, key=lambda pod: (not pod.deleting, pod.attempt, pod.created_at), default=None)
