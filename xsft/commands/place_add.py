"""`xsft place add [NAME]`: find what a place needs, verify it, and add it to places.yaml."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, to_builtins

from xsft.aliases import JsonObject
from xsft.effects.inputs.places import load_places, parse_places
from xsft.effects.inputs.places_file import FILE, places_file
from xsft.effects.machine.files import write_atomic
from xsft.effects.machine.process import own_environment
from xsft.effects.machine.regular import read_text
from xsft.effects.machine.streams import has_terminal
from xsft.effects.places.check import PlaceProbe
from xsft.effects.places.discovery import ClusterView, ProjectView, this_gcloud, verify, view_cluster, view_project
from xsft.errors import Refused, SpecError, UsageError
from xsft.naming import list_names
from xsft.problems import Problem, errors_in
from xsft.screen.asking import choose
from xsft.screen.documents import print_json
from xsft.screen.failure import problem_documents
from xsft.screen.progress import spinning
from xsft.spec.place import DEFAULT_QUEUE
from xsft.spec.placestext import render_place, with_place

GKE_CONTEXT = re.compile(r"gke_([^_]+)_([^_]+)_([^_]+)")
"""The context that `gcloud container clusters get-credentials` writes: project, location and cluster."""
FOLDER = "runs"
"""Folder of the output that is suggested in a bucket."""


class NewPlace(Struct, frozen=True, kw_only=True):
    """A place that was verified, and what was found on the way."""

    name: str
    values: JsonObject
    file: Path
    project: ProjectView
    cluster: ClusterView
    problems: tuple[Problem, ...]
    """Warnings; an error adds nothing."""
    notes: tuple[str, ...]


def run(args: argparse.Namespace) -> int:
    file = places_file(Path.cwd(), env=own_environment(), home=Path.home()) or Path(FILE)
    text = _text_of_places(file)
    _refuse_existing(args.name, text, args=args, file=file)
    new = _new_place(args, file=file)
    _refuse_existing(new.name, text, args=args, file=file)
    changed = with_place(text, new.name, new.values)
    if not args.print:
        write_atomic(file, changed)
    _report_place(new, args=args)
    return 0


def _text_of_places(file: Path) -> str:
    """Return the file's text with every byte; empty if there is no file. Raises SpecError for an invalid file."""
    if not file.exists():
        return ""
    load_places(Path.cwd())
    return read_text(file)


def _refuse_existing(name: str | None, text: str, *, args: argparse.Namespace, file: Path) -> None:
    if name and not args.replace and text and name in parse_places(text.removeprefix("\ufeff")):
        raise Refused(f"{file} already has a place {name}.", fix="Give another name, or --replace to replace it.")


def _new_place(args: argparse.Namespace, *, file: Path) -> NewPlace:
    with spinning("place", "reading the kubeconfig and asking gcloud"):
        found = ProjectView() if args.offline else view_project(args.project, gcloud=this_gcloud())
    values = _choose_cluster(args, found) | ({"namespace": args.namespace} if args.namespace else {})
    name = args.name or _ask_at_terminal("Name of the place", (), default=_name_for(values))
    view = ClusterView() if args.offline else _view(name, values)
    values |= _choose_queue(args, view) | _folders(args, found) | _pathways_keys(args)
    place = parse_places(render_place(name, values))[name]
    problems, notes = ((), ()) if args.offline else verify(place, view, world=PlaceProbe())
    if errors_in(problems):
        raise SpecError(tuple(problems))
    return NewPlace(
        name=name,
        values=values,
        file=file,
        project=found,
        cluster=view,
        problems=problems,
        notes=(*found.unread, *notes, *_not_given(values, found)),
    )


def _choose_cluster(args: argparse.Namespace, found: ProjectView) -> JsonObject:
    """Return the keys of the cluster: given, the only one that was found, or chosen at the terminal."""
    given = {key: getattr(args, key) for key in ("project", "zone", "cluster") if getattr(args, key)}
    if args.context or len(given) == 3:
        return {"context": args.context} if args.context else given
    known = {label: values for label, values in _cluster_choices(found) if given.items() <= values.items()}
    if len(known) == 1:
        return next(iter(known.values()))
    if known and has_terminal():
        picked = choose("Cluster", tuple(known), default=next(iter(known)))
        if picked in known:
            return known[picked]
    if has_terminal() and (entered := _enter_cluster(given, found)):
        return entered
    raise UsageError(
        f"No cluster was named, and {len(known)} were found{': ' if known else ''}{list_names(tuple(known), 20)}."
        f" {' '.join(f'({why})' for why in found.unread)}".rstrip(),
        fix="Give --project, --zone and --cluster, or --context NAME of your kubeconfig.",
    )


def _enter_cluster(given: JsonObject, found: ProjectView) -> JsonObject | None:
    """Return the keys of a cluster that was not found, as the user names it; None if an answer is empty."""
    if not given and (context := choose("Kubeconfig context (empty: a GKE cluster)", (), default="")):
        return {"context": context}
    defaults = {"project": found.project or "", "zone": "", "cluster": ""}
    entered = {key: given.get(key) or choose(key.title(), (), default=default) for key, default in defaults.items()}
    return entered if all(entered.values()) else None


def _cluster_choices(found: ProjectView) -> Iterator[tuple[str, JsonObject]]:
    """Yield a label and the keys of each cluster, once: a GKE cluster may also have a context."""
    seen = set()
    for one in found.clusters:
        slices = ", ".join(f"{count} x {tpu_type}" for tpu_type, count in one.slices.items()) or "no TPU node pool"
        seen.add((found.project, one.location, one.name))
        values = {"project": found.project, "zone": one.location, "cluster": one.name}
        yield f"{found.project}/{one.location}/{one.name} ({one.status}; {slices})", values
    for context in found.contexts:
        match = GKE_CONTEXT.fullmatch(context)
        if match is None:
            yield context, {"context": context}
        elif match.groups() not in seen:
            yield context, dict(zip(("project", "zone", "cluster"), match.groups(), strict=True))


def _name_for(values: JsonObject) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", str(values.get("cluster") or values["context"]))


def _view(name: str, values: JsonObject) -> ClusterView:
    place = parse_places(render_place(name, values))[name]
    with spinning("place", "reading the cluster"):
        return view_cluster(place, world=PlaceProbe())


def _choose_queue(args: argparse.Namespace, view: ClusterView) -> JsonObject:
    usual = DEFAULT_QUEUE if DEFAULT_QUEUE in view.queues or len(view.queues) != 1 else view.queues[0]
    queue = args.queue or (_ask_at_terminal("Queue", view.queues, default=usual) if len(view.queues) > 1 else usual)
    return {} if queue == DEFAULT_QUEUE else {"queue": queue}


def _folders(args: argparse.Namespace, found: ProjectView) -> JsonObject:
    outputs = tuple(f"{bucket}/{FOLDER}" for bucket in found.buckets)
    output = args.output or _ask_at_terminal("Output", outputs, default="")
    registry = args.registry or _ask_at_terminal("Registry", found.registries, default="")
    return {key: value for key, value in (("output", output), ("registry", registry)) if value}


def _pathways_keys(args: argparse.Namespace) -> JsonObject:
    keys = ("proxy_image", "server_image", "scratch")
    given = {key: getattr(args, key) for key in keys if getattr(args, key)}
    return {"pathways": given} if given else {}


def _ask_at_terminal(question: str, options: tuple[str, ...], *, default: str) -> str:
    """Return the answer at a terminal, elsewhere the default."""
    return choose(question, options, default=default) if has_terminal() else default


def _not_given(values: JsonObject, found: ProjectView) -> Iterator[str]:
    for key, known in (("output", found.buckets), ("registry", found.registries)):
        if key not in values:
            yield f"{key} was not given (--{key})" + (f"; {found.project} has: {', '.join(known)}" if known else "")


def _report_place(new: NewPlace, *, args: argparse.Namespace) -> None:
    entry = render_place(new.name, new.values)
    if args.json:
        _print_place(new, entry=entry, written=not args.print)
        return
    for line in _place_lines(new):
        sys.stderr.write(f"{line}\n")
    sys.stdout.write(entry if args.print else f"{new.file}: added the place {new.name}\n{entry}")


def _place_lines(new: NewPlace) -> Iterator[str]:
    view = new.cluster
    if view.slices:
        yield f"slices: {', '.join(f'{count} x {tpu_type}' for tpu_type, count in view.slices.items())}"
    if view.priority_classes:
        yield f"priority classes: {', '.join(view.priority_classes)}"
    yield from (f"{problem.severity}: {problem.message}\n  fix: {problem.fix}" for problem in new.problems)
    yield from (f"note: {note}" for note in new.notes)


def _print_place(new: NewPlace, *, entry: str, written: bool) -> None:
    body = {
        "action": "added" if written else "printed",
        "place": new.name,
        "file": str(new.file),
        "values": new.values,
        "entry": entry,
        "found": {**to_builtins(new.project), "cluster": to_builtins(new.cluster)},
        "problems": problem_documents(new.problems),
        "notes": list(new.notes),
    }
    print_json("place-add", body)
