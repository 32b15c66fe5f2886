"""`xsft place show|add|create`: print what a cluster has for runs, add a place to places.yaml, or print the xpk command
that creates a cluster; with `--yes`, run it. `xsft secret create NAME`: create the Kubernetes Secret that a workload
names; its value comes from stdin or a file, never from argv."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

from rich.table import Table
from rich.text import Text

from xsft.base.amounts import counted_text
from xsft.base.errors import UsageError
from xsft.base.secrets import looks_secret
from xsft.cluster.api import FOR_READS
from xsft.cluster.cluster import connect
from xsft.cluster.errors import last_net
from xsft.cluster.sources import PlaceQuery, RunSource, known_places, sources
from xsft.cluster.supply import SliceUser
from xsft.launcher.audit import AuditRow
from xsft.machine.deadline import LOOKS_S, Deadline
from xsft.machine.regular import read_secret_file, read_secret_stdin
from xsft.machine.streams import has_terminal
from xsft.planning import api
from xsft.spec.yamledit import render_place
from xsft.verbs.console import console
from xsft.verbs.document import (
    Document,
    VerbDocument,
    choose,
    document_of,
    print_lines,
    print_to_stderr,
    problem_documents,
    report_document,
    request_of,
    show_spinner,
)
from xsft.verbs.terminal import terminal
from xsft.world.discovery import ClusterView, GkeCluster, ProjectView
from xsft.world.new_cluster import make_cluster, plan_cluster
from xsft.world.new_place import PlaceRequest, add_place
from xsft.world.new_secret import SecretRequest, create_secret
from xsft.world.view import QueueQuota, view_place


class SliceSupply(Document, frozen=True, kw_only=True):
    """The slices of one TPU type."""

    tpu_type: str
    total: int
    free: int
    """Slices that could start now: neither unavailable nor held."""
    held: int
    """Slices with quota from Kueue."""
    queued: int
    """Slices that waiting runs ask for."""
    unavailable: tuple[str, ...]
    """Node pools (nodes, for slices of one host) that are cordoned, not Ready, or lack hosts."""
    users: tuple[SliceUser, ...]


class PlaceDocument(VerbDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.place/1"):
    """`xsft place show --json`."""

    action: Literal["show"]
    place: str | None
    """Name in places.yaml; null with --context, or if places.yaml has only one."""
    context: str
    """The kubeconfig context; for a GKE cluster, gcloud's name for it."""
    versions: dict[str, str | None]
    """Versions of Kubernetes, JobSet and Kueue; null if unknown."""
    slices: tuple[SliceSupply, ...]
    queues: tuple[QueueQuota, ...]
    unread: tuple[str, ...]
    """Data that your login may not read, and what is therefore unknown."""


class FoundProject(ProjectView, frozen=True, kw_only=True):
    """A project, with the contexts and clusters that the kubeconfig and gcloud list."""

    cluster: ClusterView


class PlaceAddDocument(VerbDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.place-add/1"):
    """`xsft place add --json`."""

    action: Literal["added", "printed"]
    place: str
    """Name of the new place."""
    file: str
    """Path of places.yaml."""
    values: dict[str, Any]
    """The place's keys, as written."""
    entry: str
    """The added YAML."""
    found: FoundProject
    notes: tuple[str, ...]
    """Data that could not be found or verified."""


class PlaceCreateDocument(VerbDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.place-create/1"):
    """`xsft place create FILE --json`."""

    file: str
    xpk_argv: tuple[str, ...]
    """The xpk command that creates the cluster, or adds node pools to it."""
    dry_run: tuple[str, ...]
    """The command of the audited dry run."""
    commands: tuple[tuple[str, ...], ...]
    """Commands that xpk would execute, from its dry run."""
    audit: tuple[AuditRow, ...]
    """Values of the xpk command that were found in these commands; `where` names the command."""
    created: bool
    """Whether `--yes` ran the command, and Google Cloud lists the cluster."""


class SecretDocument(VerbDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.secret/1"):
    """`xsft secret create NAME --json`. It never contains the value."""

    action: Literal["created"]
    """What was done; a Secret that exists is an error (exit status 4): nothing is overwritten."""
    name: str
    key: str
    namespace: str
    context: str
    """The kubeconfig context of its cluster."""


def run(args: argparse.Namespace) -> int:
    match args.action:
        case "add":
            return _add_place(args)
        case "create":
            return _create_place(args)
        case _:
            return _show_place(args)


def _show_place(args: argparse.Namespace) -> int:
    if args.name and args.context:
        raise UsageError("Both a place and --context are given.", fix="Give one of them.")
    source = _find_source(request_of(args, PlaceQuery, place=args.name))
    with show_spinner("place", f"reading {source.name}"), last_net(source.name):
        cluster = connect(source.where, patience=FOR_READS).by(Deadline.after(LOOKS_S))
        view = view_place(cluster, namespace=source.namespace)
    slices = tuple(
        document_of(SliceSupply, supply, free=supply.free, held=supply.in_use, queued=supply.queued)
        for supply in view.slices
    )
    document = document_of(PlaceDocument, view, action="show", place=args.name, slices=slices)
    return report_document(document, _draw_place, as_json=args.json)


def _find_source(query: PlaceQuery) -> RunSource:
    """Return the cluster to show. Raises UsageError unless exactly one is possible."""
    places, file = known_places()
    candidates = sources(query, places=places, file=file, entries=())
    if len(candidates) == 1:
        return candidates[0]
    names = ", ".join(sorted(places)) or "none"
    raise UsageError(
        f"No place was named, and {len(candidates)} places without placeholders exist; known: {names} "
        f"({file or 'no places.yaml'}).",
        fix="Name a place of places.yaml (after you fill in its placeholders), or a kubeconfig context with --context.",
    )


def _draw_place(document: PlaceDocument) -> None:
    screen = console(sys.stdout)
    versions = ", ".join(f"{name} {version or 'of an unknown version'}" for name, version in document.versions.items())
    screen.print(Text(f"{document.context}: {versions}"), soft_wrap=True)
    screen.print()
    if document.slices:
        table = Table("TPU TYPE", "SLICES", "FREE", "HELD", "QUEUED", "UNAVAILABLE", box=None, pad_edge=False)
        for supply in document.slices:
            numbers = (supply.total, supply.free, supply.held, supply.queued, len(supply.unavailable))
            table.add_row(supply.tpu_type, *map(str, numbers))
        screen.print(table)
    else:
        screen.print(Text("No TPU slices."))
    for line in (*_slice_lines(document.slices), *_quota_lines(document.queues), *document.unread):
        screen.print(Text(line), soft_wrap=True)


def _slice_lines(slices: tuple[SliceSupply, ...]) -> Iterator[str]:
    for supply in slices:
        if supply.users or supply.unavailable:
            yield ""
        for user in supply.users:
            verb = "holds" if user.state == "holds" else "waits for"
            slices_text = counted_text(user.slices, "slice")
            yield f"{supply.tpu_type}  {user.jobset} (namespace {user.namespace}) {verb} {slices_text}"
        if supply.unavailable:
            missing = ", ".join(supply.unavailable)
            yield f"{supply.tpu_type}  unavailable (cordoned, not Ready, or hosts missing): {missing}"


def _quota_lines(queues: tuple[QueueQuota, ...]) -> Iterator[str]:
    if queues:
        yield ""
    for queue in queues:
        cohort = f", cohort {queue.cohort}" if queue.cohort else ""
        for quota in queue.quotas:
            yield f"quota  {queue.queue}{cohort}: {quota.flavor} {quota.used} of {quota.total} chips used"


def _add_place(args: argparse.Namespace) -> int:
    request = request_of(args, PlaceRequest)
    new = add_place(request, ask=choose if has_terminal() else None, listener=terminal())
    document = document_of(
        PlaceAddDocument,
        new,
        action="added" if request.write else "printed",
        place=new.name,
        file=str(new.file),
        entry=render_place(new.name, new.values),
        found=document_of(FoundProject, new.project, cluster=new.cluster),
        problems=problem_documents(new.problems),
    )
    return report_document(document, _print_added, as_json=args.json)


def _print_added(document: PlaceAddDocument) -> None:
    """Print the entry of places.yaml; what was found is no part of it, and goes to stderr."""
    cluster = document.found.cluster
    if cluster.slices:
        print_to_stderr(f"slices: {', '.join(f'{count} x {tpu_type}' for tpu_type, count in cluster.slices.items())}")
    if cluster.priority_classes:
        print_to_stderr(f"priority classes: {', '.join(cluster.priority_classes)}")
    for note in document.notes:
        print_to_stderr(f"note: {note}")
    if document.action == "added":
        print_lines((f"{document.file}: added the place {document.place}",))
    print_lines((document.entry.rstrip("\n"),))


def _create_place(args: argparse.Namespace) -> int:
    if args.name is None:
        raise UsageError("place create needs a workload.", fix="xsft place create FILE")
    workload = api.load(args.name, settings=args.settings)
    plan = plan_cluster(workload, listener=terminal())
    document = PlaceCreateDocument(
        file=workload.file,
        xpk_argv=plan.line.argv,
        dry_run=plan.line.dry_run,
        commands=plan.commands,
        created=args.yes,
        audit=plan.audit,
    )
    if not args.json:
        print_lines(_creation_lines(document))  # before xpk runs for up to an hour
    if not args.yes:
        return report_document(document, as_json=args.json)
    cluster = make_cluster(plan.line, python=plan.python, on_line=terminal().say)
    return report_document(document, partial(_created_lines, cluster=cluster), as_json=args.json)


def _created_lines(document: PlaceCreateDocument, *, cluster: GkeCluster) -> Iterator[str]:
    slices = ", ".join(f"{count} x {name}" for name, count in cluster.slices.items()) or "no TPU slices"
    adding = shlex.join(("xsft", "place", "add", *document.xpk_argv[3:6]))
    yield f"{cluster.name}: {cluster.status}, {slices}. To use it: {adding}"


def _creation_lines(document: PlaceCreateDocument) -> Iterator[str]:
    commands = document.commands
    yield shlex.join(document.xpk_argv)
    yield ""
    yield (
        f"# {len(document.audit)} values audited in the dry run of xpk; it would execute {len(commands)} commands, "
        "among them:"
    )
    yield from (f"# {shlex.join(argv)}" for argv in commands if argv[:1] == ("gcloud",) and "create" in argv)
    if document.dry_run[:-1] != document.xpk_argv:
        yield "# xpk's dry run shows one slice of a reservation; the line above makes all of them."


def secret(args: argparse.Namespace) -> int:
    texts = [text for text in vars(args).values() if isinstance(text, str)]
    if args.stray or args.literal is not None or any(map(looks_secret, texts)):
        # any argument that could be the value; none is shown
        raise UsageError(
            "A value was given on the command line, which every user of this machine can read. xsft does not use "
            "or show it.",
            fix="Pipe it in (xsft secret create NAME < FILE) or give --from-file FILE; replace a token that was "
            "exposed.",
            id="secret-on-command-line",
        )
    read = partial(read_secret_stdin, sys.stdin.buffer)
    if args.from_file:
        read = partial(read_secret_file, Path(args.from_file))
    created = create_secret(request_of(args, SecretRequest), read=read, waiting=partial(show_spinner, "secret"))
    return report_document(document_of(SecretDocument, created, action="created"), _secret_lines, as_json=args.json)


def _secret_lines(created: SecretDocument) -> Iterator[str]:
    where = f"namespace {created.namespace} (context {created.context})"
    yield f"created the Secret {created.name}, key {created.key}, in {where}"
    reference = f"{{secret: {created.name}, key: {created.key}}}"
    yield f"in a workload: secrets: {{hf_token: {reference}}}, or secrets: {{env: {{WANDB_API_KEY: {reference}}}}}"
