"""The interpreter, command and environment with which the trainer starts on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.lenient import ShowLine
from xsft.base.reporting import Reporter
from xsft.environments import environments
from xsft.environments.installed import BuiltEnvironment
from xsft.machine import clock
from xsft.machine.paths import hub_token, own_cache
from xsft.machine.pid_namespace import CONTAINED, Containment, detect
from xsft.machine.process import own_environment
from xsft.machine.watched_process import GRACE_S
from xsft.planning.steps import Plan
from xsft.trainer.local import OFFLINE, PASSED_ON, reads_only_files
from xsft.trainer.trainer import trainer_of

if TYPE_CHECKING:
    from xsft.launch.local_container import LocalContainer  # through Docker's SDK, which most runs need not load

PASSED_ON_ONLINE = ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy", "SSL_CERT_FILE",
                    "REQUESTS_CA_BUNDLE", "HF_ENDPOINT")  # fmt: skip
"""Variables of the user's environment that the trainer gets besides, if it needs the network."""


class Machine(Struct, frozen=True, kw_only=True):
    """The parts of this machine that a run uses; tests pass their own."""

    python: Path
    """The interpreter of the MaxText environment; in an image the plan's own `python3`."""
    env: Mapping[str, str]
    """The user's environment."""
    cache: Path
    """For the hub's downloads and converted data; may be deleted at any time."""
    container: LocalContainer | None = None
    """The image that the run uses; None: the environment of `python`."""
    contain: Callable[[], Containment] = detect
    now: Callable[[], str] = clock.now
    grace_s: float = GRACE_S
    """Seconds the trainer has to stop when the user interrupts."""


def in_image(container: LocalContainer, *, env: Mapping[str, str], cache: Path) -> Machine:
    """Return the machine for a run in the workload's image, which needs no MaxText environment here."""
    return Machine(python=Path("python3"), env=env, cache=cache, container=container, contain=lambda: CONTAINED)


def trainer_command(plan: Plan, *, python: Path, attempt: int) -> tuple[str, ...]:
    """Return the plan's argv with this machine's interpreter in place of `python3`: the printed command is the one that
    runs, except for the seed of a later attempt.
    """
    return (str(python), *trainer_of(plan.run).trainer_argv(replace(plan.run, attempt=attempt))[1:])


def trainer_environment(plan: Plan, *, machine: Machine, scratch: Path) -> dict[str, str]:
    """Return the trainer's whole environment: a few of the user's variables, private folders, and the plan's last."""
    online = not reads_only_files(plan.run)
    if machine.container:
        more = {**_network(machine, online=online), **_compiled_cache_env(plan, machine)}
        return machine.container.environment(plan, cache=machine.cache, scratch=scratch, more=more)
    variables = program_environment(machine, scratch, online=online)
    return {**variables, **_compiled_cache_env(plan, machine), **plan.trainer_env}


def program_environment(machine: Machine, scratch: Path, *, online: bool) -> dict[str, str]:
    """Return the environment of a program of MaxText's: a few of the user's variables, private folders, and no network
    unless `online`."""
    return {
        **{name: machine.env[name] for name in PASSED_ON if name in machine.env},
        **_network(machine, online=online),
        "HF_HOME": str(machine.cache / "huggingface"),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(scratch),
    }


def compiled_folder(machine: Machine) -> Path:
    """Return the folder of JAX's compiled programs, shared by all runs and evaluations here; JAX's keys contain its
    version.
    """
    return machine.cache / "jax"


def _compiled_cache_env(plan: Plan, machine: Machine) -> dict[str, str]:
    """Return the variable for that folder; none for a run whose workload sets `jax_cache_dir`, even to "".

    source: jax@0.11.0 _src/config.py, jax_compilation_cache_dir. A second run of a tiny model took 15 CPU-s, not 34.
    """
    if "jax_cache_dir" in plan.run.spec.overrides.maxtext:
        return {}
    return {"JAX_COMPILATION_CACHE_DIR": str(compiled_folder(machine))}


def _network(machine: Machine, *, online: bool) -> dict[str, str]:
    if not online:
        return dict(OFFLINE)
    return {**{name: machine.env[name] for name in PASSED_ON_ONLINE if name in machine.env}, **hub_token(machine.env)}


def maxtext_machine(listener: Reporter) -> Machine:
    """Return this machine with MaxText's environment."""
    with listener.working("MaxText environment") as progress:
        python = environments.ensure("maxtext", progress=progress).python
    return Machine(python=python, env=own_environment(), cache=own_cache())


def engine_environment(listener: Reporter) -> BuiltEnvironment:
    """Return the environment of the engine that reads an export."""
    with listener.working("engine environment") as progress:
        return environments.ensure("engine", progress=progress)


def machine_for(plan: Plan, *, progress: ShowLine) -> Machine:
    """Return where a local plan runs: in its image, pulled if it is missing, else in MaxText's environment, built if it
    is missing.

    Raises EnvironmentMissing or Unreachable if neither is available.
    """
    env, cache = own_environment(), own_cache()
    if plan.run.spec.image.ref:
        from xsft.launch.local_container import container_for  # through Docker's SDK

        container = container_for(plan, env=env, progress=progress)
        if container:
            return in_image(container, env=env, cache=cache)
    return Machine(python=environments.ensure("maxtext", progress=progress).python, env=env, cache=cache)
