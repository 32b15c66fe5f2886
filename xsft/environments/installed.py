"""An environment in the cache folder: what it must contain, its path, and whether it is complete.

It is valid only with its marker, which is written last. Reading it costs a few file reads and starts no process.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec import Struct

MARKER = ".xsft-environment.json"
SCHEMA = "xsft.environment/1"


@dataclass(frozen=True, kw_only=True)
class EnvironmentSpec:
    """The contents that an environment must have."""

    name: str
    lock: Path
    """The requirements file: every package, pinned, with hashes."""
    pythons: tuple[str, ...]
    """Python series for which the lock has wheels, e.g. `3.12`, the preferred first."""
    package: str
    """The main package of the environment; its version is the environment's."""
    scripts: tuple[str, ...] = ()
    """Console scripts that must exist."""
    imports: tuple[str, ...] = ()
    """Modules that must import."""
    size_gib: float = 0.3
    """Disk space needed to build it, GiB, including packages in uv's cache."""
    needed_for: str = ""
    """Its purpose, for `xsft doctor`."""
    platform: str = ""
    """The only platform for which the lock has wheels, as `Linux x86_64`; empty: any."""
    required: bool = True
    """False: `xsft setup` without a name does not build it, and `xsft doctor` does not report it as missing."""

    @cached_property
    def digest(self) -> str:
        """Return the sha256 of the lock, 64 hex digits."""
        return hashlib.sha256(self.lock.read_bytes()).hexdigest()

    @cached_property
    def pins(self) -> dict[str, str]:
        """Return package name to version, markers ignored."""
        return dict(re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", self.lock.read_text(encoding="utf-8"), re.MULTILINE))


class BuiltEnvironment(Struct, frozen=True, kw_only=True):
    """An environment that was built and verified."""

    name: str
    python: Path
    digest: str
    """sha256 of the lock it was built from."""
    version: str
    """The version of its main package, e.g. `1.16.0`."""

    @property
    def folder(self) -> Path:
        return self.python.parent.parent

    def script(self, name: str) -> Path:
        return self.python.parent / name


def find_in(cache: Path, spec: EnvironmentSpec) -> BuiltEnvironment | None:
    """Return the valid environment of `spec` in `cache`, for the most preferred Python that has one."""
    for series in spec.pythons:
        environment = read_installed(folder_for(cache, spec, series), spec)
        if environment:
            return environment
    return None


def folder_for(cache: Path, spec: EnvironmentSpec, series: str) -> Path:
    return cache / f"{spec.name}-{spec.digest[:12]}-py{series}"


def read_installed(folder: Path, spec: EnvironmentSpec) -> BuiltEnvironment | None:
    """Return the environment in `folder`; None if it was not finished, its Python is gone or a package was removed."""
    try:
        marker = json.loads((folder / MARKER).read_bytes())
        listing = top_level_of(folder)
    except (OSError, ValueError):
        return None
    programs = (folder / "bin" / program for program in ("python", *spec.scripts))
    if marker != marker_for(spec, listing) or not all(os.access(program, os.X_OK) for program in programs):
        return None
    return _environment_in(folder, spec)


def finish(folder: Path, spec: EnvironmentSpec) -> BuiltEnvironment:
    """Write the marker in one step: from now on the environment in `folder` is valid."""
    marker = folder / f"{MARKER}.new"
    marker.write_text(json.dumps(marker_for(spec, top_level_of(folder))), encoding="utf-8")
    marker.replace(folder / MARKER)
    return _environment_in(folder, spec)


def _environment_in(folder: Path, spec: EnvironmentSpec) -> BuiltEnvironment:
    return BuiltEnvironment(
        name=spec.name, python=folder / "bin" / "python", digest=spec.digest, version=spec.pins[spec.package]
    )


def marker_for(spec: EnvironmentSpec, listing: str) -> Mapping[str, Any]:
    """Return the content of the marker of a finished environment."""
    return {"schema": SCHEMA, "name": spec.name, "digest": spec.digest, "top_level": listing}


def top_level_of(folder: Path) -> str:
    """Return the digest of the names in site-packages: one directory read that detects a package removed by hand."""
    site_packages = next(folder.glob("lib/python*/site-packages"), folder / "lib")
    names = sorted(entry.name for entry in os.scandir(site_packages) if entry.name != "__pycache__")
    return hashlib.sha256("\n".join(names).encode()).hexdigest()
