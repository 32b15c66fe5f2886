"""Who one is to a registry: a credential in memory, handed to Docker by a configuration that is in no folder.

The user's own Docker configuration is read and never written. Google's registries get a token of the Application
Default Credentials, which lives for an hour.
"""

from __future__ import annotations

import base64
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xsft.effects.machine.google_login import google_credentials, google_token, may_log_in
from xsft.effects.machine.regular import read_text
from xsft.effects.machine.signals import raised
from xsft.image.docker_errors import Doing, login_refused, words
from xsft.image.registry_names import HUB, is_google

GOOGLE_USER = "oauth2accesstoken"
"""source: Artifact Registry documentation, "Access token"."""
COPIED = ("auths", "credHelpers", "credsStore", "proxies", "HttpHeaders", "currentContext")
"""Of the user's configuration, what pulling a private base image and finding the engine need."""
LINKED = ("contexts", "cli-plugins")
"""Folders beside it: named contexts, and buildx where a user has installed it for himself."""


@dataclass(frozen=True, kw_only=True)
class Credential:
    """What opens a registry. Never printed."""

    host: str
    user: str
    secret: str = field(repr=False)
    refresh: bool = False
    """The secret is an OAuth2 refresh token (Docker's "identity token"): only a registry's token service takes it."""


def credential_for(
    host: str,
    *,
    env: Mapping[str, str],
    google: Callable[[str], bool] = is_google,
    token: Callable[[Mapping[str, str]], str | None] | None = None,
) -> Credential | None:
    """Google's registries: a short-lived token of the user's login; others, or without one: what Docker itself has.

    None where there is neither. Raises Unreachable where Google's login does not answer.
    """
    if google(host) and (found := (token or token_of_google)(env)):
        return Credential(host=host, user=GOOGLE_USER, secret=found)
    return own_credential(host, env=env)


def token_of_google(env: Mapping[str, str]) -> str | None:
    """None where nobody is logged in. Raises Unreachable where the login is not accepted."""
    if not may_log_in(env):
        return None
    from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError

    try:
        return google_token(google_credentials())
    except DefaultCredentialsError:
        return None
    except GoogleAuthError as failed:
        doing = Doing(what="log in", host="Google", google=True)
        raise login_refused(words(str(failed)), doing) from None


def own_credential(host: str, *, env: Mapping[str, str]) -> Credential | None:
    """What the user's own Docker configuration has for the host: `docker login`, or a credential helper."""
    found = auth_for(host, folder=own_folder(env), env=env) or {}
    if identity := found.get("IdentityToken"):
        return Credential(host=host, user="", secret=str(identity), refresh=True)
    if not (secret := found.get("Password") or found.get("password")):
        return None
    return Credential(host=host, user=str(found.get("Username") or found.get("username") or ""), secret=str(secret))


def auth_for(host: str, *, folder: Path, env: Mapping[str, str]) -> dict[str, str] | None:
    """The login for `host` in a Docker configuration, in the form that the SDK takes; None without one."""
    from docker import auth
    from docker.errors import DockerException

    configured = _read(folder / "config.json")
    named = {key: value for key, value in (configured.get("auths") or {}).items() if _host(key) == _host(host)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a helper is not installed is told by the registry's refusal
        try:
            found = auth.load_config(
                config_dict={**configured, "auths": named}, credstore_env=dict(env)
            ).resolve_authconfig(host)
        except (DockerException, OSError, ValueError, KeyError):
            return None
    return dict(found) if found else None


@contextmanager
def private_config(*, env: Mapping[str, str], own: bool = True, logins: Iterable[Credential] = ()) -> Iterator[Path]:
    """A Docker configuration that only this process sees, removed at the end, also after Ctrl-C and SIGTERM.

    `own`: with what the user's own has for pulling; `logins`: beside those. Nothing secret is on a disk: where the
    system has files in memory, SIGKILL leaves an empty folder.
    """
    copied = {key: value for key, value in _read(own_folder(env) / "config.json").items() if key in COPIED and own}
    with (
        raised(_exit),
        tempfile.TemporaryDirectory(prefix="xsft-docker-", dir=_memory(env)) as name,
        _in_memory(json.dumps(_with_logins(copied, logins))) as config,
    ):
        folder = Path(name)
        (folder / "config.json").symlink_to(config)
        for linked in (own_folder(env) / part for part in LINKED):
            if linked.is_dir():
                (folder / linked.name).symlink_to(linked.absolute())
        yield folder


@contextmanager
def _in_memory(text: str) -> Iterator[Path]:
    """Path of a file that is in no folder and ends with this process. On macOS, which has none, of a temporary one:
    Docker keeps its logins in the keychain there.

    source: memfd_create(2); proc(5), /proc/pid/fd.
    """
    memory = hasattr(os, "memfd_create")
    with open(os.memfd_create("xsft-docker"), "w") if memory else tempfile.NamedTemporaryFile("w") as file:
        file.write(text)
        file.flush()
        yield Path(f"/proc/{os.getpid()}/fd/{file.fileno()}" if memory else file.name)


def _with_logins(config: Mapping[str, Any], logins: Iterable[Credential]) -> dict[str, Any]:
    """An empty helper for a host keeps the client from asking the user's keychain for it.

    source: docker/cli@28 cli/config/configfile/file.go, GetCredentialsStore and getConfiguredCredentialStore.
    """
    given = {login.host: login for login in logins}
    auths = {host: {"auth": _basic(login)} for host, login in given.items()}
    return {
        **config,
        "auths": {**(config.get("auths") or {}), **auths},
        "credHelpers": {**(config.get("credHelpers") or {}), **dict.fromkeys(given, "")},
    }


def _basic(login: Credential) -> str:
    return base64.b64encode(f"{login.user}:{login.secret}".encode()).decode()


def own_folder(env: Mapping[str, str]) -> Path:
    """Where the user's Docker configuration lies. source: docker/cli@28 cli/config/config.go."""
    return Path(env.get("DOCKER_CONFIG") or Path(env.get("HOME") or Path.home()) / ".docker")


def _host(key: str) -> str:
    """Logins are kept under a host, and some under an address: Docker Hub's under https://index.docker.io/v1/."""
    host = (key.partition("://")[2] or key).partition("/")[0]
    return HUB if host == f"index.{HUB}" else host


def _memory(env: Mapping[str, str]) -> str | None:
    """The user's own folder in memory, where the system has one; else where temporary files go."""
    folder = env.get("XDG_RUNTIME_DIR") or ""
    return folder if folder and os.access(folder, os.W_OK | os.X_OK) else None


def _read(config: Path) -> dict[str, Any]:
    """Empty where there is none or it is not Docker's."""
    try:
        found = json.loads(read_text(config))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _exit(number: int) -> SystemExit:
    """SIGTERM and SIGHUP end the process the ordinary way, so that nothing secret is left behind."""
    return SystemExit(128 + number)
