"""Requests to a Kubernetes API server: bounded in time, repeated only where repeating cannot do harm."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlencode

from xsft.effects.cluster_config import Access
from xsft.effects.cluster_errors import Ask, Reply, explain
from xsft.effects.cluster_items import each_item
from xsft.effects.cluster_resources import Resource
from xsft.errors import Unreachable, XsftError
from xsft.spec.secrets import redact

T = TypeVar("T")
Read = Callable[[bytes], Any]

JSON = "application/json"
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""source: kubernetes.io/docs/reference/using-api/api-concepts, "Alternate representations of resources"."""

CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 30.0
DISTRUST = ("CERTIFICATE_VERIFY_FAILED", "WRONG_VERSION_NUMBER", "certificate verify failed", "doesn't match")
"""OpenSSL's and urllib3's words for what time does not mend; a connection cut in TLS is none of them."""
BUSY = frozenset({429, 500, 503, 504})
"""Answers after which a question is asked again."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long xsft tries."""

    tries: int = 4
    first_wait_s: float = 0.5
    """Doubles with every try, unless the server says how long (Retry-After)."""
    budget_s: float = 30.0
    """All waits together."""
    sleep: Callable[[float], None] = time.sleep
    connect_timeout_s: float = CONNECT_TIMEOUT_S
    read_timeout_s: float = READ_TIMEOUT_S


@dataclass(frozen=True, kw_only=True)
class Lost:
    """No answer came."""

    reason: str
    sent: bool
    """The server may have done what was asked."""
    fix: str
    id: str = "unreachable"
    again: bool = True
    """Whether asking once more may help."""


class Waits:
    """Counts tries and waits against one budget."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._tries = 1
        self._left_s = patience.budget_s

    def again(self, asked_s: float | None = None) -> bool:
        """Wait, and say whether to try once more; False at once where the budget does not hold the wait."""
        wait_s = self._patience.first_wait_s * 2 ** (self._tries - 1) if asked_s is None else asked_s
        if self._tries >= self._patience.tries or wait_s > self._left_s:
            return False
        self._tries += 1
        self._left_s -= wait_s
        self._patience.sleep(wait_s)
        return True


class Api:
    """One cluster's API through the official client (`kubernetes.client.ApiClient`)."""

    def __init__(self, client: Any, *, access: Access, patience: Patience | None = None) -> None:
        self._client = client
        self.access = access
        self.patience = patience or Patience()

    def get(self, resource: Resource, *, name: str, namespace: str | None = None, accept: str = JSON) -> Any | None:
        """The object; None where there is none. Raises as `explain` says."""
        ask = Ask(verb="get", resource=resource, namespace=namespace, name=name)
        reply = self.question(ask, accept=accept)
        if reply.status == 404 and not reply.not_served:
            return None
        return self._body(reply, ask)

    def items(self, resource: Resource, *, namespace: str | None = None, selector: str = "") -> tuple[Any, ...]:
        """All objects of a kind, of one namespace or of all."""
        ask = Ask(verb="list", resource=resource, namespace=namespace)
        query = {"labelSelector": selector} if selector else {}
        body = self._body(self.question(ask, query=query), ask)
        return tuple(body.get("items") or ())

    def reduced(
        self,
        resource: Resource,
        reduce: Callable[[Any], T],
        *,
        namespace: str | None = None,
        query: Mapping[str, str] | None = None,
    ) -> tuple[T, ...]:
        """As `items`, each object reduced at once, so that a list of many megabytes is never in memory as a whole."""
        ask = Ask(verb="list", resource=resource, namespace=namespace)
        found: tuple[T, ...] = self._body(self.question(ask, query=query, read=partial(each_item, reduce=reduce)), ask)
        return found

    def question(
        self,
        ask: Ask,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        accept: str = JSON,
        read: Read | None = None,
    ) -> Reply:
        """Ask until there is an answer: reads, and what is not stored (dry runs, reviews). Raises Unreachable.

        `read` makes the body of a good answer out of its bytes, and raises ValueError where it is cut off.
        """
        waits = Waits(self.patience)
        while True:
            answer = self.once(ask, query=query, body=body, accept=accept, read=read)
            match answer:
                case Reply() if answer.status not in BUSY or not waits.again(answer.retry_after_s):
                    return answer
                case Lost() if not answer.again or not waits.again():
                    raise Unreachable(answer.reason, fix=answer.fix, id=answer.id)
                case _:
                    continue

    def once(
        self,
        ask: Ask,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        accept: str = JSON,
        read: Read | None = None,
    ) -> Reply | Lost:
        """Exactly one request."""
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        method = "GET" if body is None else "POST"
        path = ask.resource.path(namespace=ask.namespace, name=ask.name if method == "GET" else None)
        if query:
            path = f"{path}?{urlencode(query)}"
        try:
            return self._send(method, path, body=body, accept=accept, read=read or read_object)
        except (HTTPError, ApiException, OSError) as failed:
            return lost(failed, self.access)

    def failed(self, reply: Reply, ask: Ask) -> XsftError:
        return explain(reply, ask, self.access)

    def _send(self, method: str, path: str, *, body: Any, accept: str, read: Read) -> Reply | Lost:
        headers = {"Accept": accept, "Accept-Encoding": "gzip", "Content-Type": JSON}
        request = self._client.param_serialize(
            method, path, header_params=headers, body=body, auth_settings=["BearerToken"]
        )
        timeouts = (self.patience.connect_timeout_s, self.patience.read_timeout_s)
        response = self._client.call_api(*request, _request_timeout=timeouts)
        content, wait = response.read(), _seconds(response.headers.get("Retry-After"))
        if not 200 <= response.status < 300:
            return Reply(status=response.status, body=_parsed(content), retry_after_s=wait)
        try:
            return Reply(status=response.status, body=read(content), retry_after_s=wait)
        except ValueError:
            return self._cut_off() if content.lstrip()[:1] == b"{" else self._no_kubernetes()

    def _body(self, reply: Reply, ask: Ask) -> Any:
        if not reply.ok:
            raise self.failed(reply, ask)
        return reply.body

    def _cut_off(self) -> Lost:
        """A proxy that gave up, most often; the server's own answer says how long it is."""
        reason = f"The cluster (context {self.access.context}) answered with half an answer: its JSON ends early."
        return Lost(reason=reason, sent=True, fix="Try again; if it stays so, look at the proxies on the way.")

    def _no_kubernetes(self) -> Lost:
        """The page of a proxy or of a login, most often."""
        host = self._client.configuration.host
        return Lost(
            reason=f"{host} answers, but not as a Kubernetes API server.",
            sent=True,
            fix=f"Check the server of the context {self.access.context}, and proxies (HTTPS_PROXY, NO_PROXY).",
            id="not-served",
            again=False,
        )


def lost(failed: Exception, access: Access) -> Lost:
    """What a broken request means; only what failed before it was sent is known not to have happened."""
    from urllib3 import exceptions

    reason = _brief(failed)
    if any(sign in reason for sign in DISTRUST):
        message = f"The TLS connection to the cluster (context {access.context}) failed: {reason}"
        fix = "Check certificate-authority-data and server of the context; for GKE fetch them again (gcloud)."
        return Lost(reason=message, sent=False, fix=fix, id="tls", again=False)
    unsent = (exceptions.NewConnectionError, exceptions.ConnectTimeoutError, exceptions.ProxyError)
    fix = (
        f"Check the network, the VPN and the context's server; `kubectl --context {access.context} version` asks the"
        " same."
    )
    message = f"The cluster (context {access.context}) did not answer: {reason}"
    return Lost(reason=message, sent=not isinstance(failed, unsent), fix=fix)


def read_object(content: bytes) -> Any:
    """Raises ValueError where it is no JSON object."""
    found = json.loads(content)
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - as for any other answer that is none
    return found


def _parsed(content: bytes) -> Any:
    text = content.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except ValueError:
        return text


def _seconds(retry_after: str | None) -> float | None:
    """Kubernetes sends seconds; a date is taken as not said."""
    try:
        return max(0.0, float(retry_after)) if retry_after else None
    except ValueError:
        return None


def _brief(failed: Exception) -> str:
    """The innermost reason: urllib3 nests them, with object addresses in between."""
    text = str(getattr(failed, "reason", "") or failed) or type(failed).__name__
    return redact(" ".join(text.split("object at 0x")[-1].split()))[:300]
