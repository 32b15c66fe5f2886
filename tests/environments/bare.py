"""A file system in which one Python exists, /usr/bin/python3, and a server of the Python that uv downloads.

The file system is this machine's libraries under another /usr/bin, in a mount namespace.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import http.server
import json
import os
import platform
import re
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.engine.base import python_files
from xsft.environments import envbuild
from xsft.machine.process import own_environment

CHECKOUT = Path(__file__).parents[2]
PROGRAMS = ("sh", "make", "dirname", "env", "git")
BOUND = ("lib", "lib64", "usr/lib", "usr/share", "etc", "dev", "proc", "tmp")
BUILDS = ("uv", "hatchling", "editables", "packaging", "pathspec", "pluggy", "trove-classifiers")
"""The part of dev.txt that an editable install of xsft needs."""
MANAGED = f"cpython-3.12.1-linux-{platform.machine()}-gnu"
"""uv's name of the served Python. This machine's may have been built to find its library elsewhere; uv's finds it."""


def prefix_of(series: str) -> Path:
    """Return the installation prefix of this machine's Python `series`; skip the test if it has none."""
    python = envbuild.find_python(series, own_environment())
    if python is None:
        pytest.skip(f"no Python {series} on this machine")
    code = "import sys; print(sys.base_prefix)"
    return Path(subprocess.run((python, "-c", code), capture_output=True, text=True, check=True).stdout.strip())


def checkout(folder: Path) -> Path:
    """Copy what `make setup` reads to `folder`, with a short lock; return `folder`."""
    folder.mkdir()
    for name in (".ci", "xsft", "images", "Makefile", "pyproject.toml", "README.md", "LICENSE"):
        source = CHECKOUT / name
        copy = functools.partial(shutil.copytree, ignore=shutil.ignore_patterns("__pycache__"))
        (copy if source.is_dir() else shutil.copy)(source, folder / name)
    lock = folder / "xsft/locks/dev.txt"
    entries = re.findall(r"^[a-z0-9-]+==.*\n(?:    --hash=.*\n)+", lock.read_text(), re.MULTILINE)
    lock.write_text("".join(entry for entry in entries if entry.partition("==")[0] in BUILDS))
    return folder


def bare_root(folder: Path, series: str) -> Path:
    """Make the folder that becomes `/`: its /usr/bin holds a few programs, and Python `series` as python3."""
    prefix = prefix_of(series)
    python = prefix / "bin" / f"python{series}"
    for name in (*BOUND, "usr/bin"):
        (folder / name).mkdir(parents=True)
    (folder / "bin").symlink_to("usr/bin")
    for program in PROGRAMS:
        shutil.copy(shutil.which(program) or program, folder / "usr/bin" / program)
    if prefix == Path("/usr"):
        shutil.copy(python, folder / "usr/bin/python3")
    else:
        (folder / str(prefix).lstrip("/")).mkdir(parents=True)
        (folder / "usr/bin/python3").symlink_to(python)
    return folder


def run_in(root: Path, *argv: str, cwd: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run `argv` where `root` is `/`; skip the test if this machine allows no mount namespace."""
    unshare = ("unshare", "--mount", "--propagation=private")
    if not shutil.which("unshare") or subprocess.run((*unshare, "true"), check=False, capture_output=True).returncode:
        pytest.skip("needs the right to mount (unshare --mount)")
    index = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_", "SSL_"))}
    settings = {**index, "PATH": "/usr/bin", "HOME": str(cwd / "home"), **env}
    inside = ("env", "-i", *(f"{name}={value}" for name, value in settings.items()), *argv)
    script = " && ".join((*_mounts(root), f'exec chroot {root} sh -c \'cd "$0" && exec "$@"\' {cwd} "$@"'))
    line = (*unshare, "sh", "-c", script, "sh", *inside)
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=300)


def _mounts(root: Path) -> Iterator[str]:
    python = (root / "usr/bin/python3").readlink() if (root / "usr/bin/python3").is_symlink() else None
    prefix = (str(python.parents[1]).lstrip("/"),) if python else ()
    yield from (f"mount --rbind /{name} {root}/{name}" for name in (*BOUND, *prefix))


@contextlib.contextmanager
def python_server(folder: Path) -> Iterator[str]:
    """Serve this machine's Python 3.12 on loopback as uv's download; yield the URL of the list of downloads.

    source: uv@0.9 crates/uv-python/download-metadata.json.
    """
    archive = folder / "python.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        for path, name in python_files(prefix_of("3.12")):
            tar.add(path, f"python/{name}", recursive=False)
        link = tarfile.TarInfo("python/bin/python3")
        link.type, link.linkname = tarfile.SYMTYPE, "python3.12"
        tar.addfile(link)
    handler = functools.partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        address = f"http://127.0.0.1:{server.server_port}"
        listed = _download(f"{address}/{archive.name}", hashlib.sha256(archive.read_bytes()).hexdigest())
        (folder / "downloads.json").write_text(json.dumps(listed))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"{address}/downloads.json"
        server.shutdown()


def _download(url: str, sha256: str) -> dict[str, object]:
    family = platform.machine()
    row = {
        "name": "cpython",
        "arch": {"family": family, "variant": None},
        "os": "linux",
        "libc": "gnu",
        "major": 3,
        "minor": 12,
        "patch": 1,
        "prerelease": "",
        "url": url,
        "sha256": sha256,
        "variant": None,
        "build": "20240107",
    }
    return {MANAGED: row}


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files and logs nothing."""

    def log_message(self, format: str, *args: object) -> None:
        pass
