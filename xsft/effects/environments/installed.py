"""An environment in the cache folder: what it must be, where it lies, and whether it is whole.

It counts only with its marker, which is written last. Reading it costs a few file reads and starts no process.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec import Struct

from xsft.effects.environments.interpreters import Minor

MARKER = ".xsft-environment.json"
SCHEMA = "xsft.environment/1"

Progress = Callable[[str], None]
"""Takes one line for the user; the command layer decides how it looks."""


@dataclass(frozen=True, kw_only=True)
class EnvironmentSpec:
    """What an environment must be."""

    name: str
    lock: str
    """Text of the requirements file: every package, pinned, with hashes."""
    pythons: tuple[Minor, ...]
    """Series the lock has wheels for, the preferred first."""
    package: str
    """The package the environment is for; its version is the environment's."""
    scripts: tuple[str, ...] = ()
    """Console scripts that must be there."""
    imports: tuple[str, ...] = ()
    """Modules that must import."""
    size_gib: float = 0.3
    """Disk space to build it, GiB, packages in uv's cache included."""

    @cached_property
    def digest(self) -> str:
        """sha256 of the lock, 64 hex digits."""
        return hashlib.sha256(self.lock.encode()).hexdigest()

    @cached_property
    def pins(self) -> dict[str, str]:
        """Package name to version, markers ignored."""
        return dict(re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", self.lock, re.MULTILINE))


class Environment(Struct, frozen=True, kw_only=True):
    """An environment that was built and verified."""

    name: str
    python: Path
    digest: str
    """sha256 of the lock it was built from."""
    version: str
    """Version of the package it is for, e.g. `1.16.0`."""

    @property
    def folder(self) -> Path:
        return self.python.parent.parent

    def script(self, name: str) -> Path:
        return self.python.parent / name


def find_in(cache: Path, spec: EnvironmentSpec) -> Environment | None:
    """The valid environment of `spec` in `cache`, for the most preferred Python that has one."""
    found = (read(folder_for(cache, spec, minor), spec) for minor in spec.pythons)
    return next(filter(None, found), None)


def folder_for(cache: Path, spec: EnvironmentSpec, minor: Minor) -> Path:
    return cache / f"{spec.name}-{spec.digest[:12]}-py{minor[0]}.{minor[1]}"


def read(folder: Path, spec: EnvironmentSpec) -> Environment | None:
    """The environment in `folder`; None where it was not finished, its Python is gone or a package was removed."""
    try:
        marker = json.loads((folder / MARKER).read_bytes())
        listing = top_level_of(folder)
    except (OSError, ValueError):
        return None
    programs = (folder / "bin" / program for program in ("python", *spec.scripts))
    if marker != marker_for(spec, listing) or not all(os.access(program, os.X_OK) for program in programs):
        return None
    return Environment(
        name=spec.name, python=folder / "bin" / "python", digest=spec.digest, version=spec.pins[spec.package]
    )


def marker_for(spec: EnvironmentSpec, listing: str) -> Mapping[str, Any]:
    """What the marker of a finished environment says."""
    return {"schema": SCHEMA, "name": spec.name, "digest": spec.digest, "top_level": listing}


def top_level_of(folder: Path) -> str:
    """Digest of the names in site-packages: one directory read that notices a package removed by hand."""
    site_packages = next(folder.glob("lib/python*/site-packages"), folder / "lib")
    names = sorted(entry.name for entry in os.scandir(site_packages) if entry.name != "__pycache__")
    return hashlib.sha256("\n".join(names).encode()).hexdigest()
