"""A stand-in for MaxText and Tunix of a few kilobytes, its lock, and a package index that asks for a login.

With them the real build files are driven in seconds instead of minutes.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import io
import subprocess
import venv
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import ModuleType

from tests.fakes.loopback import serving_http
from xsft.machine.filelock import exclusive

BUILD = Path(__file__).parents[2] / "images" / "post_training"
WHEEL = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
PACKAGES: Mapping[str, Mapping[str, str]] = {
    "maxtext": {"maxtext/__init__.py": "", "maxtext/train.py": "LOSS = 2\n", "maxtext/large.py": "# a line\n" * 50_000},
    "google_tunix": {"tunix/__init__.py": ""},
    "libtpu": {"libtpu/__init__.py": "", "libtpu/chip.py": "CHIPS = {'a', 'b', 'c', 'd'}\n"},
    "scipy": {"scipy/__init__.py": "", "scipy/fft.py": "def fft(x): return x in {'d', 'e', 'f'}\n"},
}


@dataclass
class Index:
    """A package index that runs."""

    url: str
    """Without the login."""
    host: str
    login: str
    """`USER:PASSWORD`."""
    wheels: Mapping[str, bytes]
    asked: list[tuple[str, bool]] = field(default_factory=list)
    """Path and whether the login came with it."""

    def pip_conf(self) -> str:
        scheme, _, address = self.url.partition("://")
        return (
            f"[global]\nindex-url = {scheme}://{self.login}@{address}/simple\ntrusted-host = {self.host}\nretries = 0\n"
        )

    def lock(self, *, newer: str = "") -> str:
        """A requirements.txt for the tiny packages: 9.9 of each, and 9.10 of `newer`."""
        rows = (
            f"{name.split('-')[0].replace('_', '-')}=={version} --hash=sha256:{_sha256(data)}\n"
            for name, data in self.wheels.items()
            for version in ("9.10" if newer == name.split("-")[0] else "9.9",)
            if f"-{version}-" in name
        )
        return "".join(rows)


@contextmanager
def index(host: str, *, login: str, uv: Path) -> Iterator[Index]:
    """An index on `host`, an address of this machine that builds can reach, with the wheel `uv` in it too."""
    wheels = {
        f"{name}-{version}-py3-none-any.whl": wheel(name, files, version=version)
        for name, files in PACKAGES.items()
        for version in ("9.9", "9.10")
    }
    wheels[uv.name] = uv.read_bytes()
    running = Index(url="", host=host, login=login, wheels=wheels)
    with serving_http(_Handler, host=host, index=running) as running.url:
        yield running


def uv_wheel(folder: Path) -> Path:
    """The wheel of uv that installer.txt names, in `folder`; fetched once from this machine's index."""
    lock = BUILD / "installer.txt"
    file = folder / f"uv-{_sha256(lock.read_bytes())[:12]}"
    argv = ("download", "--quiet", "--no-deps", "--require-hashes", "--dest", str(file), "--requirement", str(lock))
    with exclusive(file.with_suffix(".lock"), waiting=lambda: None):
        if not list(file.glob("uv-*.whl")):
            python = python_with_pip(file.with_suffix(".pip"))
            subprocess.run((str(python), "-m", "pip", *argv), check=True)
    return next(file.glob("uv-*.whl"))


def python_with_pip(folder: Path) -> Path:
    """Python of a new environment that has pip, as a base image's does; the tests' own, made by uv, has none."""
    venv.create(folder, clear=True, with_pip=True)
    return folder / "bin/python"


def wheel(name: str, files: Mapping[str, str], *, version: str = "9.9") -> bytes:
    info = f"{name}-{version}.dist-info"
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata = {f"{info}/METADATA": text, f"{info}/WHEEL": WHEEL}
    record = "".join(f"{path},,\n" for path in (*files, *metadata, f"{info}/RECORD"))
    with zipfile.ZipFile(packed := io.BytesIO(), "w") as archive:
        for path, content in {**files, **metadata, f"{info}/RECORD": record}.items():
            archive.writestr(zipfile.ZipInfo(path), content)
    return packed.getvalue()


def lay(folder: Path, files: Mapping[str, str]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


class _Handler(BaseHTTPRequestHandler):
    index: Index

    def do_GET(self) -> None:
        index = self.index
        expected = "Basic " + base64.b64encode(index.login.encode()).decode()
        is_authorized = self.headers.get("Authorization") == expected
        index.asked.append((self.path, is_authorized))
        name = self.path.strip("/").rpartition("/")[2]
        if not is_authorized:
            self._say(401, b"", {"WWW-Authenticate": 'Basic realm="tests"'})
        elif name in index.wheels:
            self._say(200, index.wheels[name])
        else:
            wheels_found = [wheel for wheel in index.wheels if wheel.split("-")[0].replace("_", "-") == name]
            self._say(200, "".join(f'<a href="/files/{wheel}">{wheel}</a>' for wheel in wheels_found).encode())

    def _say(self, code: int, body: bytes, headers: Mapping[str, str] = {}) -> None:
        self.send_response(code)
        for header, value in {"Content-Type": "text/html", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(header, value)
        self.end_headers()
        self.wfile.write(body)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def install_script() -> ModuleType:
    """Return images/post_training/install.py as a module."""
    spec = importlib.util.spec_from_file_location("install", BUILD / "install.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
