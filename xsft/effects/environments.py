"""The two environments beside xsft's own: xpk (renders manifests) and MaxText (trains here), by their locks.

An environment is a folder `<cache>/envs/<name>-<digest of the lock>-py<X.Y>`, shared between checkouts. It counts only
with its marker, which is written last. Finding one costs a few file reads, no process: `xsft plan` does it every time.
Building, which needs minutes and a network, is in `envbuild`.
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

from xsft.effects.interpreters import Minor
from xsft.effects.paths import own_cache
from xsft.effects.process import own_environment
from xsft.errors import EnvironmentMissing, UsageError

LOCKS = Path(__file__).parent.parent / "locks"
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


def environment_for(name: str, *, locks: Path = LOCKS) -> EnvironmentSpec:
    """What the environment `name` must be. Raises UsageError for another name than `xpk` or `maxtext`."""
    match name:
        case "xpk":
            return EnvironmentSpec(
                name=name,
                lock=_lock(locks / "xpk.txt"),
                pythons=((3, 12), (3, 13), (3, 11)),
                package="xpk",
                scripts=("xpk",),
                imports=("xpk.commands.workload",),
                size_gib=0.6,
            )
        case "maxtext":
            return EnvironmentSpec(
                name=name,
                lock=_lock(locks / "maxtext.txt"),
                pythons=((3, 12), (3, 13)),
                package="maxtext",
                imports=("jax", "maxtext.configs.pyconfig"),
                size_gib=2.5,
            )
        case _:
            raise UsageError(f"there is no environment {name!r}", fix=f"Name one of: {', '.join(NAMES)}")


NAMES = ("xpk", "maxtext")


def find(name: str) -> Environment | None:
    """The environment, if it is there and valid; starts no process and takes a few milliseconds."""
    return find_in(default_cache(), environment_for(name))


def ensure(name: str, *, progress: Progress) -> Environment:
    """The environment, built now where it is missing or broken.

    Raises EnvironmentMissing when it cannot be built (no network, no space, no fitting Python); nothing half-built
    stays.
    """
    return find(name) or _build(name, progress=progress, verify=False)


def repair(name: str, *, progress: Progress) -> Environment:
    """Like `ensure`, but every file and import is checked first, and what fails is built anew."""
    return _build(name, progress=progress, verify=True)


def default_cache() -> Path:
    """The folder of all environments for this user."""
    return own_cache() / "envs"


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


def _build(name: str, *, progress: Progress, verify: bool) -> Environment:
    from xsft.effects import envbuild

    spec = environment_for(name)
    place = envbuild.Place(cache=default_cache(), env=own_environment(), home=Path.home())
    return envbuild.build(spec, place, progress=progress, verify=verify)


def _lock(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as problem:
        raise EnvironmentMissing(
            f"{path} cannot be read: {problem.strerror}", fix="install xsft again: its locks are part of the package"
        ) from problem
