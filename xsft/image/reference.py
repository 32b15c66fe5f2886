"""Parse image references, `host/repository:tag@sha256:…`, and map them to registry hosts and URLs. Pure.

source: distribution v2.8 reference/regexp.go (the form), reference/normalize.go (docker.io, library/),
docs/spec/auth/token.md; Google Cloud's "Transition to Artifact Registry" (the
successors of gcr.io's repositories).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import urlsplit

from msgspec import Struct

from xsft.base.errors import UsageError
from xsft.base.network_words import is_loopback
from xsft.base.problems import Problem, warning

_COMPONENT = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*")
_HOST = re.compile(r"(?:[a-z0-9]|[a-z0-9][-a-z0-9]*[a-z0-9])(?:\.[a-z0-9][-a-z0-9]*)*(?::[0-9]{1,5})?")
_TAG = re.compile(r"[A-Za-z0-9_][-.A-Za-z0-9_]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PLAIN = re.compile(r"[-A-Za-z0-9._/:@]+")
_GOOGLE_HOST = re.compile(r"(?P<location>[a-z0-9-]+)-docker\.pkg\.dev")
_LOCATION = re.compile(r"us|europe|asia|[a-z]+(?:-[a-z]+)?-[a-z]+[0-9]+")
_GOOGLE_NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?|(?:(?:us|eu|asia)\.)?gcr\.io")
_PROJECT = re.compile(r"(?:[a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]")
"""source: Artifact Registry documentation, "Repository and image names", "Repository locations"; Resource Manager's.
"""
MAX_NAME = 255
"""Maximum length of host and repository together, in characters."""

LEGACY: Mapping[str, str] = MappingProxyType(
    {"gcr.io": "us", "us.gcr.io": "us", "eu.gcr.io": "europe", "asia.gcr.io": "asia"}
)
"""Container Registry's hosts (shut down) and the location of the Artifact Registry repository that replaces each."""
HUB = "docker.io"
HUB_API = "registry-1.docker.io"
GOOGLE = (".pkg.dev", ".gcr.io")
"""Domains of Google's registries. The leading dot matters: anyone may own xgcr.io, and would receive a user's token."""


class Reference(Struct, frozen=True, kw_only=True):
    """A parsed image reference."""

    host: str
    """Host with its port; empty if there is none, so that the engine's or node's default applies."""
    repository: str
    """Path after the host."""
    tag: str | None = None
    digest: str | None = None
    """`sha256:` and 64 hex digits."""

    @property
    def name(self) -> str:
        """The reference without tag and digest."""
        return f"{self.host}/{self.repository}" if self.host else self.repository

    @property
    def identifier(self) -> str:
        """The digest, else the tag; empty without both."""
        return self.digest or self.tag or ""

    def __str__(self) -> str:
        return f"{self.name}{f':{self.tag}' if self.tag else ''}{f'@{self.digest}' if self.digest else ''}"


class Repository(Struct, frozen=True, kw_only=True):
    """A repository in Artifact Registry: project, location and name."""

    project: str
    location: str
    """Region or multi-region: `us`, `europe-west4`."""
    name: str

    @property
    def parent(self) -> str:
        return f"projects/{self.project}/locations/{self.location}"

    @property
    def docker(self) -> str:
        """Return its name for Docker, without an image: `us-docker.pkg.dev/my-project/xsft`."""
        return f"{self.location}-docker.pkg.dev/{self.project.replace(':', '/')}/{self.name}"


def parse_reference(text: str) -> Reference:
    """Parse an image reference. Raises ValueError with the fault and the correct form."""
    if not text:
        raise ValueError(
            "the reference is empty; an image looks like us-docker.pkg.dev/my-project/xsft/image@sha256:…."
        )
    strange = "".join(dict.fromkeys(c for c in text if not _PLAIN.fullmatch(c)))
    if strange:
        what = "a space" if strange.isspace() else repr(strange)
        raise ValueError(f"{text!r} contains {what}; an image's name may have letters, digits and . _ - / : @")
    name, sign, digest = text.partition("@")
    if sign and not _DIGEST.fullmatch(digest):
        raise ValueError(f"{text!r}: the digest must be sha256: and 64 hex digits, as a push prints it.")
    folder, slash, last = name.rpartition("/")
    base, colon, tag = last.partition(":")
    if colon and not _TAG.fullmatch(tag):
        raise ValueError(
            f"{text!r}: the tag {tag!r} must be letters, digits, dots, dashes and underscores, at most 128."
        )
    repository = f"{folder}{slash}{base}"
    host, slash, path = repository.partition("/")
    if slash and ("." in host or ":" in host or host == "localhost"):  # Docker's rule: else it is a part of the path
        repository = path
    else:
        host = ""
    _refuse_name(text, host, repository)
    return Reference(host=host, repository=repository, tag=tag or None, digest=digest or None)


def parse_repository(text: str) -> Reference:
    """Parse the repository to push to. Raises ValueError, also for a tag or digest, which xsft adds itself."""
    reference = parse_reference(text.rstrip("/"))
    if reference.tag or reference.digest:
        extra = f":{reference.tag}" if reference.tag else f"@{reference.digest}"
        raise ValueError(
            f"{text!r} is an image, not a repository: remove {extra}; xsft computes the tag from the content."
        )
    if not reference.host:
        raise ValueError(f"{text!r} has no registry host: add it, e.g. us-docker.pkg.dev/my-project/xsft.")
    return reference


def parse_image_name(ref: str) -> Reference:
    """Parse a name with Docker's defaults: without a host it is Docker Hub's, without tag and digest `latest`. Raises
    UsageError.
    """
    try:
        reference = parse_reference(ref)
    except ValueError as wrong:
        raise UsageError(str(wrong), fix="Correct the name of the image.", id="image-reference") from None
    library = "" if reference.host or "/" in reference.repository else "library/"
    return Reference(
        host=reference.host or HUB,
        repository=f"{library}{reference.repository}",
        tag=reference.tag or (None if reference.digest else "latest"),
        digest=reference.digest,
    )


def base_url(host: str) -> str:
    """Return the registry's base URL: HTTP for loopback, as Docker does; otherwise HTTPS."""
    scheme = "http" if is_loopback(_hostname(host)) else "https"
    return f"{scheme}://{HUB_API if host == HUB else host}"


def is_google(host: str) -> bool:
    """Return whether the registry is Google's, and so may receive a token of the user's login."""
    return host == "gcr.io" or host.endswith(GOOGLE)


def may_receive_login(realm: str, host: str) -> bool:
    """Return whether a registry's login may be sent to the token service that it names (`realm`): only over TLS, also
    if the service is under another domain; without it only from loopback to loopback.
    """
    address = urlsplit(realm)
    if is_loopback(_hostname(host)):
        return is_loopback(address.hostname or "") or address.scheme == "https"
    return address.scheme == "https" and not is_loopback(address.hostname or "")


def is_pinned(ref: str) -> bool:
    """Return whether the reference has a digest, which cannot move."""
    return "@sha256:" in ref


def tag_of(ref: str) -> str | None:
    """Return the tag, or None; a registry's port is not a tag."""
    return ref.partition("@")[0].rpartition("/")[2].partition(":")[2] or None


def is_untagged(ref: str) -> bool:
    """Return whether there is neither tag nor digest; Kubernetes would use `:latest`."""
    return not is_pinned(ref) and tag_of(ref) is None


def replacement(ref: str) -> str | None:
    """Return the Artifact Registry reference that replaces one to the retired gcr.io; None for any other."""
    host, _, path = ref.partition("/")
    location = LEGACY.get(host)
    if location is None or not path:
        return None
    project, _, remainder = path.partition("/")
    if "." in project:  # a domain-scoped project, example.com:my-project, is written as two components
        scoped, _, remainder = remainder.partition("/")
        project = f"{project}/{scoped}"
    return f"{location}-docker.pkg.dev/{project}/{host}{f'/{remainder}' if remainder else ''}"


def repository_of(repository: str) -> Repository | None:
    """Parse `LOCATION-docker.pkg.dev/PROJECT/REPOSITORY/IMAGE…` or a gcr.io name; return None for any other host.

    Raises UsageError, artifact-repository, when the location, project or repository is invalid.
    """
    host, *parts = (replacement(repository) or repository).split("/")
    match = _GOOGLE_HOST.fullmatch(host)
    if match is None:
        return None
    if parts and "." in parts[0]:  # a domain-scoped project
        parts = [":".join(parts[:2]), *parts[2:]]
    if len(parts) < 2:
        raise _invalid_repository(repository, "it has no repository")
    parsed = Repository(project=parts[0], location=match["location"], name=parts[1].partition(":")[0].partition("@")[0])
    for what, value, form in (
        ("location", parsed.location, _LOCATION),
        ("project", parsed.project, _PROJECT),
        ("repository", parsed.name, _GOOGLE_NAME),
    ):
        if not form.fullmatch(value):
            raise _invalid_repository(repository, f"{value!r} is not a valid {what}")
    return parsed


def legacy_warning(ref: str, *, where: str) -> Problem | None:
    """Return `image-legacy-registry` for a gcr.io reference, which redirection may still serve."""
    new = replacement(ref)
    if new is None:
        return None
    host = ref.partition("/")[0]
    message = f"{host} (Container Registry) is shut down; Artifact Registry now answers at this name."
    return warning("image-legacy-registry", where, message, f"Use its new name: {new}")


def _refuse_name(text: str, host: str, repository: str) -> None:
    if host and not _HOST.fullmatch(host):
        raise ValueError(
            f"{text!r}: {host!r} is not a valid registry host; allowed: a lower-case name, optionally with a port."
        )
    lowered = repository.lower()
    if repository != lowered:
        raise ValueError(
            f"{text!r}: a repository must be in lower case. Did you mean {text.replace(repository, lowered)}?"
        )
    for part in repository.split("/"):
        if not _COMPONENT.fullmatch(part):
            allowed = "lower-case letters and digits, with single . or _ or dashes between them"
            raise ValueError(f"{text!r}: the part {part!r} of its path is invalid; allowed: {allowed}.")
    if len(host) + len(repository) > MAX_NAME:
        raise ValueError(f"the image's name has {len(host) + len(repository)} characters; the limit is {MAX_NAME}.")


def _hostname(host: str) -> str:
    """Return the host without its port."""
    return urlsplit(f"//{host}").hostname or ""


def _invalid_repository(repository: str, why: str) -> UsageError:
    return UsageError(
        f"{repository!r} is not an Artifact Registry repository: {why}.",
        fix="Write LOCATION-docker.pkg.dev/PROJECT/REPOSITORY, e.g. us-docker.pkg.dev/my-project/xsft.",
        id="artifact-repository",
    )
