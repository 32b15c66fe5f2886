"""What a registry holds: digests, tags, labels; by the OCI Distribution API (v2). Nothing is written.

`docker_push` writes. `registry` asks the one question of `submit`.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin

from msgspec import Struct

from xsft.effects.registry import KINDS
from xsft.effects.registry_auth import Login, login_for, no_netrc
from xsft.effects.registry_http import BUSY, TIMEOUT_S, Answer, Asking
from xsft.effects.registry_names import Named, base_url, named
from xsft.effects.storage import within
from xsft.errors import Unknown

BUDGET_S = 30.0
"""For one question, pauses included."""
PAGE = 1000
MAX_TAGS = 20_000


class Manifest(Struct, frozen=True, kw_only=True):
    """Proven: the digest is that of the bytes that were read."""

    digest: str
    kind: str
    """Its media type."""
    content: Mapping[str, Any]
    size: int
    """Bytes stored: configuration and layers, compressed."""


@dataclass(frozen=True, kw_only=True)
class Registries:
    """Asks any registry, with the login that the user has for it."""

    env: Mapping[str, str] = field(repr=False)
    login: Callable[[str, Mapping[str, str]], Login] = login_for
    sleep: Callable[[float], None] = time.sleep
    budget_s: float = BUDGET_S
    _logins: dict[str, Login] = field(default_factory=dict, repr=False)
    """By host: a token is fetched once."""

    def manifest_digest(self, ref: str) -> str | None:
        """`sha256:…`; None where the registry says that there is no such image. Raises as `manifest` does."""
        found = self.manifest(ref)
        return found.digest if found else None

    def manifest(self, ref: str) -> Manifest | None:
        """Raises Unreachable where the registry does not tell, Unknown where it contradicts itself."""
        at = named(ref)
        answer = self._get(at, at.url("manifests", at.reference), accept=KINDS)
        return None if answer is None else _manifest(at, answer)

    def tags(self, repository: str) -> tuple[str, ...]:
        """Sorted; empty where there is no such repository. Raises Unreachable."""
        at = named(repository)
        found: set[str] = set()
        url: str | None = f"{at.url('tags/list')}?n={PAGE}"
        while url and len(found) < MAX_TAGS:
            answer = self._get(at, url)
            if answer is None:
                break
            found.update(_json(at, answer.content).get("tags") or ())
            url = _same_host(at, answer.next, answer.url)
        return tuple(sorted(found))

    def image_labels(self, ref: str) -> Mapping[str, str] | None:
        """Labels of the image for TPU hosts (linux/amd64); None where there is no such image."""
        config = self.image_config(ref)
        return None if config is None else dict((config.get("config") or {}).get("Labels") or {})

    def image_config(self, ref: str) -> Mapping[str, Any] | None:
        """The image's configuration: labels, environment, when it was created; None where there is no such image."""
        at, manifest = named(ref), self.manifest(ref)
        if manifest and (of_platform := _for_tpu(manifest)):
            manifest = self.manifest(f"{at.repository}@{of_platform}")
        if manifest is None or "config" not in manifest.content:
            return None
        digest = str(manifest.content["config"]["digest"])
        answer = self._get(at, at.url("blobs", digest))
        if answer is None:
            return None
        if digest_of(answer.content) != digest:
            raise _contradicts(at, f"the configuration {digest} has other bytes")
        return _json(at, answer.content)

    def pause_asked(self, host: str) -> float | None:
        """Seconds that a busy registry wants to be left alone; None where it does not say or answers again."""
        import requests

        try:
            answer = requests.get(f"{base_url(host)}/v2/", timeout=TIMEOUT_S, allow_redirects=False, auth=no_netrc)
        except requests.RequestException:
            return None
        said = answer.headers.get("Retry-After", "")
        return float(said) if answer.status_code in BUSY and said.isdecimal() else None

    def _get(self, at: Named, url: str, *, accept: tuple[str, ...] = ()) -> Answer | None:
        """None for a 404."""
        if at.host not in self._logins:
            self._logins[at.host] = self.login(at.host, self.env)
        asking = Asking(at=at, login=self._logins[at.host], sleep=self.sleep, budget_s=self.budget_s)
        return within(self.budget_s + TIMEOUT_S, lambda: asking.get(url, accept=accept))


def _manifest(at: Named, answer: Answer) -> Manifest:
    digest = digest_of(answer.content)
    claims = {answer.headers.get("Docker-Content-Digest") or digest}
    if at.reference.startswith("sha256:"):
        claims.add(at.reference)
    if claims != {digest}:
        raise _contradicts(at, f"it says {' and '.join(sorted(claims - {digest}))} of bytes that are {digest}")
    content = _json(at, answer.content)
    parts = (content.get("config") or {}, *(content.get("layers") or ()))
    size = sum(int(part.get("size") or 0) for part in parts)
    kind = str(content.get("mediaType") or answer.headers.get("Content-Type") or "")
    return Manifest(digest=digest, kind=kind, content=content, size=size)


def _for_tpu(manifest: Manifest) -> str | None:
    """In an index of several platforms, the digest of linux/amd64."""
    for one in manifest.content.get("manifests") or ():
        platform = one.get("platform") or {}
        if (platform.get("os"), platform.get("architecture")) == ("linux", "amd64"):
            return str(one["digest"])
    return None


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _json(at: Named, content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise _contradicts(at, "what it sent is not a JSON object (is it a registry?)")
    return found


def _contradicts(at: Named, why: str) -> Unknown:
    return Unknown(
        f"{at.repository}: the registry's answer cannot be believed: {why}.",
        fix="Is there a proxy between? Ask again from another network; nothing was recorded.",
        id="registry-contradicts",
    )


def _same_host(at: Named, url: str | None, now: str) -> str | None:
    """The next page; only where it is the same registry's."""
    if not url:
        return None
    following = urljoin(now, url)
    return following if following.startswith(f"{base_url(at.host)}/v2/") else None
