"""Reads a cluster's runs, or one run, without the other parts of `status`."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from xsft.cluster.cluster import Cluster
from xsft.cluster.observation import Observation
from xsft.cluster.sources import RunSource
from xsft.machine.deadline import NEVER
from xsft.machine.objects import LocalObjects
from xsft.records.record_files import RecordStore
from xsft.records.run_cluster import ClusterAddress
from xsft.runs.read_runs import NamespaceMemory, read_namespace
from xsft.runs.read_scope import ReadLimits, ReadScope

NOTHING = NamespaceMemory(known={}, submitted=())


def observe_cluster(cluster: Cluster, *, namespace: str, name: str, now: str) -> tuple[Observation, ...]:
    """Return the runs without their progress; all pending pods are listed if a run is starting."""
    source = RunSource(name=name, where=ClusterAddress(context=name), namespace=namespace)
    limits = ReadLimits(progress_s=0, starting_at_most=0)
    scope = ReadScope(names=frozenset(), everything=True, limits=limits, now=now)
    store = RecordStore(state=Path("nowhere"), objects_at=lambda _: LocalObjects(), now=lambda: now)
    read = read_namespace(cluster, source, scope=scope, memory=NOTHING, store=store, deadline=NEVER)
    return tuple(
        replace(row, unread=tuple(problem for problem in row.unread if not problem.passed_over))
        for row in read.observations
    )


def observe_run(cluster: Cluster, *, namespace: str, name: str, run_name: str, now: str) -> tuple[Observation, ...]:
    """Return the attempts of the run, the newest first, with all their pods."""
    observations = observe_cluster(cluster, namespace=namespace, name=name, now=now)
    attempts = [
        observation
        for observation in observations
        if observation.jobset and run_name in (observation.run_name, observation.jobset.name)
    ]
    attempts.sort(key=lambda observation: observation.jobset.created_at if observation.jobset else "", reverse=True)
    pods = [
        cluster.reads.pods(namespace=namespace, labels=observation.jobset.selector)
        for observation in attempts
        if observation.jobset
    ]
    return tuple(replace(observation, pods=listed.objects) for observation, listed in zip(attempts, pods, strict=True))
