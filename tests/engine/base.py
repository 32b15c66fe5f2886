"""A base image made on this machine: minimal Debian with a CPython 3.12, in the place of `python:3.12-slim`.

No hub can be reached from where the tests run. Debian comes from wherever this machine's apt has it, CPython 3.12 is a
copy of the one that MaxText's environment would take. Facts: infra study §6.
"""

from __future__ import annotations

import configparser
import hashlib
import io
import json
import os
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.engine.daemon import Engine
from tests.engine.machine import which
from xsft.environments import envbuild
from xsft.machine.filelock import exclusive
from xsft.machine.process import own_environment

SERIES = "3.12"
PACKAGES = (
    *("ca-certificates", "libssl3", "libffi8", "libsqlite3-0", "libbz2-1.0", "liblzma5", "zlib1g", "libreadline8"),
    *("libncursesw6", "libgomp1", "libstdc++6", "libuuid1", "libexpat1"),
)
RECIPE = 1
"""Raised when what `_make_rootfs` does changes: the cached tar is then made anew."""

CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
ROOTFS_TAG = "xsft-tests-rootfs"
BASE_TAG = "xsft-tests-base"

DOCKERFILE = f"""\
ARG ROOTFS
FROM $ROOTFS
ENV SSL_CERT_FILE={CERTIFICATES} PIP_CERT={CERTIFICATES} REQUESTS_CA_BUNDLE={CERTIFICATES}
ADD files.tar /
RUN ldconfig && ln -sf python3.12 /usr/local/bin/python3 && python3 -m ensurepip && \
    python3 -c 'import bz2, ctypes, lzma, readline, sqlite3, ssl, zlib'
"""


class NoBase(Exception):
    """The base cannot be made here; the message says why."""


@dataclass(frozen=True)
class BaseImage:
    reference: str
    """A tag in the engine only, for `BASE_IMAGE`."""
    pip_conf: str
    """How this machine's pip reaches its index, for the secret `pip_conf`; empty where nothing is set."""


def make(engine: Engine, cache: Path) -> BaseImage:
    """Make the base in `engine`; Debian's part is kept in `cache`. Raises NoBase."""
    python = envbuild.find_python(SERIES, own_environment())
    if python is None:
        raise NoBase("no CPython 3.12 for the base image: install it (pyenv install 3.12, uv python install 3.12)")
    engine.docker("import", str(rootfs(cache)), ROOTFS_TAG)
    context = _tar({"Dockerfile": DOCKERFILE.encode(), "files.tar": _files(python)})
    built = engine.docker(
        "build", "-q", "-t", BASE_TAG, "--build-arg", f"ROOTFS={ROOTFS_TAG}", "-", input=context, check=False
    )
    if built.returncode:
        raise NoBase(f"{python} does not run in a minimal Debian: {built.stderr[-400:]}")
    return BaseImage(reference=BASE_TAG, pip_conf=pip_conf(own_environment()))


def rootfs(cache: Path) -> Path:
    """Tar of a minimal Debian of this machine's own release, made once (20 to 90 s). Raises NoBase.

    Its name holds what it was made from, not the day: it is a base for tests, and no product.
    """
    sources = _debian_sources()
    asked = {"recipe": RECIPE, "packages": PACKAGES, "suites": sorted({source["codename"] for source in sources})}
    key = hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:12]
    file = cache / f"rootfs-{key}.tar"
    with exclusive(cache / f"rootfs-{key}.lock", waiting=lambda: None):
        if not file.exists():
            _make_rootfs(file, sources)
    return file


def pip_conf(env: Mapping[str, str]) -> str:
    """Return this machine's index settings as a pip.conf; without paths, which mean nothing in an image.

    source: pip documentation, "Configuration": PIP_<OPTION> wins over the files.
    """
    listed = subprocess.run(
        (which("python3") or "python3", "-m", "pip", "config", "list"), capture_output=True, text=True, check=False
    )
    pairs = (line.partition("=") for line in listed.stdout.splitlines())
    configured = {name.split(".", 1)[-1]: value.strip("'") for name, _, value in pairs}
    wished = {name: env.get(f"PIP_{name.upper().replace('-', '_')}") or configured.get(name) for name in _INDEX_OPTIONS}
    options = {name: value for name, value in wished.items() if value}
    if not options:
        return ""
    parser = configparser.RawConfigParser()
    parser["global"] = options
    parser.write(text := io.StringIO())
    return text.getvalue()


_INDEX_OPTIONS = ("index-url", "extra-index-url", "trusted-host", "timeout", "retries")


def _debian_sources() -> list[dict[str, str]]:
    """Debian's own repositories as apt has them here. Raises NoBase where it has none."""
    fields = {"origin": "ORIGIN", "codename": "CODENAME", "component": "COMPONENT", "uri": "REPO_URI"}
    asked = ("indextargets", "--format", "\t".join(f"$({name})" for name in fields.values()), "Created-By: Packages")
    stdout = subprocess.run((which("apt-get") or "apt-get", *asked), capture_output=True, text=True, check=False).stdout
    rows = (dict(zip(fields, line.split("\t"), strict=True)) for line in stdout.splitlines())
    if debian_rows := [row for row in rows if row["origin"] == "Debian"]:
        return debian_rows
    raise NoBase("apt has no list of Debian's packages here: `apt-get update` once, on Debian")


def _make_rootfs(file: Path, sources: list[dict[str, str]]) -> None:
    if not which("mmdebstrap"):
        raise NoBase("the base image needs mmdebstrap (Debian package of that name)")
    suite = min((source["codename"] for source in sources), key=len)
    lines = [f"deb {source['uri']} {source['codename']} {source['component']}" for source in sources]
    unfinished = file.with_suffix(".unfinished.tar")
    forget = "rm -f $1/etc/apt/sources.list $1/etc/resolv.conf $1/etc/hostname"
    argv = ("mmdebstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", f"--customize-hook={forget}")
    done = subprocess.run((*argv, suite, str(unfinished), *lines), capture_output=True, text=True, check=False)
    if done.returncode:
        unfinished.unlink(missing_ok=True)
        raise NoBase(f"mmdebstrap failed: {done.stderr[-600:]}")
    unfinished.replace(file)


def _files(python: Path) -> bytes:
    """A tar of what is laid over the Debian: CPython under /usr/local, and the certificates this machine trusts."""
    with tarfile.open(fileobj=(laid := io.BytesIO()), mode="w") as tar:
        prefix = Path(_said(python, "import sys; print(sys.base_prefix)"))
        for path, name in python_files(prefix):
            tar.add(path, f"usr/local/{name}", recursive=False, filter=_as_root)
        trusted = Path(os.environ.get("SSL_CERT_FILE") or CERTIFICATES)
        if trusted.is_file():
            _add(tar, CERTIFICATES.lstrip("/"), trusted.read_bytes())
    return laid.getvalue()


def python_files(prefix: Path) -> Iterator[tuple[Path, str]]:
    """Interpreter, shared library, standard library; not its tests, static library, site-packages or byte code."""
    series = f"python{SERIES}"
    yield prefix / "bin" / series, f"bin/{series}"
    for library in sorted((prefix / "lib").glob(f"lib{series}*.so*")):
        yield library, f"lib/{library.name}"
    standard = prefix / "lib" / series
    for folder, folders, files in os.walk(standard):
        folders[:] = sorted(set(folders) - _LEFT_OUT - {f for f in folders if f.startswith("config-")})
        for name in sorted(files):
            path = Path(folder) / name
            yield path, f"lib/{path.relative_to(prefix / 'lib')}"


_LEFT_OUT = {
    "__pycache__",
    "test",
    "tests",
    "site-packages",
    "dist-packages",
    "idlelib",
    "tkinter",
    "turtledemo",
    "lib2to3",
}


def _as_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


def _tar(files: Mapping[str, bytes]) -> bytes:
    with tarfile.open(fileobj=(packed := io.BytesIO()), mode="w") as tar:
        for name, content in files.items():
            _add(tar, name, content)
    return packed.getvalue()


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), 0o644
    tar.addfile(member, io.BytesIO(content))


def _said(python: Path, code: str) -> str:
    return subprocess.run((str(python), "-I", "-c", code), capture_output=True, text=True, check=True).stdout.strip()
