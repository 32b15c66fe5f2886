"""Reads a registry's digests, tags, labels and SBOMs with the OCI Distribution API (v2). Stores nothing there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urljoin

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from requests import RequestException

from xsft.base.errors import Unknown, XsftError
from xsft.effects.images.registry_auth import RegistryLogin
from xsft.effects.images.registry_http import BUSY, MAX_BYTES, TIMEOUT_S, RegistryAnswer, RegistryQuery, send
from xsft.image.contents import ENV_NAMES, ImageConfiguration, packages_of_sbom
from xsft.image.recipe import PACKAGES_LABEL, PLATFORM
from xsft.image.registry_names import ImageName, base_url, parse_image_name
from xsft.machine import clock
from xsft.machine.http_session import Session
from xsft.machine.parallel import call_within

T = TypeVar("T")

BUDGET_S = 30.0
"""Time limit for one query, pauses included."""
KINDS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
PAGE = 1000
MAX_TAGS = 20_000
SBOM = "https://spdx.dev/Document"
"""Predicate type. source, also of the annotations: moby/buildkit docs/attestations/attestation-storage.md."""
SBOM_BYTES = 64 << 20
"""It lists files, too; a larger one is not read."""
SBOM_S = 5.0
"""Time limit for reading it, of the look's ten seconds."""


class Manifest(Struct, frozen=True, kw_only=True):
    """A manifest whose bytes match its digest."""

    digest: str
    config: str
    """Digest of the image's configuration; empty if it has none."""
    platforms: Mapping[str, str]
    """For an index: `linux/amd64` -> digest of the manifest."""
    size: int
    """Bytes stored: configuration and layers, compressed."""
    attestations: Mapping[str, str]
    """For an index: digest of an image -> digest of the manifest of its attestations."""
    sboms: tuple[str, ...]
    """Digests of the package lists, for a manifest of attestations."""


class _Platform(Struct, frozen=True, kw_only=True):
    os: str = ""
    architecture: str = ""


class _Descriptor(Struct, frozen=True, kw_only=True):
    digest: str = ""
    annotations: Mapping[str, str] | None = None
    size: int = 0
    platform: _Platform | None = None


class _ManifestDocument(Struct, frozen=True, kw_only=True):
    """A manifest or an index. source: OCI image-spec v1.1 manifest.md, image-index.md."""

    config: _Descriptor | None = None
    layers: tuple[_Descriptor, ...] | None = ()
    manifests: tuple[_Descriptor, ...] | None = ()


class _RunConfiguration(Struct, frozen=True, kw_only=True):
    labels: dict[str, str] | None = msgspec.field(default=None, name="Labels")
    env: tuple[str, ...] | None = msgspec.field(default=None, name="Env")
    entrypoint: tuple[str, ...] | None = msgspec.field(default=None, name="Entrypoint")


class _HistoryEntry(Struct, frozen=True, kw_only=True):
    created_by: str = ""


class _Configuration(Struct, frozen=True, kw_only=True):
    """source: OCI image-spec v1.1 config.md."""

    os: str = ""
    architecture: str = ""
    config: _RunConfiguration | None = None
    history: tuple[_HistoryEntry, ...] | None = ()


class _TagList(Struct, frozen=True, kw_only=True):
    tags: tuple[str, ...] | None = ()


_TAGS, _DOCUMENT = msgspec.json.Decoder(_TagList), msgspec.json.Decoder(_ManifestDocument)
_CONFIGURATION = msgspec.json.Decoder(_Configuration)
"""Created at import: msgspec@0.22.0 crashes if two threads do this for one type."""


class RegistryImage(Struct, frozen=True, kw_only=True):
    """An image in a registry, verified by its bytes."""

    digest: str
    """Digest of what the name points to: a manifest or an index."""
    configuration: ImageConfiguration | None
    """None if the content is not an image."""

    @property
    def labels(self) -> Mapping[str, str]:
        return self.configuration.labels if self.configuration else {}


@dataclass(kw_only=True, eq=False)
class Registries:
    """A client of any registry, with the login that the user has for it. Mutable: logins are kept."""

    env: Mapping[str, str] = field(repr=False)
    login: Callable[[str, Mapping[str, str]], RegistryLogin] = RegistryLogin
    sleep: Callable[[float], None] = clock.pause
    budget_s: float = BUDGET_S
    _logins: dict[str, RegistryLogin] = field(default_factory=dict, repr=False)
    """Logins by host: a token is fetched once."""

    def manifest_digest(self, ref: str) -> str | None:
        """Return `sha256:…`; None if the registry reports that there is no such image. Raises as `manifest` does."""
        found = self.manifest(ref)
        return found.digest if found else None

    def manifest(self, ref: str) -> Manifest | None:
        """Return the manifest, or None. Raises Unreachable if the registry does not answer, Unknown if its answers
        contradict each other.
        """
        at = parse_image_name(ref)
        answer = self._get(at, at.url("manifests", at.reference), accept=KINDS)
        return None if answer is None else _manifest(at, answer)

    def tags(self, repository: str) -> tuple[str, ...]:
        """Return the tags, sorted; empty if there is no such repository. Raises Unreachable."""
        at = parse_image_name(repository)
        found: set[str] = set()
        url: str | None = f"{at.url('tags/list')}?n={PAGE}"
        while url and len(found) < MAX_TAGS:
            answer = self._get(at, url)
            if answer is None:
                break
            found.update(_decode_answer(at, answer.content, _TAGS).tags or ())
            url = _same_host(at, answer.next, answer.url)
        return tuple(sorted(found))

    def image(self, ref: str) -> RegistryImage | None:
        """Return the image, or None. For an index, the configuration is that of the image for TPU hosts
        (linux/amd64); one without such an image tells its platforms only.
        """
        at, meant = parse_image_name(ref), self.manifest(ref)
        manifest = meant
        if manifest and (of_platform := manifest.platforms.get(PLATFORM)):
            manifest = self.manifest(f"{at.repository}@{of_platform}")
        if meant is None or manifest is None:
            return None
        configuration = self._configuration(at, manifest)
        attested = meant.attestations.get(manifest.digest)
        if configuration and attested and PACKAGES_LABEL not in configuration.labels:
            configuration = replace(configuration, listed=self._packages_in_sbom(f"{at.repository}@{attested}"))
        return RegistryImage(digest=meant.digest, configuration=configuration)

    def _packages_in_sbom(self, attestations: str) -> dict[str, str]:
        """Return the packages in the SBOM that BuildKit attached; empty if it cannot be read."""
        try:
            return call_within(
                SBOM_S, lambda: self._packages(parse_image_name(attestations), self.manifest(attestations))
            )
        except (XsftError, msgspec.DecodeError):
            return {}

    def _packages(self, at: ImageName, attestations: Manifest | None) -> dict[str, str]:
        found: dict[str, str] = {}
        for digest in attestations.sboms if attestations else ():
            answer = self._get(at, at.url("blobs", digest), max_bytes=SBOM_BYTES)
            if answer and digest_of(answer.content) == digest:
                found |= packages_of_sbom(answer.content)
        return found

    def _configuration(self, at: ImageName, manifest: Manifest) -> ImageConfiguration | None:
        if manifest.platforms:
            return ImageConfiguration(platforms=tuple(sorted(manifest.platforms)))
        answer = self._get(at, at.url("blobs", manifest.config)) if manifest.config else None
        if answer is None:
            return None
        if digest_of(answer.content) != manifest.config:
            raise _contradicts(at, f"the configuration {manifest.config} has another digest")
        return _image_configuration(_decode_answer(at, answer.content, _CONFIGURATION), size=manifest.size)

    def try_push(self, repository: str, *, budget_s: float | None = None) -> None:
        """Begin an upload and cancel it: checks the right to push, and the repository, before minutes of building.

        Raises Unreachable (login, permission, limit, network) and EnvironmentMissing, repository-missing. source: OCI
        distribution-spec v1.1, "Pushing a blob in chunks"; distribution@2.8 docs/spec/api.md, "Canceling".
        """
        at, budget_s = parse_image_name(repository), self.budget_s if budget_s is None else budget_s
        begun = call_within(budget_s + TIMEOUT_S, self._query(at, budget_s=budget_s, pushes=True).begin_upload)
        self._query(at, budget_s=0.0, pushes=True).cancel_upload(begun)

    def pause_asked(self, host: str) -> float | None:
        """Return how many seconds a busy registry asks clients to wait; None if it does not say or is no longer
        busy.
        """
        try:
            with Session() as session:
                answer = send(session, "GET", f"{base_url(host)}/v2/")
        except RequestException:
            return None
        return answer.retry_after_s if answer.status in BUSY else None

    def login_to(self, host: str) -> RegistryLogin:
        if host not in self._logins:
            self._logins[host] = self.login(host, self.env)
        return self._logins[host]

    def _get(
        self, at: ImageName, url: str, *, accept: tuple[str, ...] = (), max_bytes: int = MAX_BYTES
    ) -> RegistryAnswer | None:
        """Return the answer; None for a 404."""
        query = self._query(at, budget_s=self.budget_s, max_bytes=max_bytes)
        return call_within(self.budget_s + TIMEOUT_S, lambda: query.get(url, accept=accept))

    def _query(self, at: ImageName, **options: Any) -> RegistryQuery:
        return RegistryQuery(at=at, login=self.login_to(at.host), sleep=self.sleep, **options)


def _manifest(at: ImageName, answer: RegistryAnswer) -> Manifest:
    digest = digest_of(answer.content)
    claims = {answer.headers.get("Docker-Content-Digest") or digest}
    if at.reference.startswith("sha256:"):
        claims.add(at.reference)
    if claims != {digest}:
        raise _contradicts(at, f"it claims {' and '.join(sorted(claims - {digest}))} for content with {digest}")
    found = _decode_answer(at, answer.content, _DOCUMENT)
    platforms = {
        f"{one.platform.os}/{one.platform.architecture}": one.digest
        for one in found.manifests or ()
        if one.platform and one.platform.os != "unknown"  # an attestation
    }
    return Manifest(
        digest=digest,
        config=found.config.digest if found.config else "",
        platforms=platforms,
        size=sum(part.size for part in (found.config, *(found.layers or ())) if part),
        attestations={
            told["vnd.docker.reference.digest"]: one.digest
            for one in found.manifests or ()
            if (told := one.annotations or {}).get("vnd.docker.reference.type") == "attestation-manifest"
            and "vnd.docker.reference.digest" in told
        },
        sboms=tuple(
            one.digest for one in found.layers or () if (one.annotations or {}).get("in-toto.io/predicate-type") == SBOM
        ),
    )


def _image_configuration(found: _Configuration, *, size: int) -> ImageConfiguration:
    run = found.config or _RunConfiguration()
    pairs = (one.partition("=") for one in run.env or ())
    platform = f"{found.os}/{found.architecture}" if found.os and found.architecture else ""
    return ImageConfiguration(
        platforms=(platform,) if platform else (),
        size=size,
        labels=run.labels or {},
        env={name: value for name, _, value in pairs if name in ENV_NAMES},
        entrypoint=run.entrypoint or (),
        made_by=tuple(one.created_by for one in found.history or ()),
    )


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _decode_answer(at: ImageName, content: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(content)
    except (msgspec.DecodeError, RecursionError) as wrong:
        raise _contradicts(at, f"it is not a registry's answer ({wrong})") from None


def _contradicts(at: ImageName, why: str) -> Unknown:
    return Unknown(
        f"{at.repository}: the registry's answer is invalid: {why}.",
        fix="Check for a proxy in between. Try again from another network; nothing was recorded.",
        id="registry-contradicts",
    )


def _same_host(at: ImageName, url: str | None, now: str) -> str | None:
    """Return the address of the next page, only if it is on the same registry."""
    if not url:
        return None
    following = urljoin(now, url)
    return following if following.startswith(f"{base_url(at.host)}/v2/") else None
