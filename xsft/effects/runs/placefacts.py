"""Reads what a place's cluster has of what each mode needs, for `xsft doctor --place`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from xsft.checks.cluster.admission import Unseen
from xsft.checks.cluster.placeneeds import PlaceFacts
from xsft.effects.cluster.cluster import Cluster
from xsft.effects.cluster.permitted import unless_forbidden
from xsft.effects.machine.parallel import Started, start
from xsft.errors import EnvironmentMissing
from xsft.spec.place import Place

NO_JOBSET = "xsft-doctor-asks-for-none"
"""A name that no JobSet has: the answer shows whether the cluster serves JobSets."""


def read_place_facts(cluster: Cluster, place: Place) -> PlaceFacts:
    """Return the facts; all are read at once. Raises as `Cluster` does, except for what this login may not read and for
    JobSet or Kueue that is not installed.
    """
    namespace = place.namespace
    controllers = {
        "JobSet": start(partial(_why_absent, partial(cluster.reads.jobset, name=NO_JOBSET, namespace=namespace))),
        "Kueue": start(partial(_why_absent, partial(cluster.local_queues, namespace=namespace))),
    }
    asked: dict[str, Started[Any]] = {
        "namespace": start(partial(_read_or_unseen, partial(cluster.namespace, namespace))),
        "queues": start(partial(_read_or_unseen, partial(cluster.local_queues, namespace=namespace))),
        "cluster_queues": start(partial(_read_or_unseen, cluster.cluster_queues)),
        "priority_classes": start(partial(_read_or_unseen, cluster.priority_classes)),
        "tpu_nodes": start(partial(_read_or_unseen, cluster.tpu_nodes)),
        "cpu_nodes": start(partial(_read_or_unseen, cluster.cpu_nodes)),
    }
    absent = {name: why for name, one in controllers.items() if (why := one.result())}
    return PlaceFacts(context=cluster.context, absent=absent, **{name: one.result() for name, one in asked.items()})


def _read_or_unseen(look: Callable[[], object]) -> object:
    try:
        return unless_forbidden(look)
    except EnvironmentMissing as absent:
        return Unseen(why=absent.message)


def _why_absent(look: Callable[[], object]) -> str | None:
    """Return the message that the controller is not installed, or None."""
    try:
        unless_forbidden(look)
    except EnvironmentMissing as absent:
        return absent.message
    return None
