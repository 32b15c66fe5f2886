"""Small images for tests: a context written to a folder, as the step that builds it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from xsft.image.model import BuildSecret, BuildStep, ContextFile

FROM_NOTHING = "FROM scratch\nCOPY data /data\n"


def context(folder: Path, files: Mapping[str, bytes | str]) -> tuple[ContextFile, ...]:
    """Write the files, and say what they are."""
    return tuple(_written(folder, name, content) for name, content in files.items())


def step(
    folder: Path,
    files: Mapping[str, bytes | str],
    *,
    dockerfile: str = FROM_NOTHING,
    args: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    secrets: Mapping[str, Path] | None = None,
) -> BuildStep:
    return BuildStep(
        name="code",
        tag="code-test",
        dockerfile="Dockerfile",
        files=context(folder, {"Dockerfile": dockerfile, **files}),
        args=args or {},
        labels=labels or {},
        secrets=tuple(BuildSecret(id=name, file=str(path)) for name, path in (secrets or {}).items()),
    )


def noise(seed: str, size: int) -> bytes:
    """Bytes that do not compress, the same for the same seed."""
    return b"".join(hashlib.sha256(f"{seed}{n}".encode()).digest() for n in range(size // 32))


def _written(folder: Path, name: str, content: bytes | str) -> ContextFile:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(data)
    return ContextFile(
        path=name, kind="file", size=len(data), sha256=hashlib.sha256(data).hexdigest(), source=str(path)
    )
