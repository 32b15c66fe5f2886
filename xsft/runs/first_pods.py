"""The first pod of each Job of some runs: these pods print the steps, and show why a run does not start.

They are requested once the JobSets are known. The API server scans every pod of the namespace for each such list.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from msgspec import Struct

from xsft.cluster.observation import Pod, RunObject
from xsft.cluster.pod_fields import first_hosts_selector, prints_steps
from xsft.cluster.reads import Reads
from xsft.machine.parallel import StartedCall, start
from xsft.runs.list_runs import is_starting
from xsft.runs.read_scope import ReadScope


class PodList(Struct, frozen=True, kw_only=True):
    """One request for a list of pods, in progress."""

    jobsets: frozenset[str]
    """Names of the JobSets whose pods it returns."""
    answer: StartedCall[tuple[Pod, ...]]


class FirstPods(Struct, frozen=True, kw_only=True):
    """The pod lists of one namespace of one cluster."""

    lists: tuple[PodList, ...] = ()

    def pods(self) -> tuple[Pod, ...]:
        """Return the pods of all lists. Raises what a request raised."""
        return tuple(pod for one in self.lists for pod in one.answer.result())

    def also_of(self, jobsets: Iterable[str], *, reads: Reads, namespace: str) -> FirstPods:
        """Return these lists, with one more if some of the JobSets are in none of them."""
        missing = frozenset(jobsets).difference(*(one.jobsets for one in self.lists))
        if not missing:
            return self
        labels = first_hosts_selector(sorted(missing))
        pods = start(partial(reads.cached_pods, namespace=namespace, labels=labels))
        return FirstPods(lists=(*self.lists, PodList(jobsets=missing, answer=pods)))


def few_starting(jobsets: Sequence[RunObject], *, scope: ReadScope) -> list[str] | None:
    """Return the names of the wanted JobSets that are not up yet; None if they are too many for one label selector."""
    found = [one.name for one in jobsets if is_starting(one) and scope.covers_jobset(one)]
    return found if len(found) <= scope.limits.starting_at_most else None


def printer_of(jobset: RunObject, pods: Iterable[Pod]) -> Pod | None:
    """Return the pod of the current attempt that prints steps; a pod that is being deleted only if there is no
    other.
    """
    found = [pod for pod in pods if prints_steps(pod, jobset)]
    return max(found, key=lambda pod: (not pod.deleting, pod.attempt, pod.created_at), default=None)
