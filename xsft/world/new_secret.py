"""Create a Kubernetes Secret that a workload names."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from xsft.base.errors import Refused, UsageError
from xsft.base.reporting import ShowWaiting, wait_silently
from xsft.cluster.cluster import Cluster, connect
from xsft.cluster.exactly_once import CreatedObject
from xsft.cluster.places import load_places
from xsft.records.run_cluster import ClusterAddress

NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")


class SecretRequest(Struct, frozen=True, kw_only=True):
    """A Secret with one key, in the namespace of a place or of a kubeconfig context."""

    name: str
    key: str
    place: str | None = None
    context: str | None = None
    namespace: str | None = None


class CreatedSecret(Struct, frozen=True, kw_only=True):
    """A Secret that was created, without its value."""

    name: str
    key: str
    namespace: str
    context: str


def create_secret(
    request: SecretRequest, *, read: Callable[[], bytes], waiting: ShowWaiting = wait_silently
) -> CreatedSecret:
    """Return the Secret that was created. `read`: reads its value, when its names and its cluster are known.

    Raises UsageError for an invalid name and an unknown cluster, Refused if the Secret exists.
    """
    if not NAME.fullmatch(request.name):
        raise _malformed("The Secret's name", "lower-case letters, digits and dashes, at most 63: hf-token")
    if not KEY.fullmatch(request.key):
        raise _malformed("The key", "letters, digits, dots, dashes and underscores, at most 253: token")
    if request.namespace is not None and not NAME.fullmatch(request.namespace):
        raise _malformed("The namespace", "lower-case letters, digits and dashes, at most 63: default")
    cluster, namespace = _chosen_cluster(request)
    data = {request.key: read()}
    with waiting(f"creating the Secret {request.name} on {cluster.context}"):
        outcome = cluster.create_secret(name=request.name, namespace=namespace, data=data)
    if not isinstance(outcome, CreatedObject):
        raise Refused(
            f"The Secret {request.name} already exists in namespace {namespace} (context {cluster.context});"
            " it was not overwritten.",
            fix=f"Use another name, or delete it yourself: kubectl --context {cluster.context} "
            f"-n {namespace} delete secret {request.name}",
            id="secret-exists",
        )
    return CreatedSecret(name=request.name, key=request.key, namespace=namespace, context=cluster.context)


def _malformed(what: str, allowed: str) -> UsageError:
    """Return the error for a malformed argument. The argument is not quoted, because it may be the secret value."""
    return UsageError(f"{what} is not valid.", fix=f"Write {allowed}.")


def _chosen_cluster(request: SecretRequest) -> tuple[Cluster, str]:
    """Return the cluster and the namespace in it."""
    if request.context:
        return connect(ClusterAddress(context=request.context)), request.namespace or "default"
    places, file = load_places(Path.cwd())
    place = places.get(request.place or "")
    if place is None:
        message = f"Place {request.place} was not found." if request.place else "No cluster given for the Secret."
        raise UsageError(
            f"{message} Known places: {', '.join(sorted(places)) or 'none'} ({file or 'no places.yaml'}).",
            fix="Give --place NAME, or --context NAME of your kubeconfig.",
        )
    return connect(place), request.namespace or place.namespace
