"""One query to a registry over HTTP: sent with the login that it requests, and retried with limits if it is busy."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import urljoin

from msgspec import Struct
from requests import RequestException

from xsft.base.errors import Unknown, XsftError
from xsft.effects.images.registry_auth import RegistryLogin
from xsft.image.docker_errors import (
    DockerRequest,
    broken_off,
    denied_error,
    login_refused,
    no_network,
    rate_limit_error,
    repository_missing,
    shorten_message,
)
from xsft.image.registry_names import ImageName, base_url, is_google
from xsft.machine.http_session import Session
from xsft.machine.retries import Retries, retry_after_s

TIMEOUT_S = 10.0
PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0)
UNANSWERED_TRIES = 2
"""Further tries if no server answers at all: a wrong name stays wrong."""
MAX_BYTES = 8 << 20
"""Maximum bytes of a manifest or configuration; distribution's own limit is 4 MiB."""
BUSY = (429, 500, 502, 503, 504)


class RegistryQuery(Struct, frozen=True, kw_only=True):
    """One query, repeated until it is answered or the time limit is reached."""

    at: ImageName
    login: RegistryLogin
    sleep: Callable[[float], None]
    budget_s: float
    pushes: bool = False
    """Whether it requests the right to push too."""
    max_bytes: int = MAX_BYTES

    def get(self, url: str, *, accept: tuple[str, ...]) -> RegistryAnswer | None:
        """Return the answer; None for a 404."""
        return self._judge_answer(self._send_patiently("GET", url, accept))

    def begin_upload(self) -> str:
        """Return the address of an upload that the registry has started. Raises as a push would."""
        url = self.at.url("blobs/uploads/")
        begun = self._send_patiently("POST", url)
        if begun.status == 404:
            raise repository_missing(begun.said, self._describe_query())
        # Docker Hub reports a missing right with a 401.
        scope = "insufficient_scope" in begun.headers.get("WWW-Authenticate", "")
        if begun.status == 405 or (scope and self.login.credential):
            raise denied_error(begun.said, self._describe_query())
        self._judge_answer(begun)
        return urljoin(url, begun.headers.get("Location", ""))

    def cancel_upload(self, url: str) -> None:
        """Cancel the upload; only at the registry itself. An upload that is not cancelled expires by itself."""
        if url.startswith(f"{base_url(self.at.host)}/"):
            with suppress(XsftError):
                self._send_patiently("DELETE", url)

    def _send_patiently(self, method: str, url: str, accept: tuple[str, ...] = ()) -> RegistryAnswer:
        try:
            with Session() as session:
                return retry_patiently(
                    lambda: self._send_once(session, method, url, accept), sleep=self.sleep, budget_s=self.budget_s
                )
        except RequestException as failed:
            raise no_network(shorten_message(str(failed)), self._describe_query()) from None

    def _send_once(self, session: Any, method: str, url: str, accept: tuple[str, ...]) -> RegistryAnswer:
        """Send the query once, with a login if the registry requests one. A redirect takes no login to another host."""
        headers = {"Accept": ", ".join(accept)} if accept else {}
        # a blob is verified by its digest; any other answer from another host is not trusted
        elsewhere = method == "GET" and "/blobs/" in url
        once = partial(send, session, method, url, allow_redirects=elsewhere, max_bytes=self.max_bytes)
        answer = once(headers={**headers, **self.login.at_once()})
        if answer.status == 401:
            challenge = answer.headers.get("WWW-Authenticate", "")
            actions = "pull,push" if self.pushes else "pull"
            more = self.login.answer(session, challenge, scope=f"repository:{self.at.path}:{actions}")
            if more:
                answer = once(headers={**headers, **more})
        return answer

    def _judge_answer(self, answer: RegistryAnswer) -> RegistryAnswer | None:
        if answer.status == 200 and len(answer.content) > self.max_bytes:
            raise self._too_large()
        if answer.status in {200, 202}:
            return answer
        if answer.status == 404:
            return None
        if answer.status == 401:
            raise login_refused(answer.said, self._describe_query(anonymous=self.login.credential is None))
        raise {403: denied_error, 429: rate_limit_error}.get(answer.status, broken_off)(
            answer.said, self._describe_query()
        )

    def _too_large(self) -> XsftError:
        return Unknown(
            f"{self.at.repository}: the registry's answer is too large (over {self.max_bytes >> 20} MiB).",
            fix=(
                "Check that it is a registry and the name is an image's; no manifest, configuration or list of "
                "tags is that large."
            ),
            id="registry-answer-large",
        )

    def _describe_query(self, *, anonymous: bool = False) -> DockerRequest:
        return DockerRequest(
            what=f"{'push to' if self.pushes else 'read'} {self.at.repository}",
            host=self.at.host,
            repository=self.at.repository,
            google=is_google(self.at.host),
            pushes=self.pushes,
            anonymous=anonymous,
        )


class RegistryAnswer(Struct, frozen=True, kw_only=True):
    status: int
    headers: Mapping[str, str]
    content: bytes
    url: str
    next: str | None
    """For a list: the address of its next page."""

    @property
    def said(self) -> str:
        """Return the status and the registry's own message, `errors[].message`; an HTML page has none."""
        try:
            errors = json.loads(self.content).get("errors") or ()
            told = "; ".join(str(one.get("message") or one.get("code")) for one in errors)
        except (ValueError, AttributeError, TypeError):
            told = ""
        return f"HTTP {self.status} {shorten_message(told)}".strip()

    @property
    def retry_after_s(self) -> float | None:
        return retry_after_s(self.headers)


def retry_patiently(
    once: Callable[[], RegistryAnswer], *, sleep: Callable[[float], None], budget_s: float
) -> RegistryAnswer:
    """Return the answer, retried while the server is busy or the connection breaks and `budget_s` allows a pause; in
    the end the busy answer itself. Raises RequestException if there is none.
    """
    retries = Retries(PAUSES_S, budget_s=budget_s, sleep=sleep)
    while True:
        try:
            answer = once()
        except RequestException:
            if not retries.again(at_most=UNANSWERED_TRIES):
                raise
        else:
            if answer.status not in BUSY or not retries.again(answer.retry_after_s):
                return answer


def send(
    session: Any, method: str, url: str, *, allow_redirects: bool = False, max_bytes: int = MAX_BYTES, **options: Any
) -> RegistryAnswer:
    """Send one request. Of an answer larger than `max_bytes`, only enough is read to show that."""
    options = {"timeout": TIMEOUT_S, "stream": True, "allow_redirects": allow_redirects, **options}
    with session.request(method, url, **options) as answer:
        return RegistryAnswer(
            status=answer.status_code,
            headers=answer.headers,
            content=b"".join(_bound_chunks(answer.iter_content(1 << 16), max_bytes)),
            url=answer.url,
            next=answer.links.get("next", {}).get("url"),
        )


def _bound_chunks(chunks: Iterator[bytes], max_bytes: int) -> Iterator[bytes]:
    size = 0
    for chunk in chunks:
        yield chunk
        size += len(chunk)
        if size > max_bytes:
            return
