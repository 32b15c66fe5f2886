"""The pods that print steps: asked for as soon as it is known of which runs, in one list per namespace."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from xsft.effects.cluster_reads import Reads
from xsft.effects.parallel import Started, start
from xsft.launchers.observed_pods import printer_selector
from xsft.states.model import Pod


class Printers(Struct, frozen=True, kw_only=True):
    """Of one namespace of one cluster."""

    jobsets: frozenset[str]
    """Names of those that were asked about."""
    pods: Started[tuple[Pod, ...]]
    """Those that print are among them; a little old."""


def ask_printers(reads: Callable[[], Reads], *, namespace: str, jobsets: Iterable[str]) -> Printers:
    """What `reads` raises is raised where the pods are waited for."""
    names = frozenset(jobsets)
    labels = printer_selector(sorted(names))
    return Printers(jobsets=names, pods=start(lambda: reads().cached_pods(namespace=namespace, labels=labels)))
