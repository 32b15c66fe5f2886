"""The first pod of each Job of some runs: those that print steps are among them, and those that tell why a run does not
start. Asked for as soon as it is known of which runs; a server looks at every pod of the namespace for each such list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from xsft.effects.cluster_reads import Reads
from xsft.effects.parallel import Started, start
from xsft.launchers.observed_pods import first_hosts_selector, prints_steps
from xsft.states.model import JobSet, Pod, Progress


class Heard(Struct, frozen=True, kw_only=True):
    """What a pod has said, asked for before it was known how its JobSet is."""

    jobset: JobSet
    """As it was at the last look. What one has said that changed since may be from before its end, or its restart."""
    said: Started[Progress | None]


class FirstPods(Struct, frozen=True, kw_only=True):
    """Of one namespace of one cluster."""

    jobsets: frozenset[str] = frozenset()
    """Names of those that were asked about."""
    asked: tuple[Started[tuple[Pod, ...]], ...] = ()
    heard: Mapping[str, Heard] = field(default_factory=dict)
    """What some of them have said, by the pod's name; none comes to it once the pods are there."""

    def pods(self) -> tuple[Pod, ...]:
        """A little old. Raises what asking raised."""
        return tuple(pod for one in self.asked for pod in one.result())

    def also_of(self, jobsets: Iterable[str], *, reads: Callable[[], Reads], namespace: str) -> FirstPods:
        """One more list where not all of these were asked about. What `reads` raises is raised by `pods`."""
        missing = frozenset(jobsets) - self.jobsets
        if not missing:
            return self
        labels = first_hosts_selector(sorted(missing))
        pods = start(lambda: reads().cached_pods(namespace=namespace, labels=labels))
        return replace(self, jobsets=self.jobsets | missing, asked=(*self.asked, pods))


def printer_of(jobset: JobSet, pods: Iterable[Pod]) -> Pod | None:
    """Of the attempt that runs now; a pod that is being deleted only where there is no other."""
    found = [pod for pod in pods if prints_steps(pod, jobset)]
    return max(found, key=lambda pod: (not pod.deleting, pod.attempt, pod.created_at), default=None)
