"""Builds, verifies and repairs an environment with uv. One builder at a time; an environment is valid once its marker
exists, which is written last.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from uv import find_uv_bin

from xsft.base.errors import EnvironmentMissing
from xsft.base.lenient import ShowLine
from xsft.environments.ask import Interpreter, ProgramFailed, ask
from xsft.environments.installed import BuiltEnvironment, EnvironmentSpec, find_in, finish, folder_for
from xsft.environments.uv import uv_environment
from xsft.machine.filelock import exclusive
from xsft.machine.process import ProcessResult, follow, run

OUTSIDE = Path("/")
"""Where uv runs: it would read the settings of a project around the current folder."""

FAILURES = (
    (
        r"No space left|os error 28",
        "no space left, and it needs about {size} GiB",
        "free some space, or set XSFT_CACHE_DIR (and UV_CACHE_DIR) to a larger disk",
    ),
    (
        r"\[Errno|Permission denied|Read-only file system",
        "the cache folder could not be written",
        "make that folder writable, or set XSFT_CACHE_DIR to one that is",
    ),
    (
        r"No interpreter found|No download found|Failed to inspect Python|cpython-\d|remote python downloads",
        "it needs Python {series}; none was found on this machine, and Python {first} could not be downloaded",
        "install Python {first}, or connect to the network, or set UV_PYTHON_INSTALL_MIRROR to a mirror of uv's builds",
    ),
    (
        r"[Hh]ash mismatch",
        "a package's hash differs from the lock",
        "do not use this package index; if you trust it, `uv cache clean` and try again",
    ),
    (
        r"no usable wheels|no wheels with a matching",
        "a package has no wheel for this machine",
        "use Linux on x86-64 or ARM64, or macOS on ARM64",
    ),
    (
        r"network was disabled|Could not connect|dns error|Failed to fetch|error sending request|timed out",
        "no answer from the package index",
        "connect to the network (or set UV_DEFAULT_INDEX to your mirror), then run `xsft setup {name}`",
    ),
    (r"", "uv failed", "correct that, then run `xsft setup {name}`"),
)
"""Pattern in uv's output, the cause, the fix; the first that matches counts."""


class BuildPlace(Struct, frozen=True, kw_only=True):
    """The folder to build in, and the environment variables to build with."""

    cache: Path
    env: Mapping[str, str]


def build(spec: EnvironmentSpec, place: BuildPlace, *, progress: ShowLine, verify: bool) -> BuiltEnvironment:
    """Return the environment of `spec`, built unless a valid one exists; `verify` checks every file and import."""
    lock = place.cache / f".{spec.name}-{spec.digest[:12]}.lock"
    waiting = f"another xsft process is building the {spec.name} environment; waiting for it"
    try:
        with exclusive(lock, waiting=lambda: progress(waiting)):
            environment = find_in(place.cache, spec)
            if environment and not (verify and _is_broken(environment, spec, place, progress)):
                return environment
            return _build_anew(spec, place, progress=progress)
    except BrokenPipeError:  # raised by the progress display, not by the disk
        raise
    except OSError as problem:
        raise _failure(str(problem), spec, place) from problem


def faults(environment: BuiltEnvironment, spec: EnvironmentSpec, place: BuildPlace) -> tuple[str, ...]:
    """Return everything wrong with an environment: versions that differ from the lock, missing files, failing
    imports.
    """
    return file_faults(environment, spec, place) or import_faults(environment.python, spec, place)


def file_faults(environment: BuiltEnvironment, spec: EnvironmentSpec, place: BuildPlace) -> tuple[str, ...]:
    """Return versions that differ from the lock, and missing files; takes under a second, imports nothing."""
    try:
        incomplete = _ask_packages(environment.python, (), place)
    except (EnvironmentMissing, ProgramFailed) as problem:  # its Python does not start
        return (f"its Python fails: {problem.message}",)
    # uv asks no index if nothing is missing.
    packages = _uv(place.env, "pip", "sync", "--dry-run", "--offline", *_from_lock(spec, environment.python))
    if packages.ok and "Would make no changes" in packages.stderr:
        return tuple(incomplete[:5])
    return (f"its packages are not those of the lock: {_last_words(packages.stderr)}",)


def import_faults(python: Path, spec: EnvironmentSpec, place: BuildPlace) -> tuple[str, ...]:
    try:
        _ask_packages(python, spec.imports, place)
    except ProgramFailed as failed:
        return (f"`import {', '.join(spec.imports)}` fails: {_last_words(failed.message)}",)
    return ()


def _ask_packages(python: Path, imports: tuple[str, ...], place: BuildPlace) -> list[str]:
    """Return a line for each package that lacks a file. Raises ProgramFailed if one of `imports` fails."""
    interpreter = Interpreter(python=python, env={**place.env, "JAX_PLATFORMS": "cpu"})
    incomplete: list[str] = ask(interpreter, "xsft.workers.installed_packages", {"imports": imports})
    return incomplete


def find_python(series: str, env: Mapping[str, str]) -> Path | None:
    """Return an installed CPython of this series, found by uv; None if there is none. Downloads nothing."""
    done = _uv(env, "python", "find", "--system", "--no-project", "--no-python-downloads", f"cpython{series}")
    return Path(done.stdout.strip()) if done.ok else None


def _is_broken(environment: BuiltEnvironment, spec: EnvironmentSpec, place: BuildPlace, progress: ShowLine) -> bool:
    progress(f"verifying the {spec.name} environment")
    problems = faults(environment, spec, place)
    for problem in problems:
        progress(f"broken: {problem}")
    return bool(problems)


def _build_anew(spec: EnvironmentSpec, place: BuildPlace, *, progress: ShowLine) -> BuiltEnvironment:
    # The preferred one of those that this machine has; if it has none, uv downloads the first.
    series = next((series for series in spec.pythons if find_python(series, place.env)), spec.pythons[0])
    folder = folder_for(place.cache, spec, series)
    what = f"{len(spec.pins)} packages, Python {series}"
    progress(f"building the {spec.name} environment: {what}, once per machine")
    # Its name holds the digest of the lock, so what lies there is xsft's: unfinished or broken.
    shutil.rmtree(folder, ignore_errors=True)
    try:
        _install(spec, folder, series, place, progress)
        return finish(folder, spec)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _install(spec: EnvironmentSpec, folder: Path, series: str, place: BuildPlace, progress: ShowLine) -> None:
    def show(line: str) -> None:
        if line.strip() and not line.startswith((" + ", " - ", " ~ ")):  # uv's list of packages
            progress(line.strip())

    python = folder / "bin" / "python"
    create = ("venv", "--quiet", "--no-project", "--python", f"cpython{series}", str(folder))
    for arguments in (create, ("pip", "sync", *_from_lock(spec, python))):
        done = follow((find_uv_bin(), *arguments), env=uv_environment(place.env), on_line=show, cwd=OUTSIDE)
        if not done.ok:
            raise _failure(done.stdout, spec, place)
    progress(f"verifying the {spec.name} environment")
    problems = import_faults(python, spec, place)
    if problems:
        raise EnvironmentMissing(
            f"the {spec.name} environment was installed but does not work: {'; '.join(problems)}",
            fix=f"run `uv cache clean`, then `xsft setup {spec.name}`; if it persists, report it with this message",
        )


def _from_lock(spec: EnvironmentSpec, python: Path) -> tuple[str, ...]:
    # Every package of the locks has a wheel, so none may run a program of its own while it is installed.
    return ("--python", str(python), "--require-hashes", "--only-binary", ":all:", str(spec.lock))


def _uv(env: Mapping[str, str], *arguments: str) -> ProcessResult:
    return run((find_uv_bin(), *arguments), env=uv_environment(env), cwd=OUTSIDE)


def _failure(words: str, spec: EnvironmentSpec, place: BuildPlace) -> EnvironmentMissing:
    """Return the error for uv's output, or for an error of the disk."""
    cause, fix = next((cause, fix) for pattern, cause, fix in FAILURES if re.search(pattern, words))
    names = {
        "name": spec.name,
        "size": spec.size_gib,
        "series": " or ".join(sorted(spec.pythons)),
        "first": spec.pythons[0],
    }
    error = words.rpartition("error: ")[2]  # uv's progress stands before it
    return EnvironmentMissing(
        f"the {spec.name} environment could not be built in {place.cache}: {cause.format(**names)}"
        f" ({_last_words(error)})",
        fix=fix.format(**names),
    )


def _last_words(text: str) -> str:
    """Return the end of a long error output for a message, at most 400 characters."""
    return " ".join(text.split())[-400:]
