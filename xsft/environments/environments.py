"""The environments besides xsft's own, by their locks: xpk renders manifests, MaxText trains, the engine serves, the
compiler says whether a run fits.

An environment is a folder `<cache>/envs/<name>-<digest of the lock>-py<X.Y>`, shared between checkouts. It is valid
only with its marker, which is written last. Finding one costs a few file reads and no process: `xsft plan` does it
every time. Building, which needs minutes and a network, is in `envbuild`.
"""

from __future__ import annotations

import platform
from pathlib import Path

from xsft.base.errors import EnvironmentMissing, UsageError
from xsft.base.lenient import ShowLine
from xsft.environments import envbuild
from xsft.environments.installed import BuiltEnvironment, EnvironmentSpec, find_in
from xsft.machine.paths import own_cache
from xsft.machine.process import own_environment

LOCKS = Path(__file__).parents[1] / "locks"

XPK = EnvironmentSpec(
    name="xpk",
    lock=LOCKS / "xpk.txt",
    pythons=("3.12", "3.13", "3.11"),
    package="xpk",
    scripts=("xpk",),
    imports=("xpk.commands.workload",),
    size_gib=0.6,
    needed_for="plan and submit",
)
MAXTEXT = EnvironmentSpec(
    name="maxtext",
    lock=LOCKS / "maxtext.txt",
    pythons=("3.12", "3.13"),
    package="maxtext",
    imports=("jax", "maxtext.configs.pyconfig"),
    size_gib=2.5,
    needed_for="local runs",
)
ENGINE = EnvironmentSpec(
    name="engine",
    lock=LOCKS / "engine.txt",
    pythons=("3.12", "3.13"),
    package="mlx-lm",
    scripts=("mlx_lm.server",),
    imports=("mlx_lm",),
    size_gib=0.8,
    needed_for="serving and checking exports on this machine",
    required=False,
)
COMPILER = EnvironmentSpec(
    name="compiler",
    lock=LOCKS / "compiler.txt",
    pythons=("3.12",),
    package="libtpu",
    imports=("libtpu", "jax", "maxtext.trainers.post_train.sft.train_sft"),
    size_gib=3.2,
    needed_for="xsft fit",
    platform="Linux x86_64",
    required=False,
)
SPECS = {spec.name: spec for spec in (XPK, MAXTEXT, ENGINE, COMPILER)}
NAMES = tuple(SPECS)
USUAL = tuple(spec.name for spec in SPECS.values() if spec.required)
"""Environments that `xsft setup` builds if none is named."""


def environment_for(name: str) -> EnvironmentSpec:
    """Return what the environment `name` must be. Raises UsageError for a name that is not in NAMES."""
    if name not in SPECS:
        raise UsageError(f"unknown environment {name!r}", fix=f"Use one of: {', '.join(NAMES)}")
    return SPECS[name]


def find_environment(name: str) -> BuiltEnvironment | None:
    """Return the environment if it exists and is valid; starts no process and takes a few milliseconds."""
    return find_in(default_cache(), environment_for(name))


def ensure(name: str, *, progress: ShowLine) -> BuiltEnvironment:
    """Return the environment, built now if it is missing or broken. Raises EnvironmentMissing if it cannot be built (no
    network, no space, no suitable Python); no partial environment is left.
    """
    return find_environment(name) or _build(name, progress=progress, verify=False)


def repair(name: str, *, progress: ShowLine) -> BuiltEnvironment:
    """Return the environment as `ensure` does, after checking every file and import; a broken one is rebuilt."""
    return _build(name, progress=progress, verify=True)


def refuse_platform(spec: EnvironmentSpec, *, current: str) -> None:
    """Raise EnvironmentMissing if the environment has no packages for this platform, `Darwin arm64`."""
    if spec.platform and spec.platform != current:
        raise EnvironmentMissing(
            f"the {spec.name} environment exists for {spec.platform} only; this machine is {current}",
            fix=f"run it on a machine with {spec.platform}: a laptop or a virtual machine, without a TPU",
        )


def default_cache() -> Path:
    """Return the folder of all environments of this user."""
    return own_cache() / "envs"


def _build(name: str, *, progress: ShowLine, verify: bool) -> BuiltEnvironment:
    spec = environment_for(name)
    refuse_platform(spec, current=f"{platform.system()} {platform.machine()}")
    place = envbuild.BuildPlace(cache=default_cache(), env=own_environment())
    return envbuild.build(spec, place, progress=progress, verify=verify)
