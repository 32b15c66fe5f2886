"""Who one is to a registry: a credential in memory, handed to Docker in a private folder that is gone afterwards.

The user's own Docker configuration is read and never written. Google's registries get a token of the Application
Default Credentials, which lives for an hour.
"""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xsft.effects.machine import process
from xsft.effects.machine.google_login import google_credentials, google_token, may_log_in
from xsft.effects.machine.signals import raised
from xsft.image.docker_errors import Doing, login_refused, no_network, words
from xsft.image.registry_names import HUB, is_google

GOOGLE_USER = "oauth2accesstoken"
"""source: Artifact Registry documentation, "Access token"."""
LOGIN_TIMEOUT_S = 60.0
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
def private_config(*, env: Mapping[str, str], own: bool = True) -> Iterator[Path]:
    """A Docker configuration that only this process sees, removed at the end, also after Ctrl-C and SIGTERM.

    `own`: with the user's logins copied in, for pulling; without them it holds nothing.
    """
    with raised(_exit), tempfile.TemporaryDirectory(prefix="xsft-docker-", dir=_memory(env)) as name:
        folder, mine = Path(name), own_folder(env)
        copied = {key: value for key, value in _read(mine / "config.json").items() if key in COPIED} if own else {}
        _write(folder / "config.json", copied)
        for linked in (mine / part for part in LINKED):
            if linked.is_dir():
                (folder / linked.name).symlink_to(linked.absolute())
        yield folder


@contextmanager
def logged_in(
    credential: Credential, *, env: Mapping[str, str], own: bool = False, docker: str = "docker"
) -> Iterator[Path]:
    """A private configuration that is logged in by `docker login`, the secret on its standard input.

    Raises Unreachable where the registry refuses or does not answer, EnvironmentMissing without a docker command.
    """
    with private_config(env=env, own=own) as folder:
        log_in(credential, folder=folder, env=env, docker=docker)
        yield folder


def log_in(credential: Credential, *, folder: Path, env: Mapping[str, str], docker: str = "docker") -> None:
    """`docker login` into the configuration in `folder`."""
    _keep_out_of_stores(folder / "config.json", credential.host)
    argv = (docker, "login", "--username", credential.user, "--password-stdin", credential.host)
    done = process.run(
        argv, env={**env, "DOCKER_CONFIG": str(folder)}, stdin=credential.secret, timeout_s=LOGIN_TIMEOUT_S
    )
    if done.ok:
        return
    said = words((done.stderr or done.stdout).replace(credential.secret, "…"))
    doing = Doing(what=f"log in to {credential.host}", host=credential.host, google=is_google(credential.host))
    if any(word in said.lower() for word in ("unauthorized", "denied", "incorrect", "401", "403")):
        raise login_refused(said, doing)
    raise no_network(said, doing)


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


def _keep_out_of_stores(config: Path, host: str) -> None:
    """An empty helper for the host makes `docker login` write into this file, never into a keychain of the user's.

    Without any login or helper in it, the client would choose a store of the system by itself.
    source: docker/cli@28 cli/config/configfile/file.go, GetCredentialsStore and ContainsAuth.
    """
    found = _read(config)
    helpers = {**found.get("credHelpers", {}), host: ""}
    # The SDK takes an empty helper for none and would ask the default store: nobody's token is there under this name.
    auths = {name: value for name, value in found.get("auths", {}).items() if name != host}
    _write(config, {**found, "auths": auths, "credHelpers": helpers})


def _read(config: Path) -> dict[str, Any]:
    """Empty where there is none or it is not Docker's."""
    try:
        found = json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(config: Path, content: Mapping[str, Any]) -> None:
    config.touch(mode=0o600)
    config.write_text(json.dumps(content), encoding="utf-8")


def _exit(number: int) -> SystemExit:
    """SIGTERM and SIGHUP end the process the ordinary way, so that nothing secret is left behind."""
    return SystemExit(128 + number)
