"""Installs a Python that uv manages, where this machine has none that fits.

.ci/bootstrap runs this file as a script with any Python >= 3.9 before anything is installed. So it uses only the
standard library and the syntax of 3.9 (a test parses it as 3.9). `envbuild` calls `install_managed`, too.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

SERIES = "3.12"
"""The series that every environment can use."""
LOCK = Path("xsft/locks/dev.txt")
UV_ENTRY = re.compile(r"^uv==(\S+) \\\n(?:    --hash=\S+(?: \\)?\n)+", re.MULTILINE)
"""The lock's lines for uv and its hashes."""
ONE_TRY = {"UV_HTTP_CONNECT_TIMEOUT": "3", "UV_HTTP_TIMEOUT": "6", "UV_HTTP_RETRIES": "0"}
"""Time limits in seconds without an answer: with the installation of uv, a failure is reported within 20 s. uv's own
limits add up to minutes. source: uv docs, reference/environment.
"""
BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")


class ManagedPythonError(Exception):
    """uv, or the Python, could not be downloaded; the message gives the last words of the installer."""


def main() -> int:
    """Print the path of the managed Python, installed now if it is missing. Returns 3 if it cannot be installed."""
    print_message(f"no Python 3.12 or 3.13 was found: uv installs {SERIES}")
    try:
        with tempfile.TemporaryDirectory() as folder:
            env = uv_variables(os.environ)
            print(install_managed(shutil.which("uv") or install_uv(Path(folder)), env=env))
    except ManagedPythonError as problem:
        print_message(f"{problem}\n      {ways_out()}")
        return 3
    return 0


def install_managed(uv: str, *, env: Mapping[str, str], series: str = SERIES) -> str:
    """Return the path of the newest managed Python of `series`, after `uv python install`. It is put into uv's own
    folder, and nothing on PATH. Raises ManagedPythonError within about 7 s if the server does not answer.
    """
    patient = {**ONE_TRY, **env}
    done = completed((uv, "python", "install", "--no-bin", series), env=patient)
    if done.returncode:
        raise ManagedPythonError(f"Python {series} could not be downloaded: {last_words(done.stderr)}")
    find = (uv, "python", "find", "--no-project", "--managed-python", "--no-python-downloads", series)
    found = completed(find, env=patient)
    if found.returncode:
        raise ManagedPythonError(f"Python {series} was installed, but uv does not find it: {last_words(found.stderr)}")
    return found.stdout.strip()


def install_uv(folder: Path) -> str:
    """Return the path of uv, installed in `folder` by pip with the lock's version and hashes."""
    entry = UV_ENTRY.search(LOCK.read_text(encoding="utf-8"))
    if entry is None:
        raise ManagedPythonError(f"{LOCK} has no entry for uv; restore it from git")
    requirement = folder / "uv.txt"
    requirement.write_text(entry[0], encoding="utf-8")
    options = ("--timeout", "5", "--retries", "0", "--require-hashes", "--no-deps", "--target", str(folder / "uv"))
    done = completed((*pip_in(folder), "install", "-q", *options, "-r", str(requirement)), env=os.environ)
    if done.returncode:
        raise ManagedPythonError(f"uv could not be installed by pip: {last_words(done.stderr)}")
    return str(folder / "uv" / "bin" / "uv")


def pip_in(folder: Path) -> tuple[str, ...]:
    """Return the command of this Python's pip, of the wheel that `venv` would install, or of one in a new virtual
    environment in `folder`, which takes 6 CPU-s.
    """
    if importlib.util.find_spec("pip"):
        return (sys.executable, "-m", "pip")
    for wheel in pip_wheels():
        command = (sys.executable, str(wheel / "pip"))
        if completed((*command, "--version"), env=os.environ).returncode == 0:  # Debian 11's lacks its dependencies
            return command
    made = completed((sys.executable, "-m", "venv", str(folder / "venv")), env=os.environ)
    if made.returncode:
        raise ManagedPythonError(
            f"{sys.executable} has neither pip nor venv (Debian, Ubuntu: apt install python3-venv)"
        )
    return (str(folder / "venv" / "bin" / "python"), "-m", "pip")


def pip_wheels() -> list[Path]:
    """Return pip's wheels in ensurepip's folder, and in Debian's. source: cpython@3.11 Lib/ensurepip/__init__.py"""
    ensurepip = importlib.util.find_spec("ensurepip")
    bundled = [Path(ensurepip.origin).parent / "_bundled"] if ensurepip and ensurepip.origin else []
    return [wheel for folder in (*bundled, Path("/usr/share/python-wheels")) for wheel in folder.glob("pip-*.whl")]


def ways_out(series: str = SERIES) -> str:
    """Return the two next steps for a user whose machine cannot download a Python."""
    return (
        f"Either install Python {series} with its venv on PATH (your system's packages python{series} and"
        f" python{series}-venv; macOS: brew install python@{series}). Or connect to the network, or set"
        " UV_PYTHON_INSTALL_MIRROR to a mirror of uv's Python builds, and run the command again."
    )


def uv_variables(env: Mapping[str, str]) -> dict[str, str]:
    """Return `env` for uv, with pip's certificate authorities, or the system's."""
    trust = {"SSL_CERT_FILE": env["PIP_CERT"]} if env.get("PIP_CERT") else {}
    system = {"UV_SYSTEM_CERTS": "1"} if BUNDLE.is_file() else {}
    return {**system, **trust, **env, "NO_COLOR": "1"}


def completed(argv: tuple[str, ...], *, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, env=dict(env), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def last_words(text: str) -> str:
    """Return the last whole words of a message, 400 characters at most: the cause is at its end."""
    words = " ".join(text.split())
    return words if len(words) <= 400 else f"… {words[-400:].partition(' ')[2]}"


def print_message(message: str) -> None:
    print(f"xsft: {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
