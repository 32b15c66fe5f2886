"""One question to a registry over HTTP: asked with the login that it wants, again where it is busy, within bounds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urljoin

from msgspec import Struct

from xsft.effects.images.registry_auth import Login
from xsft.errors import Unknown, XsftError
from xsft.image.docker_errors import Doing, broken_off, denied, limited, no_network, repository_missing, words
from xsft.image.registry_names import Named, base_url, is_google

TIMEOUT_S = 10.0
PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0)
UNANSWERED_PAUSES_S = PAUSES_S[:2]
"""Where nothing answers at all: a wrong name stays wrong."""
MAX_BYTES = 8 << 20
"""Of a manifest or configuration; distribution's own limit is 4 MiB."""
BUSY = (429, 500, 502, 503, 504)


class Asking(Struct, frozen=True, kw_only=True):
    """One question, asked until it is answered or the budget is spent."""

    at: Named
    login: Login
    sleep: Callable[[float], None]
    budget_s: float
    pushes: bool = False
    """Asks for the right to push too."""

    def get(self, url: str, *, accept: tuple[str, ...]) -> Answer | None:
        """None for a 404."""
        return self._judged(self._patiently("GET", url, accept))

    def begin_upload(self) -> str:
        """Address of an upload that the registry let begin. Raises as a push would."""
        url = self.at.url("blobs/uploads/")
        begun = self._patiently("POST", url)
        if begun.status == 404:
            raise repository_missing(begun.said, self._doing())
        scope = "insufficient_scope" in begun.headers.get("WWW-Authenticate", "")  # so Docker Hub says it, with a 401
        if begun.status == 405 or (scope and self.login.credential):
            raise denied(begun.said, self._doing())
        self._judged(begun)
        return urljoin(url, begun.headers.get("Location", ""))

    def cancel_upload(self, url: str) -> None:
        """Only at the registry itself. One that is not cancelled ends by itself after a while."""
        if url.startswith(f"{base_url(self.at.host)}/"):
            with suppress(XsftError):
                self._patiently("DELETE", url)

    def _patiently(self, method: str, url: str, accept: tuple[str, ...] = ()) -> Answer:
        from requests import RequestException

        from xsft.effects.machine.http_session import Session

        try:
            with Session() as session:
                return patiently(
                    lambda: self._once(session, method, url, accept), sleep=self.sleep, budget_s=self.budget_s
                )
        except RequestException as failed:
            raise no_network(words(str(failed)), self._doing()) from None

    def _once(self, session: Any, method: str, url: str, accept: tuple[str, ...]) -> Answer:
        """With the login that the registry asks for, once it asks. A redirect takes no login to another host."""
        headers = {"Accept": ", ".join(accept)} if accept else {}
        # a blob's bytes prove themselves; what else comes from elsewhere is nobody's word
        elsewhere = method == "GET" and "/blobs/" in url
        answer = send(session, method, url, headers={**headers, **self.login.at_once()}, allow_redirects=elsewhere)
        if answer.status == 401:
            challenge = answer.headers.get("WWW-Authenticate", "")
            actions = "pull,push" if self.pushes else "pull"
            more = self.login.answer(session, challenge, scope=f"repository:{self.at.path}:{actions}")
            if more:
                answer = send(session, method, url, headers={**headers, **more}, allow_redirects=elsewhere)
        return answer

    def _judged(self, answer: Answer) -> Answer | None:
        if answer.status == 200 and len(answer.content) > MAX_BYTES:
            raise self._too_large()
        if answer.status in {200, 202}:
            return answer
        if answer.status == 404:
            return None
        if answer.status == 401:
            raise self.login.refused(answer.said, self._doing())
        raise {403: denied, 429: limited}.get(answer.status, broken_off)(answer.said, self._doing())

    def _too_large(self) -> XsftError:
        return Unknown(
            f"{self.at.repository}: the registry's answer is too large (over {MAX_BYTES >> 20} MiB).",
            fix="Is it a registry, and the name an image's? No manifest, configuration or list of tags is that large.",
            id="registry-answer-large",
        )

    def _doing(self) -> Doing:
        return Doing(
            what=f"{'push to' if self.pushes else 'read'} {self.at.repository}",
            host=self.at.host,
            repository=self.at.repository,
            google=is_google(self.at.host),
            pushes=self.pushes,
        )


class Answer(Struct, frozen=True, kw_only=True):
    status: int
    headers: Mapping[str, str]
    content: bytes
    url: str
    next: str | None
    """Of a list: where its next page is."""

    @property
    def said(self) -> str:
        """The status and the registry's own words: `errors[].message`; an HTML page says nothing."""
        try:
            errors = json.loads(self.content).get("errors") or ()
            told = "; ".join(str(one.get("message") or one.get("code")) for one in errors)
        except (ValueError, AttributeError, TypeError):
            told = ""
        return f"HTTP {self.status} {words(told)}".strip()

    @property
    def retry_after_s(self) -> float | None:
        said = self.headers.get("Retry-After", "")
        return float(said) if said.isdecimal() else None


def patiently(once: Callable[[], Answer], *, sleep: Callable[[float], None], budget_s: float) -> Answer:
    """The answer, asked for again while the server is busy or the connection breaks and `budget_s` allows a pause; in
    the end the busy answer itself. Raises RequestException where there is none.
    """
    tries, left_s = 0, budget_s
    while True:
        answer = _tried(once)
        pause = _pause(tries, answer)
        if pause is None or pause > left_s:
            break
        sleep(pause)
        tries, left_s = tries + 1, left_s - pause
    if isinstance(answer, Exception):
        raise answer
    return answer


def _tried(once: Callable[[], Answer]) -> Answer | Exception:
    from requests import RequestException

    try:
        return once()
    except RequestException as failed:
        return failed


def _pause(tries: int, answer: Answer | Exception) -> float | None:
    """Seconds to the next try; None where no other is made."""
    if isinstance(answer, Exception):
        return UNANSWERED_PAUSES_S[tries] if tries < len(UNANSWERED_PAUSES_S) else None
    if answer.status not in BUSY or tries >= len(PAUSES_S):
        return None
    return max(PAUSES_S[tries], answer.retry_after_s or 0.0)


def send(session: Any, method: str, url: str, *, allow_redirects: bool = False, **options: Any) -> Answer:
    """Of an answer of more than MAX_BYTES, as much is read as shows that, unless `stream` is false."""
    options = {"timeout": TIMEOUT_S, "stream": True, "allow_redirects": allow_redirects, **options}
    with session.request(method, url, **options) as answer:
        return Answer(
            status=answer.status_code,
            headers=answer.headers,
            content=b"".join(_bounded(answer.iter_content(1 << 16))),
            url=answer.url,
            next=answer.links.get("next", {}).get("url"),
        )


def _bounded(chunks: Iterator[bytes]) -> Iterator[bytes]:
    size = 0
    for chunk in chunks:
        yield chunk
        size += len(chunk)
        if size > MAX_BYTES:
            return
