"""Pushes an image from the engine, retries a push that is cut off, and proves what the registry has; or pulls one.

Docker keeps the layers that arrived, so a retry sends only the missing ones; two concurrent pushes share layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from xsft.base.errors import Unknown, XsftError
from xsft.effects.images.docker_client import Engine, EngineImage, error_of, explain_engine_errors, layer_of
from xsft.effects.images.docker_login import Credential, auth_for, google_credential, own_folder
from xsft.effects.images.registry_client import Registries
from xsft.effects.images.registry_http import UNANSWERED_TRIES
from xsft.image.docker_errors import (
    DockerRequest,
    broken_off,
    explain_docker_error,
    is_limited,
    is_passing,
    login_missing,
    shorten_message,
)
from xsft.image.progress import BuildEvent, TransferRetry
from xsft.image.registry_names import is_google, parse_image_name
from xsft.machine.clock import monotonic, pause
from xsft.machine.retries import Retries

PAUSES_S = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds between tries; each try of the engine includes five of its own for a layer. source: moby@20.10
distribution/xfer.
"""
PATIENCE_S = sum(PAUSES_S)
"""Maximum sum of pauses, including the engine's own, without progress of any layer; then the registry's error is
reported.
"""
FURTHER = 1 << 20
"""Bytes that count as progress; less fits into buffers on the way to a registry that accepts nothing."""
LONGEST_PAUSE_S = 60.0
"""Maximum pause that a registry may ask for; a longer one is left to the user."""


@dataclass(frozen=True, kw_only=True)
class Pusher:
    """Pushes and pulls through one engine, with the logins of one user."""

    engine: Engine
    registries: Registries
    credential: Callable[[str], Credential | None] = field(repr=False)
    """Return the credential for Google's registries."""
    google: Callable[[str], bool] = is_google
    sleep: Callable[[float], None] = pause
    clock: Callable[[], float] = monotonic

    def push(
        self, image: str, *, repository: str, tag: str, on_event: Callable[[BuildEvent], None] = lambda _: None
    ) -> str:
        """Tag the engine's image as `repository:tag`, push it, and read back what arrived. Returns the digest of its
        manifest.

        Raises Unreachable (login, permission, limit, network), EnvironmentMissing (no such repository, disk full), and
        Unknown if the registry has something other than what was pushed: nothing may be recorded then.
        """
        self.engine.tag(image, repository=repository, tag=tag)
        host = parse_image_name(repository).host
        auth = self._auth(repository)
        request = DockerRequest(
            what=f"push {repository}:{tag}",
            host=host,
            repository=repository,
            google=self.google(host),
            pushes=True,
            anonymous=not auth,
        )
        if not auth and request.google:
            raise login_missing(host, google=True)
        said = self._until_done(repository, tag, auth=auth, request=request, on_event=on_event)
        self._prove(repository, tag, said)
        return said

    def pull(self, ref: str, *, on_event: Callable[[BuildEvent], None] = lambda _: None) -> EngineImage:
        """Pull by digest or tag; anonymously without a login, since a public image needs none. Raises as `Engine.pull`
        does; registry-login-missing if the registry requires a login and there is none.
        """
        return self.engine.pull(ref, auth=self._auth(ref), on_event=on_event)

    def _auth(self, ref: str) -> Mapping[str, str]:
        """Return the login for pushing and pulling `ref`, in the SDK's form; empty if there is none."""
        host, env = parse_image_name(ref).host, self.engine.env
        credential = self.credential(host) if self.google(host) else None
        if credential:
            return {"username": credential.user, "password": credential.secret}
        return auth_for(host, folder=own_folder(env), env=env) or {}

    def _until_done(
        self,
        repository: str,
        tag: str,
        *,
        auth: Mapping[str, str],
        request: DockerRequest,
        on_event: Callable[[BuildEvent], None],
    ) -> str:
        """Push with retries. Returns the digest that the engine reports."""
        pauses = _Pauses(clock=self.clock)
        retries = Retries(PAUSES_S, longest_s=LONGEST_PAUSE_S)
        while True:
            with explain_engine_errors(request), self.engine.pushing(repository, tag, auth=auth) as lines:
                failed, digest = _follow_push(lines, on_event, pauses)
            if digest:
                return digest
            if pauses.over:
                raise self._stalled_error(repository, request)
            # the engine does not report a registry's Retry-After, so the registry is queried
            asked_s = self.registries.pause_asked(request.host) if is_limited(failed) else None
            at_most = UNANSWERED_TRIES if "dial tcp" in failed else len(PAUSES_S)
            pause_s = retries.next_pause_s(asked_s, at_most=at_most) if is_passing(failed) else None
            if pause_s is None:
                raise explain_docker_error(failed, request)
            on_event(TransferRetry(attempt=retries.done + 1, pause_s=pause_s, why=shorten_message(failed)))
            self.sleep(pause_s)

    def _stalled_error(self, repository: str, request: DockerRequest) -> XsftError:
        """Return the error for a push without progress. The engine does not report the registry's answers, so the
        registry is queried.
        """
        try:
            self.registries.try_push(repository, budget_s=0.0)
        except XsftError as failed:
            return failed
        return broken_off(
            f"the registry interrupted every attempt for {PATIENCE_S:g} s (see the engine's log)", request
        )

    def _prove(self, repository: str, tag: str, pushed: str) -> None:
        """Verify the bytes of the manifest under the digest that was pushed: another push may have moved the tag."""
        mine = self.registries.manifest(f"{repository}@{pushed}")
        tagged = self.registries.manifest_digest(f"{repository}:{tag}")
        if mine is None or mine.digest != pushed or tagged is None:
            raise Unknown(
                f"{repository}:{tag} was pushed as {pushed}, but the registry does not have it.",
                fix="Push again; nothing was recorded.",
                id="push-unconfirmed",
            )


def pusher(engine: Engine, *, registries: Registries | None = None) -> Pusher:
    """Return a pusher with the user's own logins."""
    return Pusher(
        engine=engine,
        registries=registries or Registries(env=engine.env),
        credential=lambda host: google_credential(host, env=engine.env),
    )


class _Pauses(Struct):
    """The engine's pauses between its tries of a layer, since the last progress of any layer."""

    clock: Callable[[], float]
    _waited_s: float = 0.0
    _last: float = 0.0
    """Time of the previous line."""
    _furthest: dict[str, int] = {}
    """Bytes sent, by layer."""

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


def _follow_push(
    lines: Iterable[Mapping[str, Any]], on_event: Callable[[BuildEvent], None], pauses: _Pauses
) -> tuple[str, str]:
    """Return the error and the digest; one of them is empty."""
    digest = ""
    for line in lines:
        pauses.see(line)
        if pauses.over:
            return "no layer made progress", ""
        if failed := error_of(line):
            return failed, ""
        if layer := layer_of(line):
            on_event(layer)
        digest = str((line.get("aux") or {}).get("Digest") or digest)
    return ("" if digest else "the push ended without a digest: unexpected EOF"), digest
