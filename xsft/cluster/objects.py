"""Objects of Kubernetes as an API server writes them. Pure.

Unknown fields are ignored, and absent ones have their defaults; Go writes null for some of these. The kinds are in the
modules that read them, and `answers` decodes each object of a list by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from msgspec import Struct, ValidationError, convert
from msgspec.json import Decoder

from xsft.base.aliases import JsonObject
from xsft.base.errors import Unreachable

T = TypeVar("T")


class KubernetesStruct(Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of an object. Its fields have the names of the API, in snake case."""


class Condition(Struct, frozen=True, kw_only=True, rename={"at": "lastTransitionTime"}):
    """One condition of any object. A state depends on type, status and reason; only `why` quotes the message."""

    type: str = ""
    status: str = "Unknown"
    """True | False | Unknown, as Kubernetes spells them."""
    reason: str = ""
    message: str = ""
    at: str = ""
    """lastTransitionTime; UTC, ISO 8601."""


def true_condition(conditions: Iterable[Condition], type: str) -> Condition | None:
    """Return the True condition of that type; if there are several, always the same one."""
    found = (c for c in conditions if c.type == type and c.status == "True")
    return min(found, key=lambda c: (c.reason, c.at), default=None)


class Owner(KubernetesStruct, frozen=True, kw_only=True):
    kind: str = ""
    name: str = ""
    uid: str = ""


class ObjectMetadata(KubernetesStruct, frozen=True, kw_only=True):
    name: str
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    owner_references: tuple[Owner, ...] = ()

    @property
    def jobset_owner(self) -> Owner:
        """Return the JobSet among its owners, which Kueue makes the controller; empty without one."""
        return next((owner for owner in self.owner_references if owner.kind == "JobSet"), Owner())


class KubernetesObject(KubernetesStruct, frozen=True, kw_only=True):
    metadata: ObjectMetadata

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        return self.metadata.uid


class Resources(KubernetesStruct, frozen=True, kw_only=True):
    limits: dict[str, Any] = {}
    requests: dict[str, Any] = {}


class ContainerSpec(KubernetesStruct, frozen=True, kw_only=True):
    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    resources: Resources = Resources()


class PodSpec(KubernetesStruct, frozen=True, kw_only=True):
    containers: tuple[ContainerSpec, ...] = ()
    node_selector: dict[str, str] = {}
    node_name: str | None = None


class PodTemplate(KubernetesStruct, frozen=True, kw_only=True):
    spec: PodSpec = PodSpec()


class JobSpec(KubernetesStruct, frozen=True, kw_only=True):
    """The spec of a Job, and of a Deployment."""

    template: PodTemplate = PodTemplate()


class ConditionsStatus(KubernetesStruct, frozen=True, kw_only=True):
    conditions: tuple[Condition, ...] = ()


class BadObject(Struct, frozen=True, kw_only=True):
    """An object of another shape than its kind has."""

    name: str
    why: str
    """One clause: the first field that differs."""


class ObjectList(Struct, Generic[T], frozen=True, kw_only=True):
    objects: tuple[T, ...] = ()
    bad: tuple[BadObject, ...] = ()


def typed(json: JsonObject, kind: Decoder[T]) -> T:
    """Return the object of a dictionary. Raises Unreachable if it has another shape."""
    try:
        return convert(without_nulls(json), kind.type)
    except ValidationError as odd:
        message = f"The cluster has an object of another shape than its kind ({odd})."
        raise Unreachable(message, fix="Look at it with kubectl.", id="not-served", again="unsure") from None


def without_nulls(value: Any) -> Any:
    """Return the JSON without nulls: Go reads them as no value."""
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [without_nulls(inner) for inner in value if inner is not None]
    return value
