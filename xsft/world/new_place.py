"""Find what a new place needs, verify it, and add it to places.yaml."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from xsft.base.errors import Refused, SpecError, UsageError
from xsft.base.lenient import JsonObject
from xsft.base.names import list_names
from xsft.base.problems import Problem, errors_in
from xsft.base.reporting import Reporter
from xsft.cluster.places import load_places, parse_places
from xsft.machine.files import write_atomic
from xsft.machine.paths import PLACES, places_file
from xsft.machine.process import own_environment
from xsft.machine.regular import read_text
from xsft.spec.place import DEFAULT_QUEUE
from xsft.spec.yamledit import render_place, with_place
from xsft.world.check import PlaceProbe
from xsft.world.discovery import ClusterView, ProjectView, this_gcloud, verify, view_cluster, view_project

GKE_CONTEXT = re.compile(r"gke_([^_]+)_([^_]+)_([^_]+)")
"""The context that `gcloud container clusters get-credentials` writes: project, location and cluster."""
FOLDER = "runs"
"""Folder of the output that is suggested in a bucket."""

ChooseOption = Callable[[str, tuple[str, ...], str], str]
"""Asks the user a question with these options and this default, and returns the answer."""


class PlaceRequest(Struct, frozen=True, kw_only=True):
    """A new place as the user gives it; what is None is found, asked for or left out."""

    name: str | None = None
    """Default: the cluster's."""
    context: str | None = None
    project: str | None = None
    zone: str | None = None
    cluster: str | None = None
    namespace: str | None = None
    queue: str | None = None
    output: str | None = None
    registry: str | None = None
    proxy_image: str | None = None
    server_image: str | None = None
    scratch: str | None = None
    replace: bool = False
    """Replace an existing place of that name."""
    offline: bool = False
    """Query neither gcloud nor the cluster."""
    write: bool = True
    """Change places.yaml."""


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


def add_place(request: PlaceRequest, *, ask: ChooseOption | None, listener: Reporter) -> NewPlace:
    """Return the place, which is then in places.yaml. `ask`: None without a terminal.

    Raises UsageError if no cluster is named and none or several are found, SpecError for an invalid place or
    places.yaml, Refused if the name is taken.
    """
    file = places_file(Path.cwd(), env=own_environment(), home=Path.home()) or Path(PLACES)
    text = ""
    if file.exists():
        load_places(Path.cwd())  # raises SpecError for an invalid file, which must not be changed
        text = read_text(file)
    _refuse_existing(request.name, text, replace=request.replace, file=file)
    new = _PlaceFinder(request=request, ask=ask, listener=listener).find(file)
    _refuse_existing(new.name, text, replace=request.replace, file=file)
    changed = with_place(text, new.name, new.values)
    if request.write:
        write_atomic(file, changed)
    return new


def _refuse_existing(name: str | None, text: str, *, replace: bool, file: Path) -> None:
    if name and not replace and text and name in parse_places(text.removeprefix("\ufeff")):
        raise Refused(f"{file} already has a place {name}.", fix="Give another name, or --replace to replace it.")


class _PlaceFinder(Struct, frozen=True, kw_only=True):
    """A search for the values of a new place."""

    request: PlaceRequest
    ask: ChooseOption | None
    listener: Reporter

    def find(self, file: Path) -> NewPlace:
        request = self.request
        project = ProjectView()
        if not request.offline:
            with self.listener.waiting("place", "reading the kubeconfig and asking gcloud"):
                project = view_project(request.project, gcloud=this_gcloud())
        values = self._choose_cluster(project)
        if request.namespace:
            values["namespace"] = request.namespace
        usual_name = re.sub(r"[^A-Za-z0-9._-]+", "-", str(values.get("cluster") or values["context"]))
        name = request.name or self._answer("Name of the place", (), default=usual_name)
        view = ClusterView()
        if not request.offline:
            place = parse_places(render_place(name, values))[name]
            with self.listener.waiting("place", "reading the cluster"):
                view = view_cluster(place, world=PlaceProbe())
        values |= self._choose_queue(view) | self._choose_folders(project)
        pathways = {
            "proxy_image": request.proxy_image,
            "server_image": request.server_image,
            "scratch": request.scratch,
        }
        if any(pathways.values()):
            values["pathways"] = {key: setting for key, setting in pathways.items() if setting}
        place = parse_places(render_place(name, values))[name]
        problems, notes = ((), ()) if request.offline else verify(place, view, world=PlaceProbe())
        if errors_in(problems):
            raise SpecError(problems)
        return NewPlace(
            name=name,
            values=values,
            file=file,
            project=project,
            cluster=view,
            problems=problems,
            notes=(*project.unread, *notes, *_not_given(values, project)),
        )

    def _choose_cluster(self, project: ProjectView) -> JsonObject:
        """Return the keys of the cluster: given, the only one that was found, or chosen by the user."""
        keys = {"project": self.request.project, "zone": self.request.zone, "cluster": self.request.cluster}
        named = {key: name for key, name in keys.items() if name}
        if self.request.context:
            return {"context": self.request.context}
        if len(named) == 3:
            return named
        choices = {label: values for label, values in _cluster_choices(project) if named.items() <= values.items()}
        if len(choices) == 1:
            return next(iter(choices.values()))
        if choices and self.ask:
            picked = self.ask("Cluster", tuple(choices), next(iter(choices)))
            if picked in choices:
                return choices[picked]
        if self.ask and (entered := _enter_cluster(named, project, ask=self.ask)):
            return entered
        labels = f": {list_names(tuple(choices), 20)}" if choices else ""
        raise UsageError(
            f"No cluster was named, and {len(choices)} were found{labels}."
            f" {' '.join(f'({why})' for why in project.unread)}".rstrip(),
            fix="Give --project, --zone and --cluster, or --context NAME of your kubeconfig.",
        )

    def _choose_queue(self, view: ClusterView) -> JsonObject:
        queue = self.request.queue
        if queue is None:
            queue = view.queues[0] if len(view.queues) == 1 else DEFAULT_QUEUE
            if len(view.queues) > 1:
                queue = self._answer("Queue", view.queues, default=queue)
        return {} if queue == DEFAULT_QUEUE else {"queue": queue}

    def _choose_folders(self, project: ProjectView) -> JsonObject:
        outputs = tuple(f"{bucket}/{FOLDER}" for bucket in project.buckets)
        output = self.request.output or self._answer("Output", outputs, default="")
        registry = self.request.registry or self._answer("Registry", project.registries, default="")
        return {key: folder for key, folder in (("output", output), ("registry", registry)) if folder}

    def _answer(self, question: str, options: tuple[str, ...], *, default: str) -> str:
        return self.ask(question, options, default) if self.ask else default


def _enter_cluster(named: JsonObject, project: ProjectView, *, ask: ChooseOption) -> JsonObject | None:
    """Return the keys of a cluster that was not found, as the user names it; None if an answer is empty."""
    if not named and (context := ask("Kubeconfig context (empty: a GKE cluster)", (), "")):
        return {"context": context}
    defaults = {"project": project.project or "", "zone": "", "cluster": ""}
    entered = {key: named.get(key) or ask(key.title(), (), default) for key, default in defaults.items()}
    return entered if all(entered.values()) else None


def _cluster_choices(project: ProjectView) -> Iterator[tuple[str, JsonObject]]:
    """Yield a label and the keys of each cluster, once: a GKE cluster may also have a context."""
    listed = set()
    for gke in project.clusters:
        slices = ", ".join(f"{count} x {tpu_type}" for tpu_type, count in gke.slices.items()) or "no TPU node pool"
        listed.add((project.project, gke.location, gke.name))
        values = {"project": project.project, "zone": gke.location, "cluster": gke.name}
        yield f"{project.project}/{gke.location}/{gke.name} ({gke.status}; {slices})", values
    for context in project.contexts:
        match = GKE_CONTEXT.fullmatch(context)
        if match is None:
            yield context, {"context": context}
        elif match.groups() not in listed:
            yield context, dict(zip(("project", "zone", "cluster"), match.groups(), strict=True))


def _not_given(values: JsonObject, project: ProjectView) -> Iterator[str]:
    for key, names in (("output", project.buckets), ("registry", project.registries)):
        if key not in values:
            choices = f"; {project.project} has: {', '.join(names)}" if names else ""
            yield f"{key} was not given (--{key}){choices}"
