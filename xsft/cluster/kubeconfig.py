"""Kubeconfig files, read as kubectl does: several files, the first that has a name wins, paths relative to their file.

Nothing is ever written to them. source: kubernetes client-go@v0.35 tools/clientcmd/loader.go, tools/clientcmd/api/v1.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct, convert, field

from xsft.base.errors import EnvironmentMissing
from xsft.base.lenient import mapping, rows
from xsft.machine.regular import read_bytes, read_text
from xsft.spec.loader import load_yaml

CERTIFICATES = ("certificate-authority", "client-certificate", "client-key")
"""Keys that name a file, unless the key with `-data` holds its content."""


class ClusterEntry(Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority_data: bytes = b""
    proxy_url: str = ""


class LoginProgram(Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: str = ""
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[dict[str, str], ...] = ()
    install_hint: str = ""
    interactive_mode: str = "IfAvailable"
    provide_cluster_info: bool = False


class AuthProvider(Struct, frozen=True, kw_only=True):
    """A login within kubectl. kubectl 1.26 removed all but `oidc`; xsft has none."""

    name: str = ""


class UserEntry(Struct, frozen=True, kw_only=True, rename="kebab"):
    client_certificate_data: bytes = b""
    client_key_data: bytes = b""
    token: str = ""
    token_file: str = field(name="tokenFile", default="")
    username: str = ""
    exec: LoginProgram | None = None
    auth_provider: AuthProvider | None = None


class Entry(Struct, frozen=True, kw_only=True):
    """The cluster and the user of a context, with the content of the certificates that they name."""

    context: str
    cluster: ClusterEntry
    user: UserEntry


for _entry in (ClusterEntry, UserEntry):
    convert({}, _entry)  # at import: msgspec@0.22.0 crashes if two threads do this for one type


def kubeconfig_files(env: Mapping[str, str], *, home: Path) -> tuple[Path, ...]:
    """Return the files kubectl would read: those of `KUBECONFIG`, else `~/.kube/config`."""
    named = [part for part in env.get("KUBECONFIG", "").split(os.pathsep) if part]
    return tuple(Path(part).expanduser() for part in named) or (home / ".kube" / "config",)


def context_names(files: tuple[Path, ...]) -> tuple[str, ...]:
    """Return the contexts of all files, in order; a file that does not exist has none, as in kubectl."""
    contexts = (one for file in files for one in rows(load_kubeconfig(file).get("contexts")))
    return tuple(dict.fromkeys(str(one["name"]) for one in contexts if "name" in one))


def load_kubeconfig(file: Path) -> dict[str, Any]:
    """Return one file, parsed; empty if it does not exist. Raises EnvironmentMissing if it cannot be read or is not a
    kubeconfig.
    """
    try:
        parsed = load_yaml(read_text(file)) or {}
        if isinstance(parsed, dict):
            return parsed
        reason = "it is not a mapping"
    except FileNotFoundError:
        return {}
    except yaml.YAMLError:
        reason = "it is not YAML"
    except (OSError, ValueError) as failed:
        reason = getattr(failed, "strerror", None) or "it is not UTF-8 text"
    raise EnvironmentMissing(
        f"The kubeconfig {file} cannot be read: {reason}.",
        fix="Correct it (kubectl config view shows it), or set another in KUBECONFIG.",
        id="kubeconfig-unreadable",
    )


def entry_of(context: str, files: tuple[Path, ...]) -> Entry:
    """Return the context's entry. Raises EnvironmentMissing if no file has its cluster or user, or one of them cannot
    be used.
    """
    configs = [(load_kubeconfig(file), file.parent) for file in files]
    try:
        names = _entry_of_name(configs, "context", context)
        cluster = convert(_entry_of_name(configs, "cluster", names.get("cluster")), ClusterEntry)
        user = convert(_entry_of_name(configs, "user", names["user"]) if names.get("user") else {}, UserEntry)
    except OSError as failed:
        raise unusable_context(context, f"{failed.filename} cannot be read: {failed.strerror}") from None
    except ValueError as wrong:
        raise unusable_context(context, str(wrong)) from None
    if not cluster.server:
        raise unusable_context(context, f"its cluster {names['cluster']} has no server")
    return Entry(context=context, cluster=cluster, user=user)


def unusable_context(context: str, why: str) -> EnvironmentMissing:
    return EnvironmentMissing(
        f"The context {context} of the kubeconfig cannot be used: {why}.",
        fix=f"Correct it; `kubectl --context {context} version` shows whether kubectl can use it.",
        id="kubeconfig-unreadable",
    )


def _entry_of_name(configs: list[tuple[dict[str, Any], Path]], kind: str, name: Any) -> dict[str, Any]:
    """Return the first entry of that name. Raises ValueError if there is none, OSError as `_with_absolute_paths`."""
    for config, folder in configs:
        for entry in rows(config.get(f"{kind}s")):
            if entry.get("name") == name:
                return _with_absolute_paths(mapping(entry, kind), folder)
    raise ValueError(f"{kind} {name!r} was not found")


def _with_absolute_paths(section: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the section without nulls (Go reads them as no value), with the content of the certificates that it
    names, and other paths absolute. Raises OSError if a certificate cannot be read.
    """
    found = {
        key: _with_absolute_paths(value, folder) if isinstance(value, dict) else value
        for key, value in section.items()
        if value is not None
    }
    for key in CERTIFICATES:
        if found.get(key) and not found.get(f"{key}-data"):
            found[f"{key}-data"] = read_bytes(folder / str(found[key]))
    if found.get("tokenFile"):
        found["tokenFile"] = str(folder / str(found["tokenFile"]))
    if "/" in str(found.get("command")):
        found["command"] = str(folder / str(found["command"]))
    return found
