"""Small images for tests: a context written to a folder, as the build that makes an image of it."""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tests.engine.daemon import Engine as RunningEngine
from xsft.image.build import Build, run_build
from xsft.image.context import ContextFile
from xsft.image.engine import Engine, EngineImage

FROM_NOTHING = "FROM scratch\nCOPY data /data\n"


def context(folder: Path, files: Mapping[str, bytes | str]) -> tuple[ContextFile, ...]:
    """Write the files, and say what they are."""
    return tuple(_written(folder, name, content) for name, content in files.items())


def step(
    folder: Path,
    files: Mapping[str, bytes | str],
    *,
    dockerfile: str = FROM_NOTHING,
    name: str = "xsft-test/step:1",
    args: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    pip_config: Path | None = None,
) -> Build:
    return Build(
        what="the test image",
        name=name,
        files=context(folder, {"Dockerfile": dockerfile, **files}),
        args=args or {},
        labels=labels or {},
        pip_config=str(pip_config) if pip_config else None,
    )


def built(build: Build, engine: Engine, *, on_line: Callable[[str], None] = lambda _: None) -> EngineImage:
    """Build it on the engine, with the docker command that the engine's environment has."""
    run_build(build, engine=engine, on_line=on_line)
    image = engine.image(build.name)
    assert image
    return image


def found_in_image(engine: RunningEngine, image: str, needles: Iterable[str], *, folder: Path) -> list[str]:
    """Return the needles that are in the image: docker save writes every layer uncompressed, with its names and
    attributes, and the configuration with the history.
    """
    saved = folder / "saved.tar"
    engine.docker("save", "--output", str(saved), image)
    with saved.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return [needle for needle in needles if content.find(needle.encode()) >= 0]


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
