"""`xsft place show`: print what a cluster has for runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from msgspec import to_builtins
from rich.table import Table
from rich.text import Text

from xsft.base.errors import UsageError
from xsft.cluster.cluster import connect
from xsft.cluster.errors import last_net
from xsft.cluster.lists import PATIENCE
from xsft.cluster.sources import PlaceQuery, RunSource, known_places, sources
from xsft.cluster.supply import SliceUser, TpuSupply
from xsft.verbs.console import console
from xsft.verbs.plan_document import print_json
from xsft.verbs.progress import show_spinner
from xsft.world.view import PlaceView, QueueQuota, view_place


def run(args: argparse.Namespace) -> int:
    if args.name and args.context:
        raise UsageError("Both a place and --context are given.", fix="Give one of them.")
    source = _find_source(PlaceQuery(place=args.name, context=args.context, namespace=args.namespace))
    with show_spinner("place", f"reading {source.name}"), last_net(source.name):
        view = view_place(connect(source.where, patience=PATIENCE), namespace=source.namespace)
    if args.json:
        _print_view_document(view, place=args.name)
    else:
        _print_view(view)
    return 0


def _find_source(query: PlaceQuery) -> RunSource:
    """Return the cluster to show. Raises UsageError unless exactly one is possible."""
    places, file = known_places()
    found = sources(query, places=places, file=file, entries=())
    if len(found) == 1:
        return found[0]
    known = ", ".join(sorted(places)) or "none"
    raise UsageError(
        f"No place was named, and {len(found)} places without placeholders exist; known: {known} "
        f"({file or 'no places.yaml'}).",
        fix="Name a place of places.yaml (after you fill in its placeholders), or a kubeconfig context with --context.",
    )


def _print_view(view: PlaceView) -> None:
    drawn = console(sys.stdout)
    versions = ", ".join(f"{name} {version or 'of an unknown version'}" for name, version in view.versions.items())
    drawn.print(Text(f"{view.context}: {versions}"), soft_wrap=True)
    drawn.print()
    if view.slices:
        drawn.print(_table(view.slices))
    else:
        drawn.print(Text("No TPU slices."))
    for line in (*_slice_lines(view.slices), *_quota_lines(view.queues), *view.unread):
        drawn.print(Text(line), soft_wrap=True)


def _table(slices: tuple[TpuSupply, ...]) -> Table:
    table = Table("TPU TYPE", "SLICES", "FREE", "HELD", "QUEUED", "UNAVAILABLE", box=None, pad_edge=False)
    for one in slices:
        numbers = (one.total, one.free, one.in_use, one.queued, len(one.unavailable))
        table.add_row(one.tpu_type, *map(str, numbers))
    return table


def _slice_lines(slices: tuple[TpuSupply, ...]) -> Iterator[str]:
    for one in slices:
        if one.users or one.unavailable:
            yield ""
        yield from (_user_line(one.tpu_type, user) for user in one.users)
        if one.unavailable:
            yield f"{one.tpu_type}  unavailable (cordoned, not Ready, or hosts missing): {', '.join(one.unavailable)}"


def _user_line(tpu_type: str, user: SliceUser) -> str:
    plural = "" if user.slices == 1 else "s"
    verb = "holds" if user.state == "holds" else "waits for"
    return f"{tpu_type}  {user.jobset} (namespace {user.namespace}) {verb} {user.slices} slice{plural}"


def _quota_lines(queues: tuple[QueueQuota, ...]) -> Iterator[str]:
    if queues:
        yield ""
    for queue in queues:
        cohort = f", cohort {queue.cohort}" if queue.cohort else ""
        for quota in queue.quotas:
            yield f"quota  {queue.queue}{cohort}: {quota.flavor} {quota.used} of {quota.total} chips used"


def _print_view_document(view: PlaceView, *, place: str | None) -> None:
    slices = [{**to_builtins(one), "free": one.free, "held": one.in_use, "queued": one.queued} for one in view.slices]
    body = to_builtins(view)
    print_json("place", {"action": "show", "place": place, **body, "slices": slices})
