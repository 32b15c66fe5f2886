"""Documents about this machine and about Secrets."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from xsft.commands.interface_base import Document, Problem
from xsft.commands.interface_runs import AuditRow


class MachineCheck(Document):
    """One check of this machine."""

    id: str
    """Stable id, e.g. `xpk-environment`."""
    ok: bool
    required: bool
    """Whether planning and local runs need it."""
    version: str
    """Version; empty if it has none or it is unknown."""
    needed_for: str
    detail: str
    fix: str
    """The command that fixes it; empty if it is ok."""


class ModeNeed(Document):
    """One thing that runs of a mode need in a place."""

    id: str
    """Stable id, e.g. `head-nodes`."""
    modes: list[Literal["mcjax", "pathways"]]
    ok: bool | None
    """Null if it could not be read."""
    detail: str
    fix: str
    """The command that provides it, or the key of places.yaml to set; empty if it is ok."""


class ModeGaps(Document):
    """Ids of the missing needs of each mode."""

    mcjax: list[str]
    pathways: list[str]


class DoctorDocument(Document):
    """`xsft doctor --json`; with `--place` the checks are those of the place."""

    schema_: Literal["xsft.doctor/1"] = Field(alias="schema")
    checks: list[MachineCheck]
    needs: list[ModeNeed] = []
    """With `--place`: what each mode needs there; empty if its cluster did not answer."""
    modes: ModeGaps | None = None
    """With `--place`: what each mode lacks; a mode with an empty list is ready."""
    ok: bool
    """Whether everything required is present; with `--place`: whether a mode is ready."""


class Environment(Document):
    """An environment that is ready."""

    name: Literal["xpk", "maxtext", "engine"]
    version: str
    """Version of xpk, MaxText or mlx-lm."""
    digest: str
    """sha256 of the lock it was built from."""
    python: str
    """Path of its Python interpreter."""


class SetupDocument(Document):
    """`xsft setup --json`."""

    schema_: Literal["xsft.setup/1"] = Field(alias="schema")
    environments: list[Environment]


class ServeDocument(Document):
    """`xsft serve FOLDER|RUN|FILE --json`, printed when the server answers, and by `--dry-run`. `run_name` to `uid` are
    present for FILE only."""

    schema_: Literal["xsft.serve/1"] = Field(alias="schema")
    url: str
    """Base URL for OpenAI clients, e.g. `http://127.0.0.1:8080/v1`; for FILE inside the cluster."""
    model: str
    """The `model` of requests."""
    folder: str
    """Absolute path of the served model; for FILE `gs://…`, or its repository on the hub."""
    run_name: str | None = None
    """Name of the Deployment, the Service and the PodDisruptionBudget."""
    digest: str | None = None
    """sha256 over what decides the server, 64 hex digits."""
    objects: list[dict[str, Any]] = []
    """Objects that are created: the Deployment first; it becomes the owner of the others."""
    audit: list[AuditRow] = []
    action: Literal["planned", "created", "adopted"] | None = None
    uid: str | None = None
    """UID of the Deployment; null for `planned`."""
    problems: list[Problem] = []
    """Warnings and notes of the workload that concern the server."""


class SliceUser(Document):
    """A Kueue Workload that holds slices, or waits for them."""

    jobset: str
    """Name of its JobSet; of the Workload itself if it has none."""
    namespace: str
    slices: int
    state: Literal["holds", "waits"]


class SliceSupply(Document):
    """All slices of one TPU type."""

    tpu_type: str
    total: int
    free: int
    """Slices that could start now: neither unavailable nor held."""
    held: int
    """Slices for which Kueue has given quota."""
    queued: int
    """Slices that waiting runs ask for."""
    unavailable: list[str]
    """Node pools (nodes, for slices of one host) that are cordoned, not Ready, or lack hosts."""
    users: list[SliceUser]


class FlavorQuota(Document):
    """Quota of one flavor; numbers as Kubernetes writes them."""

    flavor: str
    resource: str
    total: str
    used: str


class QueueQuota(Document):
    """Quota of one ClusterQueue for TPU chips."""

    queue: str
    cohort: str | None
    quotas: list[FlavorQuota]


class PlaceDocument(Document):
    """`xsft place show --json`."""

    schema_: Literal["xsft.place/1"] = Field(alias="schema")
    action: Literal["show"]
    place: str | None
    """Name in places.yaml; null with --context, or if places.yaml has only one."""
    context: str
    """The kubeconfig context, or the name that stands for it."""
    versions: dict[str, str | None]
    """Versions of Kubernetes, JobSet and Kueue; null if unknown."""
    slices: list[SliceSupply]
    queues: list[QueueQuota]
    unread: list[str]
    """What this login may not read, and what is therefore unknown."""


class GkeCluster(Document):
    """A GKE cluster of the project."""

    name: str
    location: str
    """Zone or region."""
    status: str
    """`RUNNING` if it can be used."""
    slices: dict[str, int]
    """TPU type to number of slices, at the initial size of the node pools."""


class FoundCluster(Document):
    """What the new place's cluster has for runs; empty if it could not be read."""

    context: str
    namespace_exists: bool
    queues: list[str]
    """LocalQueues of the namespace."""
    priority_classes: list[str]
    slices: dict[str, int]
    """TPU type to number of slices, counted from nodes."""
    unread: list[str]
    """What could not be read, and why."""


class FoundProject(Document):
    """What the kubeconfig and gcloud list."""

    project: str | None
    contexts: list[str]
    clusters: list[GkeCluster]
    buckets: list[str]
    registries: list[str]
    unread: list[str]
    cluster: FoundCluster


class PlaceAddDocument(Document):
    """`xsft place add --json`."""

    schema_: Literal["xsft.place-add/1"] = Field(alias="schema")
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
    problems: list[Problem]
    """Warnings of the verification; an error adds nothing."""
    notes: list[str]
    """What could not be found or verified."""


class PlaceCreateDocument(Document):
    """`xsft place create FILE --json`."""

    schema_: Literal["xsft.place-create/1"] = Field(alias="schema")
    file: str
    xpk_argv: list[str]
    """The line of xpk that makes the cluster, or adds node pools to it."""
    dry_run: list[str]
    """The dry run that was audited."""
    commands: list[list[str]]
    """Commands that xpk would execute, as its dry run names them."""
    audit: list[AuditRow]
    """Values of the line that the commands hold; `where` names the command."""


class SecretDocument(Document):
    """`xsft secret create NAME --json`. It never contains the value."""

    schema_: Literal["xsft.secret/1"] = Field(alias="schema")
    action: Literal["created"]
    """What was done; a Secret that exists is an error (exit status 4): nothing is overwritten."""
    name: str
    key: str
    namespace: str
    context: str
    """The kubeconfig context of its cluster."""
