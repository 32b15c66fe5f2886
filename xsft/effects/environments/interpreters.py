"""Python interpreters of this machine, found in the usual places and each run to learn its version.

PATH alone is not enough: pyenv's shims exit with 127 for a version that is not activated, and uv keeps its own Pythons
off PATH. Standard library only: `make setup` runs this before anything is installed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xsft.effects.machine.process import run
from xsft.errors import EnvironmentMissing, TimedOut

PythonMinor = tuple[int, int]
"""A Python series, e.g. `(3, 12)`."""

KNOWN: tuple[PythonMinor, ...] = ((3, 12), (3, 13), (3, 11), (3, 14))
"""Series searched by name, the preferred first."""

PROBE_TIMEOUT_S = 20.0
PROBE = """
import importlib.util as u, json, sys, sysconfig
print(json.dumps({
    "path": sys.executable, "version": sys.version_info[:3],
    "usable": sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED"),
    "makes_venv": bool(u.find_spec("venv") and u.find_spec("ensurepip")),
}))
"""


@dataclass(frozen=True, kw_only=True)
class Interpreter:
    """A CPython interpreter that ran successfully."""

    path: Path
    version: tuple[int, int, int]
    makes_venv: bool
    """False for a Debian Python without `python3.X-venv`: it has the module venv, but not venv's pip."""

    @property
    def minor(self) -> PythonMinor:
        return self.version[:2]


def find_interpreter(series: Sequence[PythonMinor], *, env: Mapping[str, str], home: Path) -> Interpreter | None:
    """Return the interpreter of the first of `series` that this machine has; the running one if it matches the first
    choice. Runs candidates until the first choice is found, 20 to 60 ms each.
    """
    found: dict[PythonMinor, Interpreter] = {}
    for interpreter in search(env=env, home=home):
        found.setdefault(interpreter.minor, interpreter)
        if interpreter.minor == series[0]:
            break
    return next((found[minor] for minor in series if minor in found), None)


def search(*, env: Mapping[str, str], home: Path) -> Iterator[Interpreter]:
    """Yield every interpreter that runs, the running one first, then by location: PATH, uv's own, pyenv's."""
    seen: set[Path] = set()
    for path in candidates(env=env, home=home):
        interpreter = probe(path, env=env)
        if interpreter is not None and interpreter.path not in seen:
            seen.add(interpreter.path)
            yield interpreter


def candidates(*, env: Mapping[str, str], home: Path) -> Iterator[Path]:
    """Yield files that may be interpreters, not run yet. A file with several names is yielded for each: a pyenv shim
    runs a different Python under each name.
    """
    yield Path(sys.executable)
    names = ("python3", *(f"python3.{minor}" for _, minor in KNOWN), "python")
    for entry in filter(None, env.get("PATH", "").split(":")):
        yield from _existing_files(Path(entry) / name for name in names)
    for folder in _managed_folders(env=env, home=home):
        yield from _existing_files(sorted(folder.glob("*/bin/python3"), reverse=True))


def probe(path: Path, *, env: Mapping[str, str]) -> Interpreter | None:
    """Return what the interpreter at `path` reports; None if it does not run (a shim of an inactive version) or is not
    CPython 3.
    """
    try:
        done = run((str(path), "-I", "-S", "-c", PROBE), env=env, timeout_s=PROBE_TIMEOUT_S)
        report = json.loads(done.stdout) if done.ok else None
    except (EnvironmentMissing, TimedOut, ValueError):
        return None
    if not report or not report["usable"]:
        return None
    major, minor, micro = report["version"]
    return Interpreter(path=Path(report["path"]), version=(major, minor, micro), makes_venv=report["makes_venv"])


def how_to_get(minor: PythonMinor) -> str:
    """Return the next step for a user without Python `minor`."""
    version = f"{minor[0]}.{minor[1]}"
    return (
        f"install Python {version}: `uv python install {version}`, `pyenv install {version}`, or your system's package"
        f" (Debian, Ubuntu: python{version}; macOS: brew install python@{version}); it need not be on PATH"
    )


def venv_package(interpreter: Interpreter) -> str:
    """Return the Debian package that adds venv and pip to `interpreter`, e.g. `python3.11-venv`."""
    return f"python{interpreter.version[0]}.{interpreter.version[1]}-venv"


def _managed_folders(*, env: Mapping[str, str], home: Path) -> tuple[Path, ...]:
    """Return the folders in which uv and pyenv keep Pythons. source: uv docs, reference/storage; pyenv README,
    environment variables.
    """
    data = Path(env.get("XDG_DATA_HOME") or home / ".local" / "share")
    return (
        Path(env.get("UV_PYTHON_INSTALL_DIR") or data / "uv" / "python"),
        Path(env.get("PYENV_ROOT") or home / ".pyenv") / "versions",
    )


def _existing_files(paths: Iterable[Path]) -> Iterator[Path]:
    return (path for path in paths if path.is_file())
