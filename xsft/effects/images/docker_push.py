"""Push an image that the engine holds, again where a push is cut off, and prove what the registry has; or pull one.

Docker keeps the layers that arrived, so a second try sends only what is missing; two pushes at once share layers.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from xsft.effects.images.docker_client import Engine, ImageSeen, error_of, layer_of, told
from xsft.effects.images.docker_login import GOOGLE_USER, Credential, auth_for, credential_for, own_folder
from xsft.effects.images.registry_client import Registries
from xsft.errors import Unknown, XsftError
from xsft.image.docker_errors import Doing, broken_off, explain, is_limited, is_passing, login_missing, words
from xsft.image.progress import Event, Retrying
from xsft.image.registry_names import is_google, named

PAUSES_S = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Between tries; each try of the engine's is five of its own for a layer. source: moby@20.10 distribution/xfer."""
PATIENCE_S = sum(PAUSES_S)
"""Of pauses, the engine's own among them, in which no layer gets further: then the registry's trouble is reported."""
FURTHER = 1 << 20
"""Bytes; less is what fits into buffers on the way to a registry that takes nothing."""
UNANSWERED_TRIES = 2
"""Where nobody answers at all: a wrong name or a missing network stays so."""
LONGEST_PAUSE_S = 60.0
"""Of what a registry may ask for; longer is for the user to wait."""


class Pushed(Struct, frozen=True, kw_only=True):
    """What the registry has now."""

    repository: str
    tag: str
    digest: str
    """`sha256:…` of the manifest; its bytes were read back."""
    size: int
    """Bytes the registry stores for it, compressed, layers shared with others included."""

    @property
    def ref(self) -> str:
        return f"{self.repository}@{self.digest}"


@dataclass(frozen=True, kw_only=True)
class Pusher:
    """Pushes and pulls through one engine, with the logins of one user."""

    engine: Engine
    registries: Registries
    credential: Callable[[str], Credential | None] = field(repr=False)
    """For Google's registries."""
    google: Callable[[str], bool] = is_google
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def push(
        self, image: str, *, repository: str, tag: str, on_event: Callable[[Event], None] = lambda _: None
    ) -> Pushed:
        """Name the held image `repository:tag`, push it, and read back what arrived.

        Raises Unreachable (login, right, limit, network), EnvironmentMissing (no such repository, disk full), and
        Unknown where the registry has something else than what was pushed: nothing may be recorded then.
        """
        self.engine.tag(image, repository=repository, tag=tag)
        host = named(repository).host
        doing = Doing(
            what=f"push {repository}:{tag}", host=host, repository=repository, google=self.google(host), pushes=True
        )
        auth = self._auth(repository)
        if not auth and doing.google:
            raise login_missing(host, google=True)
        said = self._until_done(repository, tag, auth=auth, doing=doing, on_event=on_event)
        return self._proven(repository, tag, said)

    def pull(self, ref: str, *, on_event: Callable[[Event], None] = lambda _: None) -> ImageSeen:
        """Pull by digest or tag; without a login as anybody may, for a public image needs none.

        Raises as `Engine.pull` does; registry-login-missing where the registry wants a login and there is none.
        """
        auth = self._auth(ref)
        try:
            return self.engine.pull(ref, auth=auth, on_event=on_event)
        except XsftError as failed:
            if not auth and failed.problem_id in {"registry-login-refused", "registry-forbidden"}:
                host = named(ref).host
                raise login_missing(host, google=self.google(host)) from None
            raise

    def _auth(self, ref: str) -> Mapping[str, str]:
        """The login for pushing and pulling `ref`, in the SDK's form; empty where there is none."""
        host, env = named(ref).host, self.engine.env
        credential = self.credential(host) if self.google(host) else None
        if credential:
            return {"username": credential.user, "password": credential.secret}
        return auth_for(host, folder=own_folder(env), env=env) or {}

    def _until_done(
        self, repository: str, tag: str, *, auth: Mapping[str, str], doing: Doing, on_event: Callable[[Event], None]
    ) -> str:
        """The digest that the engine says it pushed."""
        pauses = _Pauses(clock=self.clock)
        for tries in itertools.count(1):
            with told(doing), self.engine.pushing(repository, tag, auth=auth) as lines:
                failed, digest = _followed(lines, on_event, pauses)
            if digest:
                return digest
            if pauses.over:
                raise self._stalled(repository, doing)
            pause = self._pause(failed, tries, doing.host)
            if pause is None:
                raise _refusal(failed, doing, has_login=bool(auth))
            on_event(Retrying(attempt=tries + 1, pause_s=pause, why=words(failed)))
            self.sleep(pause)
        raise AssertionError  # count() does not end

    def _stalled(self, repository: str, doing: Doing) -> XsftError:
        """The engine keeps to itself what it was answered, so the registry is asked."""
        try:
            self.registries.try_push(repository, budget_s=0.0)
        except XsftError as failed:
            return failed
        return broken_off(
            f"the registry broke off each try for {PATIENCE_S:g} s (the engine's log has its words)", doing
        )

    def _pause(self, failed: str, tries: int, host: str) -> float | None:
        """Seconds to the next try; None where another one does not help.

        The engine does not pass a registry's Retry-After on, so the registry is asked.
        """
        if tries > (UNANSWERED_TRIES if "dial tcp" in failed else len(PAUSES_S)) or not is_passing(failed):
            return None
        asked = self.registries.pause_asked(host) if is_limited(failed) else None
        pause = max(PAUSES_S[tries - 1], asked or 0.0)
        return pause if pause <= LONGEST_PAUSE_S else None

    def _proven(self, repository: str, tag: str, pushed: str) -> Pushed:
        """By the bytes of the manifest, under the digest that was pushed: another push may have the tag by now."""
        mine = self.registries.manifest(f"{repository}@{pushed}")
        tagged = self.registries.manifest_digest(f"{repository}:{tag}")
        if mine is None or mine.digest != pushed or tagged is None:
            raise Unknown(
                f"{repository}:{tag} was pushed as {pushed}, and the registry does not have that.",
                fix="Push again; nothing was recorded.",
                id="push-unconfirmed",
            )
        return Pushed(repository=repository, tag=tag, digest=mine.digest, size=mine.size)


def pusher(engine: Engine, *, registries: Registries | None = None) -> Pusher:
    """With the user's own logins."""
    return Pusher(
        engine=engine,
        registries=registries or Registries(env=engine.env),
        credential=lambda host: _google_only(credential_for(host, env=engine.env)),
    )


def _refusal(failed: str, doing: Doing, *, has_login: bool) -> XsftError:
    error = explain(failed, doing)
    if error.problem_id == "registry-login-refused" and not has_login:
        return login_missing(doing.host, google=doing.google)
    return error


def _google_only(found: Credential | None) -> Credential | None:
    """A login that Docker itself has, a helper of gcloud's, is used where it lies."""
    return found if found and found.user == GOOGLE_USER else None


@dataclass
class _Pauses:
    """The engine's pauses between its tries of a layer, since one last got further."""

    clock: Callable[[], float]
    _waited_s: float = 0.0
    _last: float = 0.0
    """When the line before was seen."""
    _furthest: dict[str, int] = field(default_factory=dict)
    """Bytes by layer."""

    @property
    def over(self) -> bool:
        return self._waited_s > PATIENCE_S

    def see(self, line: Mapping[str, Any]) -> None:
        """source: moby@20.10 distribution/xfer/upload.go: a line for each second of a pause."""
        now, layer = self.clock(), layer_of(line)
        if str(line.get("status", "")).startswith("Retrying in"):
            self._waited_s += now - self._last
        elif layer and layer.bytes >= self._furthest.get(layer.id, 0) + FURTHER:
            self._furthest[layer.id], self._waited_s = layer.bytes, 0.0
        elif layer and layer.state == "done":
            self._waited_s = 0.0
        self._last = now


def _followed(
    lines: Iterable[Mapping[str, Any]], on_event: Callable[[Event], None], pauses: _Pauses
) -> tuple[str, str]:
    """What went wrong, and the digest; one of them is empty."""
    digest = ""
    for line in lines:
        pauses.see(line)
        if pauses.over:
            return "no layer got further", ""
        if failed := error_of(line):
            return failed, ""
        if layer := layer_of(line):
            on_event(layer)
        digest = str((line.get("aux") or {}).get("Digest") or digest)
    return ("" if digest else "the push ended without a digest: unexpected EOF"), digest
