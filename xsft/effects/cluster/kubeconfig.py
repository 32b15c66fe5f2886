"""Kubeconfig files, read as kubectl does: several files, the first that has a name wins, paths relative to their file.

Nothing is ever written to them. source: kubernetes client-go@v0.35 tools/clientcmd/loader.go, tools/clientcmd/api/v1.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from xsft.effects.machine.regular import read_bytes, read_text
from xsft.errors import EnvironmentMissing
from xsft.spec.loader import load_yaml

KubeconfigSection = Mapping[str, Any]


class Entry(Struct, frozen=True, kw_only=True):
    """The cluster and the user of a context, each with the folder of the file that has it."""

    context: str
    cluster: KubeconfigSection
    cluster_folder: Path
    user: KubeconfigSection
    user_folder: Path

    def cluster_bytes(self, key: str) -> bytes | None:
        """Return `KEY-data`, decoded, else the content of the file that `KEY` names; None if neither is given."""
        return _bytes(self.cluster, key, folder=self.cluster_folder, context=self.context)

    def user_bytes(self, key: str) -> bytes | None:
        return _bytes(self.user, key, folder=self.user_folder, context=self.context)


def kubeconfig_files(env: Mapping[str, str], *, home: Path) -> tuple[Path, ...]:
    """Return the files kubectl would read: those of `KUBECONFIG`, else `~/.kube/config`."""
    named = [part for part in env.get("KUBECONFIG", "").split(os.pathsep) if part]
    return tuple(Path(part).expanduser() for part in named) or (home / ".kube" / "config",)


def context_names(files: tuple[Path, ...]) -> tuple[str, ...]:
    """Return the contexts of all files, in order; a file that does not exist has none, as in kubectl."""
    contexts = (c for file in files for c in _entries(load_kubeconfig(file), "contexts"))
    return tuple(dict.fromkeys(str(c["name"]) for c in contexts if "name" in c))


def load_kubeconfig(file: Path) -> dict[str, Any]:
    """Return one file, parsed; empty if it does not exist. Raises EnvironmentMissing if it cannot be read or is not a
    kubeconfig.
    """
    try:
        parsed = load_yaml(read_text(file))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as failed:
        raise _bad_kubeconfig(file, getattr(failed, "strerror", None) or "it is not UTF-8 text") from None
    except yaml.YAMLError:
        raise _bad_kubeconfig(file, "it is not YAML") from None
    if parsed is not None and not isinstance(parsed, dict):
        raise _bad_kubeconfig(file, "it is not a mapping")
    return parsed or {}


def _entries(config: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    entries = config.get(key)
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _bad_kubeconfig(file: Path, reason: str) -> EnvironmentMissing:
    return EnvironmentMissing(
        f"The kubeconfig {file} cannot be read: {reason}.",
        fix="Correct it (kubectl config view shows it), or set another in KUBECONFIG.",
        id="kubeconfig-unreadable",
    )


def entry_of(context: str, files: tuple[Path, ...]) -> Entry:
    """Return the context's entry. Raises EnvironmentMissing if the context names a cluster or a user that no file
    has.
    """
    configs = [(load_kubeconfig(file), file.parent) for file in files]
    names, _ = _named(configs, "contexts", context, "context")
    cluster, cluster_folder = _named(configs, "clusters", names.get("cluster"), "cluster", context=context)
    if not isinstance(cluster.get("server"), str):
        raise unusable(context, f"its cluster {names.get('cluster')} has no server")
    if not names.get("user"):
        return Entry(context=context, cluster=cluster, cluster_folder=cluster_folder, user={}, user_folder=Path())
    user, user_folder = _named(configs, "users", names["user"], "user", context=context)
    return Entry(context=context, cluster=cluster, cluster_folder=cluster_folder, user=user, user_folder=user_folder)


def unusable(context: str, why: str) -> EnvironmentMissing:
    return EnvironmentMissing(
        f"The context {context} of the kubeconfig cannot be used: {why}.",
        fix=f"Correct it; `kubectl --context {context} version` shows whether kubectl can use it.",
        id="kubeconfig-unreadable",
    )


def _named(
    configs: list[tuple[dict[str, Any], Path]], kind: str, name: Any, part: str, *, context: str = ""
) -> tuple[KubeconfigSection, Path]:
    for config, folder in configs:
        for entry in _entries(config, kind):
            if entry.get("name") == name:
                section = entry.get(part)
                return (section if isinstance(section, dict) else {}), folder
    raise unusable(context or str(name), f"{part} {name!r} was not found")


def _bytes(section: KubeconfigSection, key: str, *, folder: Path, context: str) -> bytes | None:
    data, path = section.get(f"{key}-data"), section.get(key)
    try:
        if data:
            return base64.b64decode(str(data), validate=True)
        return read_bytes(folder / str(path)) if path else None
    except binascii.Error:
        raise unusable(context, f"{key}-data is not base64") from None
    except OSError as failed:
        raise unusable(context, f"{key} {folder / str(path)} cannot be read: {failed.strerror}") from None
