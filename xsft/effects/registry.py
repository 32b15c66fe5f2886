"""Is an image there? One question to its registry, by the Distribution API (v2), changing nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from xsft.effects.process import own_environment
from xsft.effects.storage import may_log_in, within
from xsft.errors import Unreachable
from xsft.problems import Problem, error

TIMEOUT_S = 5.0
DEADLINE_S = 10.0
KINDS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
GOOGLE = (".pkg.dev", ".gcr.io")
"""gcr.io itself too. With the dot: anybody may own xgcr.io, and would be sent a token of the user's."""
SCOPE = "https://www.googleapis.com/auth/cloud-platform"


def image_problems(ref: str, *, env: Mapping[str, str] | None = None) -> tuple[Problem, ...]:
    """An error where the registry says that there is no such image; nothing where it does not tell us."""
    if image_exists(ref, env=own_environment() if env is None else env) is not False:
        return ()
    message = f"The registry has no image {ref}: the pods would wait for it, on slices that are taken."
    return (error("image-not-found", "image.ref", message, "Push it, or correct image.ref."),)


def image_exists(ref: str, *, env: Mapping[str, str]) -> bool | None:
    """None where nobody is logged in, the registry does not say (401, 403) or does not answer."""
    asked = address(ref)
    if asked is None:
        return None
    try:
        return within(DEADLINE_S, lambda: _ask(*asked, env=env))
    except Unreachable:
        return None


def address(ref: str) -> tuple[str, str] | None:
    """The registry's host and the URL of the manifest; None for a name without a host, which is the node's to read."""
    host, _, rest = ref.partition("/")
    if not rest or not ("." in host or ":" in host or host == "localhost"):
        return None
    path, _, digest = rest.partition("@")
    folder, slash, last = path.rpartition("/")
    name, _, tag = last.partition(":")
    scheme = "http" if host.partition(":")[0] in {"localhost", "127.0.0.1"} else "https"
    return host, f"{scheme}://{host}/v2/{folder}{slash}{name}/manifests/{digest or tag or 'latest'}"


def is_google(host: str) -> bool:
    """Whether the registry is Google's, which may be sent a token of the user's login."""
    return host == "gcr.io" or host.endswith(GOOGLE)


def _ask(host: str, url: str, *, env: Mapping[str, str]) -> bool | None:
    """What another host says after a redirect is not the registry's word: docker.io leads to a web site."""
    from google.auth.exceptions import GoogleAuthError
    from requests.exceptions import RequestException

    session = _session(host, env)
    if session is None:
        return None
    options = {"timeout": TIMEOUT_S, "allow_redirects": False}
    headers = {"Accept": ", ".join(KINDS)}
    try:
        answer = session.head(url, headers=headers, **options)
        if answer.status_code == 401 and (login := _login(session, host, env, answer)):
            answer = session.head(url, headers={**headers, **login}, **options)
    except (GoogleAuthError, RequestException, OSError):
        return None
    return {200: True, 404: False}.get(answer.status_code)


def _login(session: Any, host: str, env: Mapping[str, str], answer: Any) -> dict[str, str]:
    """What the user's own Docker configuration has for the registry, in the form that it asks for."""
    from xsft.effects.registry_auth import login_for

    path = urlsplit(answer.url).path.removeprefix("/v2/").partition("/manifests/")[0]
    challenge = answer.headers.get("WWW-Authenticate", "")
    return login_for(host, env).answer(session, challenge, scope=f"repository:{path}:pull")


def _session(host: str, env: Mapping[str, str]) -> Any | None:
    """Google's registries are asked with the login, others without until they ask for one."""
    import requests

    if not is_google(host):
        return requests.Session()
    if not may_log_in({name: value for name, value in env.items() if name != "STORAGE_EMULATOR_HOST"}):
        return None
    import google.auth
    from google.auth.exceptions import GoogleAuthError
    from google.auth.transport.requests import AuthorizedSession

    try:
        return AuthorizedSession(google.auth.default(scopes=[SCOPE])[0])  # type: ignore[no-untyped-call]
    except GoogleAuthError:
        return None
