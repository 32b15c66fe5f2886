"""`make setup`: creates .venv with exactly the locked development set and xsft itself, editable.

.ci/bootstrap runs this in the checkout with any Python >= 3.9 before anything is installed: standard library and syntax
of 3.9 only (a test runs it so). pip installs uv, hash-checked; uv finds or downloads .venv's Python, and does the rest.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from xsft.environments.uv import uv_environment

VENV = Path(".venv")
MARKER = VENV / ".xsft-set-up"
"""Written last; holds the digest of the installed set."""
LOCK = Path("xsft/locks/dev.txt")
UV_LOCK = Path("images/post_training/installer.txt")
"""uv alone, in the version that LOCK has."""
PIP = (
    *("install", "-qq", "--disable-pip-version-check", "--timeout=8", "--retries=1", "--no-deps"),
    *("--require-hashes", "--only-binary", ":all:"),
)
"""pip's timeout in seconds: an index that does not answer is reported within 20 s; pip's own limits are 90 s and more.
"""
IN_VENV = "import sys; sys.exit(sys.version_info < (3, 11) or sys.prefix == sys.base_prefix)"

NETWORK_FIX = (
    "connect to the network, or set PIP_INDEX_URL to your mirror of the package index, and check the free disk space;"
    " then run `make setup` again"
)
PYTHON_FIX = (
    "Either install Python 3.12 (your system's package python3.12; macOS: brew install python@3.12; or pyenv install"
    " 3.12). Or connect to the network, or set UV_PYTHON_INSTALL_MIRROR to a mirror of uv's Python builds. Then run"
    " `make setup` again."
)


class SetupError(Exception):
    """A step failed. `fix` is the next step."""

    def __init__(self, message: str, *, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


def main() -> int:
    try:
        with Path(".venv.lock").open("w", encoding="utf-8") as lock:
            take_lock(lock.fileno())
            set_up()
    except SetupError as problem:
        print_message(f"{problem}\n      {problem.fix}")
        return 3
    except KeyboardInterrupt:
        print_message("interrupted; run `make setup` again to continue")
        return 130
    return 0


def take_lock(lock: int) -> None:
    """Lock the file until this process ends."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print_message("another `make setup` is running here; waiting for it")
        fcntl.flock(lock, fcntl.LOCK_EX)


def set_up() -> None:
    digest = hashlib.sha256(b"\0".join(Path(p).read_bytes() for p in ("pyproject.toml", LOCK, __file__))).hexdigest()
    ready = MARKER.is_file() and MARKER.read_text(encoding="utf-8") == digest and (VENV / "bin" / "xsft").is_file()
    if ready and venv_works():
        return
    with tempfile.TemporaryDirectory() as folder:
        uv = find_or_install_uv(Path(folder))
        if not venv_works():
            create_venv(uv)
        MARKER.unlink(missing_ok=True)
        install_locked(uv)
    MARKER.write_text(digest, encoding="utf-8")
    print_message(f"ready: {VENV}/bin/xsft")


def venv_works() -> bool:
    """Return whether .venv is a virtual environment whose Python xsft can use."""
    return succeeds(str(VENV / "bin" / "python"), "-c", IN_VENV)


def find_or_install_uv(folder: Path) -> str:
    """Return the path of .venv's uv, else of the locked one, which pip installs in `folder`."""
    uv = VENV / "bin" / "uv"
    if venv_works() and succeeds(str(uv), "--version"):
        return str(uv)
    print_message("installing uv with pip")
    run_installer(*pip_command(folder), *PIP, "--target", str(folder / "uv"), "-r", str(UV_LOCK))
    return str(folder / "uv" / "bin" / "uv")


def pip_command(folder: Path) -> tuple[str, ...]:
    """Return the command of this Python's pip, or of the one in a new virtual environment, which takes seconds."""
    if importlib.util.find_spec("pip"):
        return (sys.executable, "-m", "pip")
    run_installer(sys.executable, "-m", "venv", str(folder / "pip"))
    return (str(folder / "pip" / "bin" / "python"), "-m", "pip")


def create_venv(uv: str) -> None:
    """Create .venv with the Python that the user names (`make setup PYTHON=…`), else with an installed 3.12, else with
    any installed one that xsft can use, else with a 3.12 that uv downloads into its own folder.
    """
    venv = (uv, "venv", "--clear", "--no-project", "--quiet", str(VENV), "--python")
    if os.environ.get("PYTHON"):
        run_installer(*venv, os.environ["PYTHON"])
        return
    print_message(f"creating {VENV}")
    find = (uv, "python", "find", "--system", "--no-project", "--no-python-downloads")
    for installed in ("cpython3.12", "cpython>=3.11"):
        if succeeds(*find, installed):
            run_installer(*venv, installed)
            return
    print_message("no Python >= 3.11 was found: uv installs 3.12")
    try:
        run_installer(*venv, "cpython3.12")
    except SetupError as problem:
        raise SetupError(f"{VENV} could not be created: {problem}", fix=PYTHON_FIX) from problem


def install_locked(uv: str) -> None:
    packages = re.findall(r"^[a-z0-9]", LOCK.read_text(encoding="utf-8"), re.MULTILINE)
    print_message(f"installing the {len(packages)} packages of {LOCK}")
    into = ("--python", str(VENV / "bin" / "python"))
    run_installer(uv, "pip", "sync", *into, "--require-hashes", "--only-binary", ":all:", str(LOCK))
    run_installer(uv, "pip", "install", *into, "--no-deps", "--no-build-isolation", "--editable", ".")


def succeeds(*argv: str) -> bool:
    env = uv_environment(os.environ)
    try:
        return subprocess.run(argv, env=env, check=False, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0
    except OSError:
        return False


def run_installer(*argv: str) -> None:
    """Run an installer and print its lines, without the list of packages. Raises SetupError if it fails."""
    with subprocess.Popen(
        argv,
        env=uv_environment(os.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            if line.strip() and not line.startswith((" + ", " - ", " ~ ")):
                print(f"      {line.strip()}", file=sys.stderr, flush=True)
    if process.returncode:
        program = Path(argv[0]).name
        raise SetupError(f"{program} ended with status {process.returncode} (see its output above)", fix=NETWORK_FIX)


def print_message(message: str) -> None:
    print(f"xsft: {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
