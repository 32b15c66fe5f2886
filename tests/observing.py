"""Reads a cluster's runs, or one run, without the other parts of `status`."""

from __future__ import annotations

from msgspec.structs import replace

from xsft.cluster.cluster import Cluster
from xsft.cluster.lists import ask_lists
from xsft.cluster.observation import Observation, Pod
from xsft.cluster.pod_fields import selector_of
from xsft.runs.list_runs import observations_of


def observe_cluster(cluster: Cluster, *, namespace: str, name: str, now: str) -> tuple[Observation, ...]:
    return observations_of(ask_lists(cluster, namespace=namespace), name=name, now=now)


def observe_run(cluster: Cluster, *, namespace: str, name: str, run_name: str, now: str) -> tuple[Observation, ...]:
    """Return the attempts of the run, the newest first, with all their pods."""
    seen = observe_cluster(cluster, namespace=namespace, name=name, now=now)
    attempts = [one for one in seen if one.jobset and run_name in (one.run_name, one.jobset.name)]
    attempts.sort(key=lambda one: one.jobset.created_at if one.jobset else "", reverse=True)
    return tuple(replace(one, pods=pods_of(cluster, one)) for one in attempts)


def pods_of(cluster: Cluster, seen: Observation) -> tuple[Pod, ...]:
    assert seen.jobset is not None
    return cluster.reads.pods(namespace=seen.jobset.namespace, labels=selector_of(seen.jobset))
