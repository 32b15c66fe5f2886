"""The user's login to a registry: a credential in memory, passed to Docker by a configuration that is in no folder.

The user's own Docker configuration is read and never written. Google's registries get a token of the Application
Default Credentials, which is valid for an hour.
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

from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError

from xsft.base.secrets import hold_secret
from xsft.image.docker_errors import DockerRequest, login_refused, shorten_message
from xsft.image.registry_names import HUB, is_google
from xsft.machine.google_files import may_log_in
from xsft.machine.regular import read_text
from xsft.machine.signals import raise_on_signal

GOOGLE_USER = "oauth2accesstoken"
"""source: Artifact Registry documentation, "Access token"."""
COPIED = ("auths", "credHelpers", "credsStore", "proxies", "HttpHeaders", "currentContext")
"""The keys of the user's configuration that are needed to pull a private base image and to find the engine."""
LINKED = ("contexts", "cli-plugins")
"""Folders beside it: named contexts, and buildx if the user installed it for this account."""


GoogleToken = Callable[[Mapping[str, str]], str | None]


@dataclass(frozen=True, kw_only=True)
class Credential:
    """A login to a registry. Never printed."""

    host: str
    user: str
    secret: str = field(repr=False)
    refresh: bool = False
    """The secret is an OAuth2 refresh token (Docker's "identity token"): only a registry's token service accepts it."""

    def __post_init__(self) -> None:
        hold_secret(self.secret)

    @property
    def basic(self) -> str:
        """Return it for HTTP's Basic scheme and Docker's configuration."""
        return hold_secret(base64.b64encode(f"{self.user}:{self.secret}".encode()).decode())


def token_of_google(env: Mapping[str, str]) -> str | None:
    """Return a token, or None without a login. Raises Unreachable if the login is not accepted."""
    if not may_log_in(env):
        return None
    from xsft.machine.google_login import google_credentials, google_token

    try:
        return google_token(google_credentials())
    except DefaultCredentialsError:
        return None
    except GoogleAuthError as failed:
        request = DockerRequest(what="log in", host="Google", google=True)
        raise login_refused(shorten_message(str(failed)), request) from None


def google_credential(host: str, *, env: Mapping[str, str], token: GoogleToken = token_of_google) -> Credential | None:
    """Return a short-lived token of the user's Google login; None without one, and for a registry that is not Google's.
    Raises as `token_of_google` does.
    """
    found = token(env) if is_google(host) else None
    return Credential(host=host, user=GOOGLE_USER, secret=found) if found else None


def credential_for(host: str, *, env: Mapping[str, str], token: GoogleToken = token_of_google) -> Credential | None:
    """Return the credential, or None. For Google's registries: a token of the user's login; for others, or without that
    login: the one Docker itself has. Raises as `token_of_google` does.
    """
    return google_credential(host, env=env, token=token) or own_credential(host, env=env)


def own_credential(host: str, *, env: Mapping[str, str]) -> Credential | None:
    """Return the credential for the host in the user's own Docker configuration: from `docker login`, or a credential
    helper.
    """
    found = auth_for(host, folder=own_folder(env), env=env) or {}
    if identity := found.get("IdentityToken"):
        return Credential(host=host, user="", secret=str(identity), refresh=True)
    if not (secret := found.get("Password") or found.get("password")):
        return None
    return Credential(host=host, user=str(found.get("Username") or found.get("username") or ""), secret=str(secret))


def auth_for(host: str, *, folder: Path, env: Mapping[str, str]) -> dict[str, str] | None:
    """Return the login for `host` in a Docker configuration, in the SDK's form; None without one."""
    from docker import auth, errors

    configured = _read_docker_config(folder / "config.json")
    named = {key: value for key, value in (configured.get("auths") or {}).items() if _host(key) == _host(host)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # if a helper is not installed, the registry's refusal shows it
        try:
            found = auth.load_config(
                config_dict={**configured, "auths": named}, credstore_env=dict(env)
            ).resolve_authconfig(host)
        except (errors.DockerException, OSError, ValueError, KeyError):
            return None
    return dict(found) if found else None


@contextmanager
def private_config(*, env: Mapping[str, str], own: bool = True, logins: Iterable[Credential] = ()) -> Iterator[Path]:
    """Yield a Docker configuration that only this process can read; removed at the end, also after Ctrl-C and SIGTERM.

    `own`: include what the user's own has for pulling. `logins`: added to those. No secret is written to disk: if the
    system has files in memory, SIGKILL leaves an empty folder.
    """
    copied = {
        key: value
        for key, value in _read_docker_config(own_folder(env) / "config.json").items()
        if key in COPIED and own
    }
    with (
        raise_on_signal(_exit),
        tempfile.TemporaryDirectory(prefix="xsft-docker-", dir=_folder_in_memory(env)) as name,
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
    """Yield the path of a file that is in no folder and ends with this process. On macOS, which has no such files, of a
    temporary one: there Docker keeps its logins in the keychain. source: memfd_create(2); proc(5), /proc/pid/fd.
    """
    memory = hasattr(os, "memfd_create")
    with open(os.memfd_create("xsft-docker"), "w") if memory else tempfile.NamedTemporaryFile("w") as file:
        file.write(text)
        file.flush()
        yield Path(f"/proc/{os.getpid()}/fd/{file.fileno()}" if memory else file.name)


def _with_logins(config: Mapping[str, Any], logins: Iterable[Credential]) -> dict[str, Any]:
    """Return the configuration with the logins. An empty helper for a host keeps the client from asking the user's
    keychain for it. source: docker/cli@28 cli/config/configfile/file.go, GetCredentialsStore and
    getConfiguredCredentialStore.
    """
    given = {login.host: login for login in logins}
    auths = {host: {"auth": login.basic} for host, login in given.items()}
    return {
        **config,
        "auths": {**(config.get("auths") or {}), **auths},
        "credHelpers": {**(config.get("credHelpers") or {}), **dict.fromkeys(given, "")},
    }


def own_folder(env: Mapping[str, str]) -> Path:
    """Return the folder of the user's Docker configuration. source: docker/cli@28 cli/config/config.go."""
    return Path(env.get("DOCKER_CONFIG") or Path(env.get("HOME") or Path.home()) / ".docker")


def _host(key: str) -> str:
    """Return the host. Most logins are stored under a host, and some under an address: Docker Hub's under
    https://index.docker.io/v1/.
    """
    host = (key.partition("://")[2] or key).partition("/")[0]
    return HUB if host == f"index.{HUB}" else host


def _folder_in_memory(env: Mapping[str, str]) -> str | None:
    """Return the user's own folder in memory if the system has one; None: use the folder for temporary files."""
    folder = env.get("XDG_RUNTIME_DIR") or ""
    return folder if folder and os.access(folder, os.W_OK | os.X_OK) else None


def _read_docker_config(config: Path) -> dict[str, Any]:
    """Return the configuration; empty if there is none or it is not Docker's."""
    try:
        found = json.loads(read_text(config))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _exit(number: int) -> SystemExit:
    """Return a SystemExit: SIGTERM and SIGHUP end the process in the ordinary way, so that no secret is left behind."""
    return SystemExit(128 + number)
