"""Checks which tools that xsft needs are on this machine, and gives the command that fixes each missing one."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from msgspec import Struct
from uv import find_uv_bin

from xsft.environments import envbuild, environments
from xsft.environments.envbuild import BuildPlace
from xsft.environments.installed import EnvironmentSpec, find_in
from xsft.machine import process
from xsft.world.tools import RunTool, ToolCheck, run_tool, tool_checks, version_of


class CheckedMachine(Struct, frozen=True, kw_only=True):
    """The facts of this machine that the checks read; a test passes others."""

    run: RunTool
    place: BuildPlace
    specs: tuple[EnvironmentSpec, ...]
    free_bytes: Callable[[Path], int]
    python: tuple[int, int, int]


def checked_machine() -> CheckedMachine:
    env = process.own_environment()
    return CheckedMachine(
        run=partial(run_tool, env=env),
        place=BuildPlace(cache=environments.default_cache(), env=env),
        specs=tuple(environments.environment_for(name) for name in environments.NAMES),
        # the cache's folder may be made only later: the disk is that of its nearest parent
        free_bytes=lambda path: shutil.disk_usage(next(p for p in (path, *path.parents) if p.exists())).free,
        python=sys.version_info[:3],
    )


def examine(machine: CheckedMachine) -> tuple[ToolCheck, ...]:
    """Return the result of every check, in the order of the table."""
    local_checks = (_python(machine), _uv(machine), *(_check_environment(machine, spec=spec) for spec in machine.specs))
    return (*local_checks, _check_disk(machine), *tool_checks(machine.run))


def is_ok(checks: tuple[ToolCheck, ...]) -> bool:
    return all(check.ok for check in checks if check.required)


def _python(machine: CheckedMachine) -> ToolCheck:
    return ToolCheck(
        id="python",
        ok=machine.python >= (3, 11),
        required=True,
        version=".".join(map(str, machine.python)),
        needed_for="xsft itself",
        detail=sys.executable,
        fix="install Python 3.12: `uv python install 3.12`, `pyenv install 3.12`, or your system's package",
    )


def _uv(machine: CheckedMachine) -> ToolCheck:
    uv, missing = "", ""
    try:
        uv = find_uv_bin()
    except FileNotFoundError as problem:
        missing = str(problem)
    return ToolCheck(
        id="uv",
        ok=bool(uv),
        required=True,
        version=version_of(machine.run((uv, "--version"))) if uv else "",
        needed_for="environments",
        detail=uv or missing,
        fix="reinstall xsft with pip or uv: it depends on uv",
    )


def _check_environment(machine: CheckedMachine, *, spec: EnvironmentSpec) -> ToolCheck:
    row = partial(
        ToolCheck, id=f"{spec.name}-environment", required=spec.required, needed_for=spec.needed_for or spec.name
    )
    environment = find_in(machine.place.cache, spec)
    if environment is None:
        fix = f"xsft setup {spec.name}"
        if not any(envbuild.find_python(series, machine.place.env) for series in spec.pythons):
            fix = f"{fix}, which downloads Python {spec.pythons[0]} first"
        return row(ok=False, version="", detail="not built, or incomplete", fix=fix)
    faults = envbuild.file_faults(environment, spec, machine.place)
    return row(
        ok=not faults,
        version=environment.version,
        detail="; ".join(faults) or str(environment.folder),
        fix=f"xsft setup --verify {spec.name}",
    )


def _check_disk(machine: CheckedMachine) -> ToolCheck:
    missing = [spec for spec in machine.specs if spec.required and find_in(machine.place.cache, spec) is None]
    needed_gib = sum(spec.size_gib for spec in missing)
    free_gib = machine.free_bytes(machine.place.cache) / 2**30
    return ToolCheck(
        id="disk",
        ok=free_gib >= needed_gib,
        required=True,
        version="",
        needed_for="environments",
        detail=f"{free_gib:.1f} GiB free in {machine.place.cache}, about {needed_gib:.1f} needed",
        fix="free some space, or set XSFT_CACHE_DIR (and UV_CACHE_DIR) to a larger disk",
    )
