"""Requests to a Kubernetes API server: with a time limit, and repeated only if repeating is harmless."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlencode

from msgspec import Struct
from msgspec.json import Decoder

from xsft.base.errors import XsftError
from xsft.base.lenient import JsonObject
from xsft.cluster.access import Access
from xsft.cluster.answers import (
    LostAnswer,
    ParseBody,
    Reply,
    read_list,
    read_named,
    read_object,
    read_objects,
    read_typed,
)
from xsft.cluster.errors import ApiRequest, explain
from xsft.cluster.http import JSON, Http, Stream
from xsft.cluster.objects import ObjectList
from xsft.cluster.resources import Resource
from xsft.machine import clock
from xsft.machine.deadline import NEVER, Deadline, Retries

T = TypeVar("T")

METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""source: kubernetes.io/docs/reference/using-api/api-concepts, "Alternate representations of resources"."""

CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 30.0
LAST_LOOK_S = 5.0
"""Seconds after a deadline in which xsft looks whether an object was created or deleted."""


class Patience(Struct, frozen=True, kw_only=True):
    """How often and how long xsft retries."""

    tries: int = 4
    first_wait_s: float = 0.5
    """Doubles with every try; longer if the server asks for it (Retry-After)."""
    longest_s: float = 30.0
    """If the server asks for a longer wait, xsft does not try again."""
    sleep: Callable[[float], None] = clock.pause
    connect_timeout_s: float = CONNECT_TIMEOUT_S
    read_timeout_s: float = READ_TIMEOUT_S
    question_s: float = 60.0
    """Limit for one question with all its tries, from its first byte to its last."""

    def retries(self, deadline: Deadline) -> Retries:
        """Return the tries of a request that begins now."""
        pauses_s = [self.first_wait_s * 2**i for i in range(self.tries - 1)]
        return Retries(pauses_s, deadline=deadline, longest_s=self.longest_s, sleep=self.sleep)


FOR_READS = Patience(tries=3, longest_s=5.0, connect_timeout_s=5.0, read_timeout_s=10.0)
"""For reading runs: the last known state shown soon is better than today's state shown late."""


class Api:
    """The API of one cluster. `deadline`: of all requests."""

    def __init__(self, http: Http, *, access: Access, patience: Patience, deadline: Deadline = NEVER) -> None:
        self.http, self.access, self.patience, self.deadline = http, access, patience, deadline

    def by(self, deadline: Deadline) -> Api:
        """Return the same API with another deadline."""
        return Api(self.http, access=self.access, patience=self.patience, deadline=deadline)

    def for_question(self) -> Api:
        """Return the same API with the deadline of one question that begins now."""
        return self.by(self.deadline.sooner(self.patience.question_s))

    def last_look(self) -> Api:
        """Return the same API with a little more time: a request that was sent may have been executed."""
        return self.by(self.deadline.extended(LAST_LOOK_S))

    def get(
        self,
        resource: Resource,
        *,
        name: str,
        namespace: str | None = None,
        accept: str = JSON,
        read: ParseBody = read_named,
    ) -> Any | None:
        """Return the object, or None if it does not exist. Raises as `explain` does."""
        ask = ApiRequest(verb="get", resource=resource, namespace=namespace, name=name)
        reply = self.question(ask, accept=accept, read=read)
        if reply.status == 404 and not reply.not_served:
            return None
        return self._body(reply, ask)

    def items(self, resource: Resource, *, namespace: str | None = None, selector: str = "") -> tuple[JsonObject, ...]:
        """Return all objects of a kind, in one namespace or in all."""
        ask = ApiRequest(verb="list", resource=resource, namespace=namespace)
        query = {"labelSelector": selector} if selector else {}
        objects: tuple[JsonObject, ...] = self._body(self.question(ask, query=query, read=read_list), ask)
        return objects

    def typed(self, resource: Resource, kind: Decoder[T], *, name: str, namespace: str | None = None) -> T | None:
        """Return the object as its kind, or None if it does not exist. Raises as `explain` does."""
        body: T | None = self.get(resource, name=name, namespace=namespace, read=partial(read_typed, kind=kind))
        return body

    def listed(
        self,
        resource: Resource,
        kind: Decoder[T],
        *,
        namespace: str | None = None,
        query: Mapping[str, str] | None = None,
    ) -> ObjectList[T]:
        """Return the objects of a kind, decoded one at a time: as dictionaries, a list of 1,000 JobSets takes ten
        times its 16 MB.
        """
        ask = ApiRequest(verb="list", resource=resource, namespace=namespace)
        objects: ObjectList[T] = self._body(self.question(ask, query=query, read=partial(read_objects, kind=kind)), ask)
        return objects

    def question(
        self,
        ask: ApiRequest,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        accept: str = JSON,
        read: ParseBody | None = None,
    ) -> Reply:
        """Send a request until it is answered: only reads, and requests that store nothing (dry runs, reviews). Raises
        Unreachable. `read` parses the body of a successful answer, and raises ValueError if it is cut off.
        """
        api = self.for_question()
        retries = self.patience.retries(api.deadline)
        while True:
            answer = api.once(ask, query=query, body=body, accept=accept, read=read)
            if answer.passes and retries.again(answer.retry_after_s):
                continue
            if isinstance(answer, LostAnswer):
                raise answer.failed()
            return answer

    def once(
        self,
        ask: ApiRequest,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        accept: str = JSON,
        read: ParseBody | None = None,
    ) -> Reply | LostAnswer:
        """Send exactly one request, which ends at the deadline."""
        method = "GET" if body is None else "POST"
        if ask.verb == "delete":
            method = "DELETE"
        path = _path(ask, query, named=method != "POST")
        return self.http.request(
            method, path, body=body, accept=accept, read=read or read_object, deadline=self.deadline
        )

    def opened(
        self, ask: ApiRequest, *, query: Mapping[str, str], read_timeout_s: float
    ) -> Stream | Reply | LostAnswer:
        """Send one request whose answer is a stream, e.g. a followed log."""
        deadline = self.for_question().deadline
        return self.http.opened(_path(ask, query), read_timeout_s=read_timeout_s, deadline=deadline)

    def failed(self, reply: Reply, ask: ApiRequest) -> XsftError:
        return explain(reply, ask, self.access)

    def _body(self, reply: Reply, ask: ApiRequest) -> Any:
        if not reply.ok:
            raise self.failed(reply, ask)
        return reply.body


def _path(ask: ApiRequest, query: Mapping[str, str] | None, *, named: bool = True) -> str:
    path = ask.resource.path(namespace=ask.namespace, name=ask.name if named else None)
    return f"{path}?{urlencode(query)}" if query else path
