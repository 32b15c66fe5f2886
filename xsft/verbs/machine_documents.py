"""Documents about this machine and about Secrets."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import field

from xsft.checks.place_needs import ModeNeed
from xsft.cluster.supply import SliceUser
from xsft.launcher.audit import AuditRow
from xsft.verbs.document import Document, ProblemFields
from xsft.world.discovery import ClusterView, ProjectView
from xsft.world.tools import ToolCheck
from xsft.world.view import QueueQuota


class ModeGaps(Document, frozen=True, kw_only=True):
    """Ids of the missing needs of each mode."""

    mcjax: list[str]
    pathways: list[str]


class DoctorDocument(Document, frozen=True, kw_only=True):
    """`xsft doctor --json`; with `--place` the checks are those of the place."""

    schema_: Literal["xsft.doctor/1"] = field(name="schema")
    checks: list[ToolCheck]
    needs: list[ModeNeed] = []
    """With `--place`: what each mode needs there; empty if its cluster did not answer."""
    modes: ModeGaps | None = None
    """With `--place`: what each mode lacks; a mode with an empty list is ready."""
    ok: bool
    """Whether everything required is present; with `--place`: whether a mode is ready."""


class Environment(Document, frozen=True, kw_only=True):
    """An environment that is ready."""

    name: Literal["xpk", "maxtext", "engine", "compiler"]
    version: str
    """Version of xpk, MaxText, mlx-lm or libtpu."""
    digest: str
    """sha256 of the lock file from which it was installed."""
    python: str
    """Path of its Python interpreter."""


class SetupDocument(Document, frozen=True, kw_only=True):
    """`xsft setup --json`."""

    schema_: Literal["xsft.setup/1"] = field(name="schema")
    environments: list[Environment]


class ServeDocument(Document, frozen=True, kw_only=True):
    """`xsft serve FOLDER|RUN|FILE --json`, printed when the server answers, and by `--dry-run`. `run_name` to `uid` are
    present for FILE only."""

    schema_: Literal["xsft.serve/1"] = field(name="schema")
    url: str
    """Base URL for OpenAI clients, e.g. `http://127.0.0.1:8080/v1`; for FILE inside the cluster."""
    model: str
    """The `model` of requests."""
    folder: str
    """Absolute path of the served model; for FILE `gs://…`, or its repository on the hub."""
    run_name: str | None = None
    """Name of the Deployment, the Service and the PodDisruptionBudget."""
    digest: str | None = None
    """sha256 of all inputs of the server, 64 hex digits."""
    objects: list[dict[str, Any]] = []
    """Objects that are created: the Deployment first; it becomes the owner of the others."""
    audit: list[AuditRow] = []
    action: Literal["planned", "created", "adopted"] | None = None
    uid: str | None = None
    """UID of the Deployment; null for `planned`."""
    problems: list[ProblemFields] = []
    """Warnings and notes of the workload that concern the server."""


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
    unavailable: list[str]
    """Node pools (nodes, for slices of one host) that are cordoned, not Ready, or lack hosts."""
    users: list[SliceUser]


class PlaceDocument(Document, frozen=True, kw_only=True):
    """`xsft place show --json`."""

    schema_: Literal["xsft.place/1"] = field(name="schema")
    action: Literal["show"]
    place: str | None
    """Name in places.yaml; null with --context, or if places.yaml has only one."""
    context: str
    """The kubeconfig context; for a GKE cluster, gcloud's name for it."""
    versions: dict[str, str | None]
    """Versions of Kubernetes, JobSet and Kueue; null if unknown."""
    slices: list[SliceSupply]
    queues: list[QueueQuota]
    unread: list[str]
    """Data that your login may not read, and what is therefore unknown."""


class FoundProject(ProjectView, frozen=True, kw_only=True):
    """A project, with the contexts and clusters that the kubeconfig and gcloud list."""

    cluster: ClusterView


class PlaceAddDocument(Document, frozen=True, kw_only=True):
    """`xsft place add --json`."""

    schema_: Literal["xsft.place-add/1"] = field(name="schema")
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
    problems: list[ProblemFields]
    """Warnings of the verification; an error adds nothing."""
    notes: list[str]
    """Data that could not be found or verified."""


class PlaceCreateDocument(Document, frozen=True, kw_only=True):
    """`xsft place create FILE --json`."""

    schema_: Literal["xsft.place-create/1"] = field(name="schema")
    file: str
    xpk_argv: list[str]
    """The xpk command that creates the cluster, or adds node pools to it."""
    dry_run: list[str]
    """The command of the audited dry run."""
    commands: list[list[str]]
    """Commands that xpk would execute, from its dry run."""
    audit: list[AuditRow]
    """Values of the xpk command that were found in these commands; `where` names the command."""
    created: bool
    """Whether `--yes` ran the command, and Google Cloud lists the cluster."""


class SecretDocument(Document, frozen=True, kw_only=True):
    """`xsft secret create NAME --json`. It never contains the value."""

    schema_: Literal["xsft.secret/1"] = field(name="schema")
    action: Literal["created"]
    """What was done; a Secret that exists is an error (exit status 4): nothing is overwritten."""
    name: str
    key: str
    namespace: str
    context: str
    """The kubeconfig context of its cluster."""
