"""References to images, taken apart: `host/repository:tag@sha256:…`. Pure.

source: distribution v2.8 reference/regexp.go (the form); Google Cloud's "Transition to Artifact Registry" (where
gcr.io's repositories went).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from xsft.problems import Problem, warning

_COMPONENT = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*")
_HOST = re.compile(r"(?:[a-z0-9]|[a-z0-9][-a-z0-9]*[a-z0-9])(?:\.[a-z0-9][-a-z0-9]*)*(?::[0-9]{1,5})?")
_TAG = re.compile(r"[A-Za-z0-9_][-.A-Za-z0-9_]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PLAIN = re.compile(r"[-A-Za-z0-9._/:@]+")
MAX_NAME = 255
"""Characters of host and repository together."""

LEGACY: Mapping[str, str] = MappingProxyType(
    {"gcr.io": "us", "us.gcr.io": "us", "eu.gcr.io": "europe", "asia.gcr.io": "asia"}
)
"""Container Registry's hosts (shut down) -> the location of the Artifact Registry repository that replaces them."""


class Reference(Struct, frozen=True, kw_only=True):
    """An image as it was named."""

    host: str
    """With its port; empty where none is named, which is for the engine or the node to read."""
    repository: str
    """The path below the host."""
    tag: str | None = None
    digest: str | None = None
    """`sha256:` and 64 hex digits."""

    @property
    def name(self) -> str:
        """Host and repository, without tag and digest."""
        return f"{self.host}/{self.repository}" if self.host else self.repository

    def __str__(self) -> str:
        return f"{self.name}{f':{self.tag}' if self.tag else ''}{f'@{self.digest}' if self.digest else ''}"


def parse_reference(text: str) -> Reference:
    """Raises ValueError: what is wrong with it, and what it looks like when it is right."""
    _refuse_characters(text)
    name, at, digest = text.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise ValueError(f"{text!r}: the digest must be sha256: and 64 hex digits, as a push prints it.")
    folder, slash, last = name.rpartition("/")
    base, colon, tag = last.partition(":")
    if colon and not _TAG.fullmatch(tag):
        raise ValueError(
            f"{text!r}: the tag {tag!r} must be letters, digits, dots, dashes and underscores, at most 128."
        )
    host, repository = _split(f"{folder}{slash}{base}")
    _refuse_name(text, host, repository)
    return Reference(host=host, repository=repository, tag=tag or None, digest=digest or None)


def parse_repository(text: str) -> Reference:
    """Where images are pushed. Raises ValueError, also for a tag or a digest, which xsft adds itself."""
    found = parse_reference(text.rstrip("/"))
    if found.tag or found.digest:
        extra = f":{found.tag}" if found.tag else f"@{found.digest}"
        raise ValueError(f"{text!r} is an image, not a repository: leave {extra} out; the tag is made of the content.")
    if not found.host:
        raise ValueError(f"{text!r} names no registry: write its host too, e.g. us-docker.pkg.dev/my-project/xsft.")
    return found


def is_pinned(ref: str) -> bool:
    """Whether it names its digest, which cannot move."""
    return "@sha256:" in ref


def tag_of(ref: str) -> str | None:
    """The tag, None where there is none; a registry's port is no tag."""
    return ref.partition("@")[0].rpartition("/")[2].partition(":")[2] or None


def is_untagged(ref: str) -> bool:
    """Kubernetes would take `:latest`."""
    return not is_pinned(ref) and tag_of(ref) is None


def replacement(ref: str) -> str | None:
    """What a reference to the retired gcr.io is called today; None for any other."""
    host, _, path = ref.partition("/")
    location = LEGACY.get(host)
    if location is None or not path:
        return None
    project, _, rest = path.partition("/")
    if "." in project:  # a domain-scoped project, example.com:my-project, is written as two components
        scoped, _, rest = rest.partition("/")
        project = f"{project}/{scoped}"
    return f"{location}-docker.pkg.dev/{project}/{host}{f'/{rest}' if rest else ''}"


def legacy_warning(ref: str, *, where: str) -> Problem | None:
    """`image-legacy-registry`: it may still work, by the redirection to Artifact Registry."""
    new = replacement(ref)
    if new is None:
        return None
    message = (
        f"{ref.partition('/')[0]} (Container Registry) is shut down; what answers is a repository of Artifact Registry."
    )
    return warning("image-legacy-registry", where, message, f"Name it directly: {new}")


def _refuse_characters(text: str) -> None:
    if not text:
        raise ValueError(
            "the reference is empty; an image looks like us-docker.pkg.dev/my-project/xsft/image@sha256:…."
        )
    strange = "".join(dict.fromkeys(c for c in text if not _PLAIN.fullmatch(c)))
    if strange:
        what = "a space" if strange.isspace() else repr(strange)
        raise ValueError(
            f"{text!r} holds {what}: letters, digits and . _ - / : @ are all that an image's name may have."
        )


def _split(name: str) -> tuple[str, str]:
    """Docker's rule: the first component is a host where it has a dot or a port, or is localhost."""
    first, slash, rest = name.partition("/")
    is_host = bool(slash) and ("." in first or ":" in first or first == "localhost")
    return (first, rest) if is_host else ("", name)


def _refuse_name(text: str, host: str, repository: str) -> None:
    if host and not _HOST.fullmatch(host):
        raise ValueError(
            f"{text!r}: {host!r} is no registry's host; allowed: a name in lower case, with a port if need be."
        )
    lowered = repository.lower()
    if repository != lowered:
        raise ValueError(f"{text!r}: a repository is in lower case. Did you mean {text.replace(repository, lowered)}?")
    wrong = [part for part in repository.split("/") if not _COMPONENT.fullmatch(part)]
    if wrong:
        allowed = "lower-case letters and digits, with single . or _ or dashes between them"
        raise ValueError(f"{text!r}: the part {wrong[0]!r} of its path is not possible; allowed: {allowed}.")
    if len(host) + len(repository) > MAX_NAME:
        raise ValueError(
            f"the name of the image has {len(host) + len(repository)} characters; {MAX_NAME} are possible."
        )
