"""A list of objects most of which are known from before: it is asked which have changed, and only those are got.

Whatever changes in an object changes its resourceVersion, so what was made of it at that version is made of it still.
Metadata alone costs a server half of what whole objects cost it, and of that who looks takes three words.

source: kubernetes.io/docs/reference/using-api/api-concepts, "Resource versions", "Alternate representations of
resources".
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from xsft.effects.cluster_api import Api
from xsft.effects.cluster_errors import Ask, Reply
from xsft.effects.cluster_http import JSON, Lost
from xsft.effects.cluster_resources import Resource
from xsft.effects.parallel import answers

T = TypeVar("T")

VERSIONS_ONLY = f"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, {JSON}"
"""What does not know the first sends whole objects, of which the same is read."""
AT_MOST, AT_LEAST = 64, 16
"""Objects that are got one by one, where they are not the half of all; where more have changed, the list is read."""
THREADS = 4
GIVE_UP_S = 60.0


class Known(Protocol[T]):
    """What was made of objects, by their versions."""

    def __bool__(self) -> bool:
        """Whether anything is known."""

    def get(self, version: str) -> tuple[T] | None: ...

    def add(self, version: str, made: T) -> None: ...


class _Metadata(Struct, frozen=True, rename="camel"):
    name: str = ""
    uid: str = ""
    resource_version: str = ""

    @property
    def whole(self) -> bool:
        return bool(self.name and self.uid and self.resource_version)


class _Object(Struct, frozen=True):
    metadata: _Metadata


class _Objects(Struct, frozen=True):
    items: tuple[_Object, ...] | None


def listed(
    api: Api, resource: Resource, reduce: Callable[[Any], T], *, namespace: str, known: Known[T]
) -> tuple[T, ...]:
    """What `reduce` makes of each object of the namespace, as `Api.reduced`, and raises as that. One list of metadata,
    and a get for each of the few that have changed; where nothing is known one list, where many have changed both.
    """
    whole = partial(_whole, api, resource, reduce, namespace=namespace, known=known)
    if not known:
        return whole()
    there = _there(api, resource, namespace=namespace)
    made = [known.get(_version(resource, one)) for one in there]
    changed = [i for i, one in enumerate(made) if one is None]
    if len(changed) > _few(len(there)) or not all(one.whole for one in there):
        return whole()
    got = _got(api, resource, [there[i].name for i in changed], namespace=namespace)
    if got is None:
        return whole()
    for i, found in zip(changed, got, strict=True):
        made[i] = tuple(_noted(one, resource, reduce, known=known) for one in found)  # type: ignore[assignment]
    return tuple(one for several in made for one in several or ())


def _whole(
    api: Api, resource: Resource, reduce: Callable[[Any], T], *, namespace: str, known: Known[T]
) -> tuple[T, ...]:
    noted = partial(_noted, resource=resource, reduce=reduce, known=known)
    return api.reduced(resource, noted, namespace=namespace)


def _there(api: Api, resource: Resource, *, namespace: str) -> Sequence[_Metadata]:
    ask = Ask(verb="list", resource=resource, namespace=namespace)
    reply = api.question(ask, accept=VERSIONS_ONLY, read=_read)
    if not reply.ok:
        raise api.failed(reply, ask)
    return [one.metadata for one in reply.body]


def _read(parts: Iterable[bytes]) -> tuple[_Object, ...]:
    """Raises ValueError where it is no list."""
    from msgspec import json

    return json.decode(b"".join(parts), type=_Objects).items or ()


def _few(count: int) -> int:
    """Of so many."""
    return min(AT_MOST, max(AT_LEAST, count // 2))


def _got(api: Api, resource: Resource, names: Sequence[str], *, namespace: str) -> list[tuple[Any, ...]] | None:
    """Each object, empty where it is gone by now. None where one cannot be got: the list may still be read."""
    failed = threading.Event()
    looks = [partial(_object, api, resource, name, namespace=namespace, failed=failed) for name in names]
    got = answers(looks, threads=THREADS, timeout_s=GIVE_UP_S)
    return None if None in got else got  # type: ignore[return-value]


def _object(
    api: Api, resource: Resource, name: str, *, namespace: str, failed: threading.Event
) -> tuple[Any, ...] | None:
    """Asked once, and not at all where another has `failed`."""
    if failed.is_set():
        return None
    reply = api.once(Ask(verb="get", resource=resource, namespace=namespace, name=name))
    match reply:
        case Reply(status=404):
            return ()
        case Reply() if reply.ok:
            return (reply.body,)
        case Reply() | Lost():
            failed.set()
            return None


def _noted(json: Any, resource: Resource, reduce: Callable[[Any], T], *, known: Known[T]) -> T:
    made, metadata = reduce(json), json.get("metadata") if isinstance(json, dict) else None
    words = [metadata.get(key) for key in ("name", "uid", "resourceVersion")] if isinstance(metadata, dict) else [None]
    if all(isinstance(word, str) and word for word in words):
        known.add(_version(resource, _Metadata(*words)), made)
    return made


def _version(resource: Resource, metadata: _Metadata) -> str:
    """An object is served in several versions of its group, which say it in other words."""
    return f"{resource.version}/{metadata.uid}/{metadata.resource_version}"
