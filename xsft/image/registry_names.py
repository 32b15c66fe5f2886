"""Map image names to registry hosts and URLs. Pure.

source: distribution@2.8 reference/normalize.go (docker.io, library/), docs/spec/auth/token.md.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from xsft.base.errors import UsageError
from xsft.base.network_words import is_loopback
from xsft.image.reference import Reference, parse_reference

HUB = "docker.io"
HUB_API = "registry-1.docker.io"
GOOGLE = (".pkg.dev", ".gcr.io")
"""Domains of Google's registries. The leading dot matters: anyone may own xgcr.io, and would receive a user's token."""


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


def _hostname(host: str) -> str:
    """Return the host without its port."""
    return urlsplit(f"//{host}").hostname or ""
