"""One repository of a registry over HTTP (OCI distribution-spec v1.1): reads what a name means, and adds blobs and a
manifest. No engine takes part.

Bytes are believed only if they have the digest that was asked for. No login is sent until the registry requests one
(except Google's token to Google), and none to another host than the registry and its token service.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property, partial
from typing import IO, Any
from urllib.parse import urljoin, urlsplit

import msgspec
from msgspec import Struct
from requests import RequestException, Response
from requests.utils import parse_dict_header

from xsft.base.errors import Unknown, XsftError
from xsft.base.secrets import hold_secret
from xsft.image.code_layer import ImageDocuments, digest_of
from xsft.image.failures import FailedRequest, explain_failure, quote
from xsft.image.login import Login, login_for
from xsft.image.recipe import PLATFORM
from xsft.image.reference import base_url, is_google, may_receive_login, parse_image_name
from xsft.machine import clock
from xsft.machine.deadline import Deadline
from xsft.machine.http_session import Session
from xsft.machine.retries import Retries, retry_after_s

TIMEOUT_S = 8.0
"""Time limit for a connection, and between two parts of an answer."""
PAUSES_S = (0.5, 1.0, 2.0, 4.0)
"""Seconds before each further try if the registry is busy or fails: it is told within ten seconds."""
BUDGET_S = sum(PAUSES_S)
UNANSWERED_TRIES = 2
"""Further tries if no server answers at all: a wrong name stays wrong."""
BUSY = frozenset({429, 500, 502, 503, 504})
OTHER_REGISTRY = "Check that this is a registry, with no proxy in between; try another network. Nothing was recorded."
MAX_BYTES = 8 << 20
"""Maximum bytes of a manifest, a configuration or a record; distribution's own limit is 4 MiB."""
MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)


class _Descriptor(Struct, frozen=True, kw_only=True):
    digest: str = ""
    size: int = 0
    media_type: str = msgspec.field(default="", name="mediaType")
    platform: Mapping[str, Any] | None = None


class Manifest(Struct, frozen=True, kw_only=True):
    """A manifest or an index. source: OCI image-spec v1.1 manifest.md, image-index.md."""

    media_type: str = msgspec.field(default="", name="mediaType")
    config: _Descriptor | None = None
    layers: tuple[_Descriptor, ...] | None = ()
    manifests: tuple[_Descriptor, ...] | None = ()

    @property
    def platforms(self) -> dict[str, str]:
        """For an index: `linux/amd64` -> digest of the manifest. Attestations, of platform `unknown`, are left out."""
        named = ((descriptor.platform or {}, descriptor.digest) for descriptor in self.manifests or ())
        pairs = ((f"{platform.get('os')}/{platform.get('architecture')}", digest) for platform, digest in named)
        return {name: digest for name, digest in pairs if "unknown" not in name and "None" not in name}

    @property
    def size(self) -> int:
        """Bytes stored: configuration and layers, compressed."""
        parts = [self.config, *(self.layers or ())]
        return sum(part.size for part in parts if part)


class Answer(Struct, frozen=True, kw_only=True):
    """An answer that was read to its end."""

    status: int
    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes

    @property
    def message(self) -> str:
        """The status and the registry's own message, `errors[].message`; an HTML page has none."""
        try:
            problems = json.loads(self.content).get("errors") or ()
            text = "; ".join(str(problem.get("message") or problem.get("code")) for problem in problems)
        except (ValueError, AttributeError, TypeError, RecursionError):
            text = ""
        return f"HTTP {self.status} {quote(text)}".strip()


_MANIFEST = msgspec.json.Decoder(Manifest)
"""Created at import: msgspec@0.22.0 crashes if two threads do this for one type."""


class RegistryClient:
    """A client for one repository: `host/path`."""

    def __init__(
        self,
        name: str,
        *,
        env: Mapping[str, str],
        find_login: Callable[..., Login | None] = login_for,
        sleep: Callable[[float], None] = clock.pause,
        budget_s: float = BUDGET_S,
    ) -> None:
        """Raises UsageError, image-reference, for an invalid name."""
        self.at = parse_image_name(name)
        self._env = env
        self._find_login = find_login
        self._sleep = sleep
        self._budget_s = budget_s
        self._authorization: dict[str, str] = {}
        self._session = Session()

    @property
    def name(self) -> str:
        return self.at.name

    @cached_property
    def login(self) -> Login | None:
        """The user's login for this registry; found once. Raises as `login_for` does."""
        return self._find_login(self.at.host, env=self._env)

    def manifest(self, reference: str) -> tuple[bytes, Manifest] | None:
        """Return the manifest or index under a tag or digest, and its bytes; None if there is none. Raises Unreachable
        and Unknown.
        """
        answer = self._ask("GET", self._address(f"manifests/{reference}"), headers={"Accept": ", ".join(MANIFESTS)})
        if answer is None:
            return None
        content = answer.content
        announced = answer.headers.get("Docker-Content-Digest") or digest_of(content)
        for digest in (announced, reference):
            if digest.startswith("sha256:") and digest != digest_of(content):
                raise self._contradiction(f"it sends content with the digest {digest_of(content)} for {digest}")
        try:
            return content, _MANIFEST.decode(content)
        except (msgspec.DecodeError, RecursionError) as wrong:
            raise self._contradiction(f"it is not a manifest ({wrong})") from None

    def manifest_for_tpus(self, reference: str) -> tuple[bytes, Manifest] | None:
        """Return the manifest of the image for TPU hosts, or what `manifest` returns if it is not an index with one."""
        answer = self.manifest(reference)
        digest = answer[1].platforms.get(PLATFORM) if answer else None
        return self.manifest(digest) if digest else answer

    def image(self, reference: str) -> ImageDocuments | None:
        """Return the documents of the image for TPU hosts under a tag or digest; None if there is none."""
        answer = self.manifest_for_tpus(reference)
        if answer is None:
            return None
        content, manifest = answer
        if manifest.config is None:
            raise self._contradiction(f"{reference} is not an image for {PLATFORM}")
        return ImageDocuments(
            media_type=manifest.media_type, manifest=content, configuration=self.blob(manifest.config.digest)
        )

    def blob(self, digest: str) -> bytes:
        """Return a small blob. Raises Unknown if the registry has none, or other bytes, under this digest."""
        answer = self._ask("GET", self._address(f"blobs/{digest}"), allow_redirects=True)
        content = answer.content if answer else b""
        if digest_of(content) != digest:
            raise self._contradiction(f"the blob {digest} is missing or has another digest")
        return content

    def refuse_unless_pushable(self) -> None:
        """Begin an upload and cancel it: raises as a push would (login, permission, repository, limit), before minutes
        of building. source: OCI distribution-spec v1.1, "Pushing a blob in chunks".
        """
        address = self._begin_upload()
        with suppress(XsftError):  # an upload that is not cancelled expires by itself
            self._ask("DELETE", lambda: address, pushes=True)

    def add_blob(self, content: IO[bytes], *, digest: str) -> int:
        """Upload the content unless the registry has it; return the number of bytes sent."""
        if self._ask("HEAD", self._address(f"blobs/{digest}")) is not None:
            return 0
        size = content.seek(0, os.SEEK_END)
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        # An upload that broke, or that the registry forgot, is begun again, not continued.
        begin = partial(self._begin_upload, digest=digest)
        self._ask("PUT", begin, again_on=BUSY | {404}, pushes=True, headers=headers, data=content)
        return size

    def put_manifest(self, image: ImageDocuments, *, tag: str) -> None:
        headers = {"Content-Type": image.media_type}
        self._ask("PUT", self._address(f"manifests/{tag}"), pushes=True, headers=headers, data=image.manifest)

    def _begin_upload(self, *, digest: str | None = None) -> str:
        """Return the address of an upload that the registry has started; with `digest`: for all bytes at once."""
        answer = self._ask("POST", self._address("blobs/uploads/"), pushes=True)
        if answer is None:  # a 404
            raise explain_failure("HTTP 404 name unknown", self._request(pushes=True))
        address = urljoin(answer.url, answer.headers.get("Location", ""))
        if digest is None:
            return address
        return f"{address}{'&' if urlsplit(address).query else '?'}digest={digest}"

    def _url(self, resource: str) -> str:
        return f"{base_url(self.at.host)}/v2/{self.at.repository}/{resource}"

    def _address(self, resource: str) -> Callable[[], str]:
        return lambda: self._url(resource)

    def _ask(
        self,
        method: str,
        address: Callable[[], str],
        *,
        pushes: bool = False,
        again_on: frozenset[int] = BUSY,
        **options: Any,
    ) -> Answer | None:
        """Return the answer; None for a 404. Repeated while the registry is busy or the connection breaks. `address`:
        returns the URL, anew for each try.
        """
        retries = Retries(PAUSES_S, deadline=Deadline.after(self._budget_s), sleep=self._sleep)
        while True:
            url = address()
            try:
                answer = _read(self._send(method, url, pushes=pushes, **options))
            except (RequestException, OSError) as failed:
                if retries.again(at_most=UNANSWERED_TRIES):
                    continue
                raise explain_failure(f"connection broken: {failed}", self._request(pushes=pushes)) from None
            if answer.status not in again_on or not retries.again(retry_after_s(answer.headers)):
                return self._judge(answer, pushes=pushes)

    def _send(
        self, method: str, url: str, *, pushes: bool, headers: Mapping[str, str] = {}, **options: Any
    ) -> Response:
        """Send the request; once more with a login if the registry requests one."""
        options = {"timeout": TIMEOUT_S, "stream": True, "allow_redirects": False, **options}
        own_host = urlsplit(url).netloc == urlsplit(self._url("")).netloc
        if not self._authorization and is_google(self.at.host) and self.login:
            self._authorization = self.login.bearer
        authorization = self._authorization if own_host else {}
        _rewind(options.get("data"))
        answer = self._session.request(method, url, headers={**headers, **authorization}, **options)
        if answer.status_code != 401 or not own_host:
            return answer
        authorization = self._answer_challenge(answer.headers.get("WWW-Authenticate", ""), pushes=pushes)
        if not authorization:
            return answer
        answer.close()
        self._authorization = authorization
        _rewind(options.get("data"))
        return self._session.request(method, url, headers={**headers, **authorization}, **options)

    def _answer_challenge(self, challenge: str, *, pushes: bool) -> dict[str, str]:
        """Return the header for a 401's `WWW-Authenticate`; empty if there is no suitable login. source:
        distribution@2.8 docs/spec/auth/token.md, oauth.md.
        """
        kind, _, parameters = challenge.partition(" ")
        if kind.lower() == "basic":
            return self.login.basic if self.login else {}
        realm = parse_dict_header(parameters).get("realm") or ""
        if kind.lower() != "bearer" or not may_receive_login(realm, self.at.host):
            return {}
        actions = "pull,push" if pushes else "pull"
        query = {"scope": f"repository:{self.at.repository}:{actions}"}
        if service := parse_dict_header(parameters).get("service"):
            query["service"] = service
        return self._fetch_token(realm, query)

    def _fetch_token(self, realm: str, query: Mapping[str, str]) -> dict[str, str]:
        """Return the header with a token of the registry's token service; an anonymous one without a login."""
        options: dict[str, Any] = {"timeout": TIMEOUT_S, "allow_redirects": False}
        if self.login and self.login.is_identity_token:
            grant = {"grant_type": "refresh_token", "refresh_token": self.login.secret, "client_id": "xsft"}
            answer = self._session.post(realm, data={**query, **grant}, **options)
        else:
            headers = self.login.basic if self.login else {}
            answer = self._session.get(realm, params=query, headers=headers, **options)
        try:
            document = answer.json() if answer.status_code == 200 else {}
        except ValueError:
            return {}
        token = document.get("token") or document.get("access_token") if isinstance(document, dict) else None
        return {"Authorization": f"Bearer {hold_secret(str(token))}"} if token else {}

    def _judge(self, answer: Answer, *, pushes: bool) -> Answer | None:
        if 200 <= answer.status < 300:
            if len(answer.content) > MAX_BYTES:
                raise Unknown(
                    f"{self.name}: the registry's answer is too large (over {MAX_BYTES >> 20} MiB).",
                    fix=OTHER_REGISTRY,
                    id="registry-answer-large",
                )
            return answer
        if answer.status == 404 and answer.method != "PUT":
            return None
        text = answer.message
        if answer.status == 404:  # of a PUT: the registry has forgotten the upload
            text = "blob upload unknown"
        if "insufficient_scope" in answer.headers.get("WWW-Authenticate", "") and self.login:
            text = f"denied: {text.replace('401', '')}"  # Docker Hub's 401 for a missing right
        raise explain_failure(text, self._request(pushes=pushes))

    def _contradiction(self, why: str) -> Unknown:
        message = f"{self.name}: the registry's answer is invalid: {why}."
        return Unknown(message, fix=OTHER_REGISTRY, id="registry-contradicts")

    def _request(self, *, pushes: bool) -> FailedRequest:
        return FailedRequest(
            what=f"{'push to' if pushes else 'read'} {self.name}",
            host=self.at.host,
            repository=self.name,
            google=is_google(self.at.host),
            pushes=pushes,
            anonymous=self.login is None,
        )


def _rewind(body: IO[bytes] | bytes | None) -> None:
    """Begin at the first byte, which an earlier try may have sent."""
    if body is not None and not isinstance(body, bytes):
        body.seek(0)


def _read(response: Response) -> Answer:
    """Read the answer. Of a body that is larger than MAX_BYTES, only enough is read to show that."""
    content = b""
    with response:
        for chunk in response.iter_content(1 << 16):
            content += chunk
            if len(content) > MAX_BYTES:
                break
    return Answer(
        status=response.status_code,
        method=str(response.request.method),
        url=response.url,
        headers=response.headers,
        content=content,
    )
