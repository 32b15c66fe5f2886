"""One question to a registry over HTTP: asked with the login that it wants, again where it is busy, within bounds."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from xsft.effects.docker_errors import Doing, broken_off, denied, limited, no_network, words
from xsft.effects.registry import is_google
from xsft.effects.registry_auth import Login, no_netrc
from xsft.effects.registry_names import Named
from xsft.errors import Unknown, XsftError

TIMEOUT_S = 10.0
PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0)
UNANSWERED_PAUSES_S = PAUSES_S[:2]
"""Where nothing answers at all: a wrong name stays wrong."""
MAX_BYTES = 8 << 20
"""Of a manifest or configuration; distribution's own limit is 4 MiB."""
BUSY = (429, 500, 502, 503, 504)


class Asking(Struct, kw_only=True):
    """One question, asked until it is answered or the budget is spent."""

    at: Named
    login: Login
    sleep: Callable[[float], None]
    budget_s: float
    spent_s: float = 0.0

    def get(self, url: str, *, accept: tuple[str, ...]) -> Answer | None:
        from requests import RequestException, Session

        with Session() as session:
            for tries in itertools.count():
                answer: Answer | None = None
                try:
                    answer = self._once(session, url, accept)
                except RequestException as failed:
                    error: XsftError = no_network(words(str(failed)), self._doing())
                else:
                    if answer.status not in BUSY:
                        return self._judged(answer)
                    error = (limited if answer.status == 429 else broken_off)(answer.said, self._doing())
                if not self._paused(tries, answer):
                    raise error
        raise AssertionError  # count() does not end

    def _once(self, session: Any, url: str, accept: tuple[str, ...]) -> Answer:
        """With the login that the registry asks for, once it asks. A redirect takes no login to another host."""
        headers = {"Accept": ", ".join(accept)} if accept else {}
        answer = _send(session, url, {**headers, **self.login.at_once()})
        if answer.status == 401:
            more = self.login.answer(
                session, answer.headers.get("WWW-Authenticate", ""), scope=f"repository:{self.at.path}:pull"
            )
            if more:
                answer = _send(session, url, {**headers, **more})
        return answer

    def _judged(self, answer: Answer) -> Answer | None:
        if answer.status == 200 and len(answer.content) > MAX_BYTES:
            raise self._too_large()
        if answer.status == 200:
            return answer
        if answer.status == 404:
            return None
        if answer.status == 401:
            raise self.login.refused(answer.said, self._doing())
        raise (denied if answer.status == 403 else broken_off)(answer.said, self._doing())

    def _too_large(self) -> Unknown:
        return Unknown(
            f"{self.at.repository}: the registry's answer is too large (over {MAX_BYTES >> 20} MiB).",
            fix="Is it a registry, and the name an image's? No manifest, configuration or list of tags is that large.",
            id="registry-answer-large",
        )

    def _paused(self, tries: int, answer: Answer | None) -> bool:
        """False where another pause would be too long."""
        pauses = UNANSWERED_PAUSES_S if answer is None else PAUSES_S
        if tries >= len(pauses):
            return False
        pause = max(pauses[tries], (answer.retry_after_s if answer else None) or 0.0)
        if self.spent_s + pause > self.budget_s:
            return False
        self.sleep(pause)
        self.spent_s += pause
        return True

    def _doing(self) -> Doing:
        return Doing(
            what=f"read {self.at.repository}",
            host=self.at.host,
            repository=self.at.repository,
            google=is_google(self.at.host),
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


def _send(session: Any, url: str, headers: Mapping[str, str]) -> Answer:
    """Of an answer of more than MAX_BYTES, as much is read as shows that."""
    elsewhere = "/blobs/" in url  # a blob's bytes prove themselves; what else comes from elsewhere is nobody's word
    options = {"timeout": TIMEOUT_S, "stream": True, "auth": no_netrc, "allow_redirects": elsewhere}
    with session.get(url, headers=headers, **options) as answer:
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
