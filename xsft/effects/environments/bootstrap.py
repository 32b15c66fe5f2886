"""`make setup`: creates .venv with exactly the locked development set and xsft itself, editable.

Standard library only, from a bare Python: pip installs uv (hash-checked), uv installs the rest. Run from the checkout:
`python -m xsft.effects.environments.bootstrap`.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tempfile
from pathlib import Path

from xsft.effects.environments import interpreters
from xsft.effects.environments.interpreters import Interpreter
from xsft.effects.environments.managed_python import LOCK, UV_ENTRY
from xsft.effects.environments.uv import uv_environment
from xsft.effects.machine.filelock import exclusive
from xsft.effects.machine.process import follow, own_environment, run
from xsft.errors import INTERRUPTED, EnvironmentMissing, Refused, XsftError

VENV = Path(".venv")
MARKER = VENV / ".xsft-set-up"
"""Written last; holds the digest of the installed set."""
TRIES = ("--timeout", "8", "--retries", "1")
"""pip's patience in seconds: an index that does not answer is reported within 20 s; pip's own default is 90 s and more.
"""
MADE = VENV / ".xsft-made"
"""Written once .venv has its Python and pip."""


def main() -> int:
    try:
        with exclusive(
            Path(".venv.lock"), waiting=lambda: print_message("another `make setup` is running here; waiting for it")
        ):
            set_up()
    except XsftError as problem:
        print_message(f"{problem.message}\n      {problem.fix}")
        return problem.exit_status
    except KeyboardInterrupt:
        print_message("interrupted; run `make setup` again to continue")
        return INTERRUPTED
    return 0


def set_up() -> None:
    digest = wanted_digest()
    if is_ready(digest):
        return
    if not (venv_runs() and is_venv_complete()):
        make_venv(choose_interpreter())
    MADE.touch()
    MARKER.unlink(missing_ok=True)
    install_uv()
    install_locked()
    MARKER.write_text(digest)
    print_message(f"ready: {VENV}/bin/xsft")


def wanted_digest() -> str:
    return hashlib.sha256(b"\0".join(Path(p).read_bytes() for p in ("pyproject.toml", LOCK, __file__))).hexdigest()


def is_ready(digest: str) -> bool:
    return MARKER.is_file() and MARKER.read_text() == digest and venv_runs() and (VENV / "bin" / "xsft").is_file()


def venv_runs() -> bool:
    python = VENV / "bin" / "python"
    return python.is_file() and run((str(python), "-c", ""), env=own_environment()).ok


def is_venv_complete() -> bool:
    """Return whether .venv is complete; False if creating it was interrupted: its Python works long before its pip is
    complete.
    """
    return MADE.is_file() or MARKER.is_file()


def choose_interpreter() -> Interpreter:
    """Return the first Python >= 3.11 that can create a virtual environment with pip."""
    unfit: list[Interpreter] = []
    for interpreter in interpreters.search(env=own_environment(), home=Path.home()):
        if interpreter.minor >= (3, 11) and interpreter.makes_venv:
            return interpreter
        unfit.append(interpreter)
    raise lacks_venv([found for found in unfit if found.minor >= (3, 11)])


def lacks_venv(unfit: list[Interpreter]) -> EnvironmentMissing:
    if not unfit:
        return EnvironmentMissing("no Python >= 3.11 was found", fix=interpreters.how_to_get((3, 12)))
    return EnvironmentMissing(
        f"{unfit[0].path} lacks venv or pip (modules venv and ensurepip)",
        fix=f"Debian, Ubuntu: apt install {interpreters.venv_package(unfit[0])}; elsewhere another Python:"
        f" {interpreters.how_to_get((3, 12))}",
    )


def make_venv(interpreter: Interpreter) -> None:
    if VENV.exists() and any(VENV.iterdir()) and not (VENV / "pyvenv.cfg").is_file():
        raise Refused(
            f"{VENV} exists and is not a virtual environment", fix="move it away, then run `make setup` again"
        )
    print_message(f"creating {VENV} with Python {'.'.join(map(str, interpreter.version))} ({interpreter.path})")
    done = run((str(interpreter.path), "-m", "venv", "--clear", str(VENV)), env=own_environment())
    if not done.ok:
        raise EnvironmentMissing(
            f"{interpreter.path} -m venv failed: {(done.stderr or done.stdout).strip()[-300:]}",
            fix=f"Debian, Ubuntu: apt install {interpreters.venv_package(interpreter)}",
        )


def install_uv(*, tries: tuple[str, ...] = TRIES) -> None:
    """Install uv from the package index with pip, with the lock's version and hashes; does nothing if that version is
    installed. `tries`: pip's patience.
    """
    requirement, version = locked_uv()
    uv = VENV / "bin" / "uv"
    if uv.is_file() and run((str(uv), "--version"), env=own_environment()).stdout.split()[1:2] == [version]:
        return
    print_message(f"installing uv {version} with pip")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "uv.txt"
        file.write_text(requirement)
        install(
            (
                str(VENV / "bin" / "python"),
                "-m",
                "pip",
                "install",
                "-q",
                "--disable-pip-version-check",
                *tries,
                "--require-hashes",
                "--no-deps",
                "-r",
                str(file),
            )
        )


def locked_uv(lock: Path = LOCK) -> tuple[str, str]:
    """Return (the lock's lines for uv and its hashes, its version)."""
    entry = UV_ENTRY.search(lock.read_text())
    if entry is None:
        raise EnvironmentMissing(f"{lock} has no entry for uv", fix="restore it from git, or regenerate it: make locks")
    return entry[0], entry[1]


def install_locked() -> None:
    print_message(f"installing the {len(re.findall(r'^[a-z0-9]', LOCK.read_text(), re.MULTILINE))} packages of {LOCK}")
    uv = (str(VENV / "bin" / "uv"), "pip")
    python = ("--python", str(VENV / "bin" / "python"))
    install((*uv, "sync", *python, "--require-hashes", str(LOCK)))
    install((*uv, "install", *python, "--no-deps", "--no-build-isolation", "--editable", "."))


def install(argv: tuple[str, ...]) -> None:
    done = follow(argv, env=uv_environment(own_environment()), on_line=say_of_installer)
    if not done.ok:
        raise EnvironmentMissing(
            f"{Path(argv[0]).name} ended with status {done.status} (see its output above)",
            fix="connect to the network, or set PIP_INDEX_URL to your mirror of the package index, and check the free"
            " disk space; then run `make setup` again",
        )


def say_of_installer(line: str) -> None:
    if line.strip() and not line.startswith((" + ", " - ", " ~ ")):
        print(f"      {line.strip()}", file=sys.stderr, flush=True)


def print_message(message: str) -> None:
    print(f"xsft: {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
