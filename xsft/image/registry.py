"""One repository of a registry over HTTP (OCI distribution-spec v1.1): reads what a name means, and adds blobs and a
manifest. No engine takes part.

Bytes are believed only if they have the digest that was asked for. No login is sent until the registry requests one
(except Google's token to Google), and none to another host than the registry and its token service.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any
from urllib.parse import urljoin, urlsplit

import msgspec
from requests import RequestException, Response
from requests.utils import parse_dict_header

from xsft.base.errors import Unknown, XsftError
from xsft.base.lenient import mapping, parse_json, rows
from xsft.base.secrets import hold_secret
from xsft.image.code_layer import MANIFEST, ImageDocuments, Manifest, digest_of
from xsft.image.failures import FailedRequest, explain_failure, quote
from xsft.image.login import Login, login_for
from xsft.image.recipe import PLATFORM
from xsft.image.reference import base_url, is_google, may_receive_login, parse_image_name
from xsft.machine import clock
from xsft.machine.deadline import Deadline, Retries, retry_after_s
from xsft.machine.http_session import Session

TIMEOUT_S = 8.0
"""Time limit for a connection, and between two parts of an answer."""
PAUSES_S = (0.5, 1.0, 2.0, 4.0)
"""Seconds before each further try if the registry is busy or fails: it is told within ten seconds."""
BUDGET_S = sum(PAUSES_S)
UNANSWERED_TRIES = 2
"""Further tries if no server answers at all: a wrong name stays wrong."""
BUSY = frozenset({429, 500, 502, 503, 504})
READING = frozenset({"GET", "HEAD"})
"""Methods that need no right to push."""
MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)


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
        self.name = self.at.name
        self._url = f"{base_url(self.at.host)}/v2/{self.at.repository}/"
        self._env = env
        self._find_login = find_login
        self._sleep = sleep
        self._budget_s = budget_s
        self._authorization: dict[str, str] = {}
        self._session = Session()

    @cached_property
    def login(self) -> Login | None:
        """The user's login for this registry; found once. Raises as `login_for` does."""
        return self._find_login(self.at.host, env=self._env)

    def manifest(self, reference: str) -> tuple[bytes, Manifest] | None:
        """Return the manifest or index under a tag or digest, and its bytes; None if there is none. Raises Unreachable
        and Unknown.
        """
        answer = self._ask("GET", f"manifests/{reference}", headers={"Accept": ", ".join(MANIFESTS)})
        if answer is None:
            return None
        digest = digest_of(answer.content)
        for announced in (answer.headers.get("Docker-Content-Digest", digest), reference):
            if announced.startswith("sha256:") and announced != digest:
                raise self._contradiction(f"it sends content with the digest {digest} for {announced}")
        try:
            return answer.content, MANIFEST.decode(answer.content)
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
        answer = self._ask("GET", f"blobs/{digest}", allow_redirects=True)
        if answer is None or digest_of(answer.content) != digest:
            raise self._contradiction(f"the blob {digest} is missing or has another digest")
        return answer.content

    def refuse_unless_pushable(self) -> None:
        """Begin an upload and cancel it: raises as a push would (login, permission, repository, limit), before minutes
        of building. source: OCI distribution-spec v1.1, "Pushing a blob in chunks".
        """
        address = self._begin_upload()
        with suppress(XsftError, RequestException):  # an upload that is not cancelled expires by itself
            self._send("DELETE", address)

    def add_blob(self, content: bytes) -> int:
        """Upload the content unless the registry has it; return the number of bytes sent."""
        digest = digest_of(content)
        if self._ask("HEAD", f"blobs/{digest}") is not None:
            return 0

        def upload() -> Response:
            # An upload that broke, or that the registry forgot, is begun again, not continued.
            address = self._begin_upload()
            separator = "&" if urlsplit(address).query else "?"
            headers = {"Content-Type": "application/octet-stream"}
            return self._send("PUT", f"{address}{separator}digest={digest}", headers=headers, data=content)

        self._repeat("PUT", upload, again_on=BUSY | {404})
        return len(content)

    def put_manifest(self, image: ImageDocuments, *, tag: str) -> None:
        headers = {"Content-Type": image.media_type}
        self._ask("PUT", f"manifests/{tag}", headers=headers, data=image.manifest)

    def _begin_upload(self) -> str:
        """Return the address of an upload that the registry has started."""
        answer = self._ask("POST", "blobs/uploads/")
        if answer is None:  # a 404
            raise self._failure("HTTP 404 name unknown", method="POST")
        return urljoin(answer.url, answer.headers.get("Location", ""))

    def _ask(self, method: str, resource: str, **options: Any) -> Response | None:
        url = f"{self._url}{resource}"
        return self._repeat(method, lambda: self._send(method, url, **options))

    def _repeat(self, method: str, send: Callable[[], Response], *, again_on: frozenset[int] = BUSY) -> Response | None:
        """Return the answer; None for a 404. Sent again while the registry is busy or the connection breaks."""
        retries = Retries(PAUSES_S, deadline=Deadline.after(self._budget_s), sleep=self._sleep)
        while True:
            try:
                answer = send()
            except (RequestException, OSError) as failed:
                if retries.again(at_most=UNANSWERED_TRIES):
                    continue
                raise self._failure(f"connection broken: {failed}", method=method) from None
            if answer.status_code not in again_on or not retries.again(retry_after_s(answer.headers)):
                break
        if 200 <= answer.status_code < 300:
            return answer
        if answer.status_code == 404:
            if method == "PUT":  # the registry has forgotten the upload
                raise self._failure("blob upload unknown", method=method)
            return None
        # The registry's own words; an HTML page, of a proxy for example, has none.
        problems = rows(mapping(parse_json(answer.content)).get("errors"))
        words = quote("; ".join(str(problem.get("message") or problem.get("code")) for problem in problems))
        text = f"HTTP {answer.status_code} {words}".strip()
        if "insufficient_scope" in answer.headers.get("WWW-Authenticate", "") and self.login:
            text = f"denied: {text.replace('401', '')}"  # Docker Hub's 401 for a missing right, also with a login
        raise self._failure(text, method=method)

    def _send(self, method: str, url: str, *, headers: Mapping[str, str] = {}, **options: Any) -> Response:
        """Send the request; once more with a login if the registry requests one."""
        options = {"timeout": TIMEOUT_S, "allow_redirects": False, **options}
        # An upload may be on another host: a login is for the registry alone.
        if urlsplit(url).netloc != urlsplit(self._url).netloc:
            return self._session.request(method, url, headers=headers, **options)
        if not self._authorization and is_google(self.at.host) and self.login:
            self._authorization = self.login.bearer
        answer = self._session.request(method, url, headers={**headers, **self._authorization}, **options)
        if answer.status_code == 401:
            authorization = self._answer_challenge(answer.headers.get("WWW-Authenticate", ""), method=method)
            if authorization:
                self._authorization = authorization
                return self._session.request(method, url, headers={**headers, **authorization}, **options)
        return answer

    def _answer_challenge(self, challenge: str, *, method: str) -> dict[str, str]:
        """Return the header for a 401's `WWW-Authenticate`: the login, or a token of the registry's token service, an
        anonymous one without a login; empty if there is none that it may get. source: distribution@2.8
        docs/spec/auth/token.md, oauth.md.
        """
        kind, _, parameters = challenge.partition(" ")
        basic = self.login.basic if self.login else {}
        if kind.lower() == "basic":
            return basic
        fields = parse_dict_header(parameters)
        realm = fields.get("realm") or ""
        if kind.lower() != "bearer" or not may_receive_login(realm, self.at.host):
            return {}
        actions = "pull" if method in READING else "pull,push"
        query = {"scope": f"repository:{self.at.repository}:{actions}"}
        if service := fields.get("service"):
            query["service"] = service
        options: dict[str, Any] = {"timeout": TIMEOUT_S, "allow_redirects": False}
        if self.login and self.login.is_identity_token:
            grant = {"grant_type": "refresh_token", "refresh_token": self.login.secret, "client_id": "xsft"}
            answer = self._session.post(realm, data={**query, **grant}, **options)
        else:
            answer = self._session.get(realm, params=query, headers=basic, **options)
        document = mapping(parse_json(answer.content)) if answer.status_code == 200 else {}
        token = document.get("token") or document.get("access_token")
        return {"Authorization": f"Bearer {hold_secret(str(token))}"} if token else {}

    def _contradiction(self, why: str) -> Unknown:
        return Unknown(
            f"{self.name}: the registry's answer is invalid: {why}.",
            fix="Check that this is a registry, with no proxy in between; try another network. Nothing was recorded.",
            id="registry-contradicts",
        )

    def _failure(self, text: str, *, method: str) -> XsftError:
        verb = "read" if method in READING else "push to"
        request = FailedRequest(
            what=f"{verb} {self.name}",
            host=self.at.host,
            repository=self.name,
            pushes=method not in READING,
            anonymous=self.login is None,
        )
        return explain_failure(text, request)
