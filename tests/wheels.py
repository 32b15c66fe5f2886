"""A tiny package and its lock, made on the spot: environments are built for real, with no index and no network."""

from __future__ import annotations

import base64
import hashlib
import os
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from xsft.environments.envbuild import BuildPlace
from xsft.environments.installed import EnvironmentSpec

METADATA = "Metadata-Version: 2.1\nName: tinything\nVersion: 1.0\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
ENTRY_POINTS = "[console_scripts]\ntinything = tinything:main\n"


@dataclass(frozen=True, kw_only=True)
class Shop:
    """A folder of wheels that uv takes packages from."""

    folder: Path
    lock: str

    @classmethod
    def open(cls, folder: Path, *, payload: int = 0) -> Shop:
        """`payload`: bytes that do not compress, for a package larger than a disk."""
        wheel = write_wheel(folder, payload=payload)
        return cls(folder=folder, lock=f"tinything==1.0 \\\n    --hash=sha256:{_sha256(wheel.read_bytes())}\n")

    def place(self, root: Path) -> BuildPlace:
        env = {"PATH": os.environ["PATH"], "UV_CACHE_DIR": str(root / "uv"), "UV_OFFLINE": "1"}
        env |= {"UV_FIND_LINKS": str(self.folder), "UV_NO_INDEX": "1", "HOME": str(root)}
        return BuildPlace(cache=root / "envs", env=env)

    def spec(self, *, lock: str = "") -> EnvironmentSpec:
        file = self.folder / f"{_sha256((lock or self.lock).encode())}.txt"
        file.write_text(lock or self.lock)
        return EnvironmentSpec(
            name="tiny",
            lock=file,
            pythons=(f"3.{sys.version_info.minor}",),
            package="tinything",
            scripts=("tinything",),
            imports=("tinything.part",),
        )


def write_wheel(folder: Path, *, payload: int) -> Path:
    files = {
        "tinything/__init__.py": b"def main():\n    print('tiny 1.0')\n",
        "tinything/part.py": b"",
        "tinything/payload.bin": os.urandom(payload),
        "tinything-1.0.dist-info/METADATA": METADATA.encode(),
        "tinything-1.0.dist-info/WHEEL": WHEEL.encode(),
        "tinything-1.0.dist-info/entry_points.txt": ENTRY_POINTS.encode(),
    }
    record = "tinything-1.0.dist-info/RECORD"
    rows = [f"{name},sha256={_record_hash(data)},{len(data)}" for name, data in files.items()]
    files[record] = "\n".join([*rows, f"{record},,", ""]).encode()
    path = folder / "tinything-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _record_hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
