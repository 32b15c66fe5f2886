"""Builds, verifies and repairs an environment with uv. One builder at a time; an environment is valid once its marker
exists, which is written last.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from xsft.aliases import ShowLine
from xsft.effects.environments import interpreters
from xsft.effects.environments.installed import (
    MARKER,
    BuiltEnvironment,
    EnvironmentSpec,
    find_in,
    folder_for,
    marker_for,
    read_installed,
    top_level_of,
)
from xsft.effects.environments.interpreters import Interpreter
from xsft.effects.environments.managed_python import ManagedPythonError, install_managed, ways_out
from xsft.effects.environments.uv import find_uv, uv_environment
from xsft.effects.machine.filelock import exclusive
from xsft.effects.machine.paths import private_folder
from xsft.effects.machine.process import ProcessResult, follow, run
from xsft.errors import EnvironmentMissing, Refused

OURS = ".xsft-made-this"
"""Written first, so that a partly built folder is known to be xsft's and may be removed."""

FILES_MISSING = """
import csv, importlib.metadata, os
for package in importlib.metadata.distributions():
    for file, *_ in csv.reader((package.read_text("RECORD") or "").splitlines()):
        if not file.endswith(".pyc") and not os.path.exists(package.locate_file(file)):
            print(f"{package.metadata['Name']}: {file} is gone")
            break
"""
"""RECORD itself: from Python 3.12 on `Distribution.files` leaves out what is gone."""


class BuildPlace(Struct, frozen=True, kw_only=True):
    """The folder to build in, and the environment variables to build with."""

    cache: Path
    env: Mapping[str, str]
    home: Path


def build(spec: EnvironmentSpec, place: BuildPlace, *, progress: ShowLine, verify: bool) -> BuiltEnvironment:
    """Return the environment of `spec`, built unless a valid one exists; `verify` checks every file and import."""
    try:
        with exclusive(_lock_file(spec, place), waiting=lambda: progress(_WAITING.format(name=spec.name))):
            present = find_in(place.cache, spec)
            if present and not (verify and _remove_if_broken(present, spec, place, progress)):
                return present
            return _build_anew(spec, place, progress=progress)
    except BrokenPipeError:  # raised by the progress display, not by the disk
        raise
    except OSError as problem:
        raise _not_writable(problem, spec, place) from problem


def faults(environment: BuiltEnvironment, spec: EnvironmentSpec, place: BuildPlace) -> tuple[str, ...]:
    """Return everything wrong with an environment: versions that differ from the lock, missing files, failing
    imports.
    """
    return file_faults(environment, place) or _import_faults(environment, spec, place)


def file_faults(environment: BuiltEnvironment, place: BuildPlace) -> tuple[str, ...]:
    """Return versions that differ from the lock, and missing files; takes under a second, imports nothing."""
    try:
        return (*_version_faults(environment, place), *_missing_files(environment, place))
    except EnvironmentMissing as problem:  # its Python does not start
        return (problem.message,)


_NO_NETWORK = r"network was disabled|Could not connect|dns error|Failed to fetch|error sending request|timed out"
_WAITING = "another xsft process is building the {name} environment; waiting for it"


def _remove_if_broken(
    environment: BuiltEnvironment, spec: EnvironmentSpec, place: BuildPlace, progress: ShowLine
) -> bool:
    """Return whether anything is wrong with it. If so it is removed, so that it is not found again."""
    progress(f"verifying the {spec.name} environment")
    found = faults(environment, spec, place)
    for fault in found:
        progress(f"broken: {fault}")
    if found:
        _remove_ours(environment.folder)
    return bool(found)


def _build_anew(spec: EnvironmentSpec, place: BuildPlace, *, progress: ShowLine) -> BuiltEnvironment:
    interpreter = _interpreter(spec, place, progress)
    folder = folder_for(place.cache, spec, interpreter.minor)
    _remove_ours(folder)
    version = ".".join(map(str, interpreter.version))
    progress(f"building the {spec.name} environment: {len(spec.pins)} packages, Python {version}, once per machine")
    try:
        _install(spec, folder, interpreter, place, progress)
        return _finish(spec, folder, place, progress)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _install(
    spec: EnvironmentSpec, folder: Path, interpreter: Interpreter, place: BuildPlace, progress: ShowLine
) -> None:
    private_folder(folder.parent)
    folder.mkdir(mode=0o700)
    (folder / OURS).touch()
    lock = folder / "lock.txt"
    lock.write_text(spec.lock, encoding="utf-8")
    venv = (
        "venv",
        "--quiet",
        "--allow-existing",
        "--no-python-downloads",
        "--python",
        str(interpreter.path),
        str(folder),
    )
    sync = ("pip", "sync", "--python", str(folder / "bin" / "python"), "--require-hashes", str(lock))
    for argv in (venv, sync):
        done = follow((find_uv(), *argv), env=uv_environment(place.env), on_line=_quiet_progress(progress), cwd=folder)
        if not done.ok:
            raise _install_failed(done, spec, place)


def _finish(spec: EnvironmentSpec, folder: Path, place: BuildPlace, progress: ShowLine) -> BuiltEnvironment:
    """Verify the environment, then write the marker in one step."""
    progress(f"verifying the {spec.name} environment")
    fresh = BuiltEnvironment(
        name=spec.name, python=folder / "bin" / "python", digest=spec.digest, version=spec.pins[spec.package]
    )
    if found := faults(fresh, spec, place):
        raise EnvironmentMissing(
            f"the {spec.name} environment was installed but does not work: {'; '.join(found)}",
            fix=f"run `uv cache clean`, then `xsft setup {spec.name}`; if it persists, report it with this message",
        )
    marker = folder / f"{MARKER}.new"
    marker.write_text(json.dumps(marker_for(spec, top_level_of(folder))), encoding="utf-8")
    marker.replace(folder / MARKER)
    valid = read_installed(folder, spec)
    if valid is None:
        raise EnvironmentMissing(
            f"{folder} changed while it was built", fix=f"`xsft setup {spec.name}` builds it again"
        )
    return valid


def _version_faults(environment: BuiltEnvironment, place: BuildPlace) -> tuple[str, ...]:
    """Return the differences that uv reports between the installed set and the lock; it queries no index if nothing is
    missing.
    """
    lock = environment.folder / "lock.txt"
    sync = ("pip", "sync", "--dry-run", "--offline", "--python", str(environment.python), "--require-hashes", str(lock))
    done = run((find_uv(), *sync), env=uv_environment(place.env), cwd=environment.folder)
    if done.ok and "Would make no changes" in done.stderr:
        return ()
    return (f"its packages are not those of the lock: {_last_words(done.stderr)}",)


def _missing_files(environment: BuiltEnvironment, place: BuildPlace) -> tuple[str, ...]:
    done = run((str(environment.python), "-I", "-c", FILES_MISSING), env=place.env)
    return tuple(done.stdout.splitlines()[:5]) if done.ok else (f"its Python fails: {_last_words(done.stderr)}",)


def _import_faults(environment: BuiltEnvironment, spec: EnvironmentSpec, place: BuildPlace) -> tuple[str, ...]:
    statement = "; ".join(f"import {module}" for module in spec.imports)
    done = run((str(environment.python), "-I", "-c", statement), env={**place.env, "JAX_PLATFORMS": "cpu"})
    return () if done.ok else (f"`{statement}` fails: {_last_words(done.stderr)}",)


def _interpreter(spec: EnvironmentSpec, place: BuildPlace, progress: ShowLine) -> Interpreter:
    """Return an interpreter of this machine, or one that uv installs now. Raises EnvironmentMissing."""
    found = interpreters.find_interpreter(spec.pythons, env=place.env, home=place.home)
    return found or _managed_interpreter(spec, place, progress)


def _managed_interpreter(spec: EnvironmentSpec, place: BuildPlace, progress: ShowLine) -> Interpreter:
    series = "{}.{}".format(*spec.pythons[0])
    progress(f"no Python for the {spec.name} environment was found: uv installs {series}")
    why = f"uv installed a Python {series} that does not run here"
    try:
        path = Path(install_managed(find_uv(), env=uv_environment(place.env), series=series))
        if found := interpreters.probe(path, env=place.env):
            return found
    except ManagedPythonError as problem:
        why = str(problem)
    wanted = " or ".join(f"{major}.{minor}" for major, minor in sorted(spec.pythons))
    raise EnvironmentMissing(
        f"the {spec.name} environment needs Python {wanted}; none was found on this machine. {why}",
        fix=ways_out(series),
    )


def _remove_ours(folder: Path) -> None:
    """Remove the folder. Raises Refused if xsft did not create it."""
    if folder.exists() and not (folder / OURS).is_file() and any(folder.iterdir()):
        raise Refused(f"{folder} exists already, and xsft did not create it", fix="move it away, then try again")
    if folder.exists():
        shutil.rmtree(folder)


def _lock_file(spec: EnvironmentSpec, place: BuildPlace) -> Path:
    return place.cache / f".{spec.name}-{spec.digest[:12]}.lock"


def _install_failed(done: ProcessResult, spec: EnvironmentSpec, place: BuildPlace) -> EnvironmentMissing:
    words = done.stdout
    what = f"the {spec.name} environment could not be built"
    if re.search(r"No space left|os error 28", words):
        return _disk_full(spec, place)
    if re.search(_NO_NETWORK, words):
        return EnvironmentMissing(
            f"{what}: no answer from the package index ({_last_words(words)})",
            fix=f"connect to the network (or set UV_DEFAULT_INDEX to your mirror), then run `xsft setup {spec.name}`",
        )
    if re.search(r"[Hh]ash mismatch", words):
        return EnvironmentMissing(
            f"{what}: a package's hash differs from the lock ({_last_words(words)})",
            fix="do not use this package index; if you trust it, `uv cache clean` and try again",
        )
    return EnvironmentMissing(f"{what}: {_last_words(words)}", fix=f"correct that, then run `xsft setup {spec.name}`")


def _not_writable(problem: OSError, spec: EnvironmentSpec, place: BuildPlace) -> EnvironmentMissing:
    if problem.errno == 28:
        return _disk_full(spec, place)
    return EnvironmentMissing(
        f"the {spec.name} environment could not be written to {place.cache}: {problem.strerror}",
        fix="make that folder writable, or set XSFT_CACHE_DIR to one that is",
    )


def _disk_full(spec: EnvironmentSpec, place: BuildPlace) -> EnvironmentMissing:
    free_gib = shutil.disk_usage(place.cache).free / 2**30
    return EnvironmentMissing(
        f"no space left for the {spec.name} environment in {place.cache}: about {spec.size_gib} GiB needed,"
        f" {free_gib:.1f} GiB free",
        fix="free some space, or set XSFT_CACHE_DIR (and UV_CACHE_DIR) to a larger disk",
    )


def _quiet_progress(progress: ShowLine) -> ShowLine:
    """Return a `progress` that drops uv's list of packages."""
    return lambda line: None if line.startswith((" + ", " - ", " ~ ")) or not line.strip() else progress(line.strip())


def _last_words(text: str) -> str:
    """Return the end of a long error output for a message, at most 400 characters."""
    return " ".join(text.split())[-400:]
