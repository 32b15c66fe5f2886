"""The two environments beside xsft's own: xpk (renders manifests) and MaxText (trains here), by their locks.

An environment is a folder `<cache>/envs/<name>-<digest of the lock>-py<X.Y>`, shared between checkouts. It counts only
with its marker, which is written last. Finding one costs a few file reads, no process: `xsft plan` does it every time.
Building, which needs minutes and a network, is in `envbuild`.
"""

from __future__ import annotations

from pathlib import Path

from xsft.effects.environments import envbuild
from xsft.effects.environments.installed import Environment, EnvironmentSpec, Progress, find_in
from xsft.effects.machine.paths import own_cache
from xsft.effects.machine.process import own_environment
from xsft.errors import EnvironmentMissing, UsageError

LOCKS = Path(__file__).parents[2] / "locks"


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


def _build(name: str, *, progress: Progress, verify: bool) -> Environment:
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
