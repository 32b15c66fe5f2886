"""Reads images/ and the folders of a user's own code into a recipe's material."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from xsft.base.errors import EnvironmentMissing, UsageError
from xsft.image.context import ALWAYS_IGNORED, LIMIT, arguments
from xsft.image.ignore import IgnoreMatcher, ignore_matcher
from xsft.image.model import ContextFile, DockerfilePart
from xsft.image.recipe import CODE_DOCKERFILE, DEPS_DOCKERFILE, EVALUATE_ARG, EVALUATE_FILE
from xsft.machine.files import write_atomic
from xsft.machine.paths import own_cache, private_folder
from xsft.machine.regular import read_bytes
from xsft.workers.evaluation_archive import program_archive

FOLDER = "images"
OVERLAYS = ("code", "maxtext", "tunix")
"""Folders of the code's context that always exist, empty if nothing is put into them."""


def images_folder(start: Path, name: str) -> Path | None:
    """Return the images/ at or above `start` that has this image or its lock, or None."""
    for folder in (start, *start.parents):
        here = folder / FOLDER
        if (here / name / DEPS_DOCKERFILE).is_file() or (here / f"{name}.lock.json").is_file():
            return here
    return None


def folder_under_images(start: Path, name: str) -> Path | None:
    """Return the nearest images/NAME at or above `start`, whatever its content, or None."""
    return next((at for folder in (start, *start.parents) if name and (at := folder / FOLDER / name).is_dir()), None)


def hash_large_files(part: DockerfilePart) -> DockerfilePart:
    """Return the part with the hashes that were left out because of a file's size. Raises EnvironmentMissing as
    `read_tree` does.
    """
    return replace(part, files=tuple(map(_hash_file, part.files)))


def image_names(start: Path) -> tuple[str, ...]:
    """Return every image of the nearest images/ that has one."""
    for folder in (start, *start.parents):
        found = sorted(path.parent.name for path in (folder / FOLDER).glob(f"*/{DEPS_DOCKERFILE}"))
        if found:
            return tuple(found)
    return ()


def deps_part(folder: Path) -> DockerfilePart:
    """Return the dependencies' Dockerfile and its context. Raises UsageError if there is none."""
    return _dockerfile_part(folder, DEPS_DOCKERFILE, own=_own_files(folder, DEPS_DOCKERFILE))


def code_part(
    folder: Path, *, code: tuple[Path, ...] = (), maxtext: Path | None = None, tunix: Path | None = None
) -> DockerfilePart:
    """Return the code's Dockerfile and its context, with the folders laid over it, and the evaluation program if the
    Dockerfile takes one. Raises UsageError for two files with one path, and for a source without its package.
    """
    laid = [
        *(_tree(path, prefix="code") for path in code),
        *((_package(maxtext, "maxtext"),) if maxtext else ()),
        *((_package(tunix, "tunix"),) if tunix else ()),
    ]
    empty = (ContextFile(path=name, kind="folder") for name in OVERLAYS)
    files = {f.path: f for f in (*_own_files(folder, CODE_DOCKERFILE), *empty)}
    for tree in laid:
        for f in tree:
            if f.path in files and f.kind != "folder":
                raise UsageError(
                    f"{f.path} is given twice: {f.source or f.path} and {files[f.path].source or files[f.path].path}.",
                    fix="Give one of them.",
                    id="image-source",
                )
            files[f.path] = f
    part = _dockerfile_part(folder, CODE_DOCKERFILE, own=tuple(files.values()))
    if EVALUATE_ARG not in part.args:
        return part
    program = context_file(program_archive(), path=EVALUATE_FILE, cache=own_cache() / "image-programs")
    return replace(part, files=(*part.files, program))


def context_file(content: bytes, *, path: str, cache: Path) -> ContextFile:
    """Return content as a file of a context, which is sent from files. `path`: in the context.

    Raises EnvironmentMissing as `write_atomic` does.
    """
    sha256 = hashlib.sha256(content).hexdigest()
    at = cache / f"{sha256}{Path(path).suffix}"
    if not at.exists() or read_bytes(at) != content:
        with suppress(OSError):  # the write below raises the reason
            private_folder(cache)
        write_atomic(at, content)
    return ContextFile(path=path, kind="file", size=len(content), sha256=sha256, source=str(at.absolute()))


def read_tree(root: Path, *, prefix: str = "", ignored: IgnoreMatcher = lambda _path: False) -> Iterator[ContextFile]:
    """Yield every file, link and folder below `root`, without following links; `ignored` gets paths relative to `root`.
    Raises EnvironmentMissing if something cannot be read.
    """
    for path, below in _walk(root, ""):
        if not ignored(below):
            found = _context_entry(path, f"{prefix}/{below}" if prefix else below, root=root)
            if found is not None:
                yield found


def _dockerfile_part(folder: Path, dockerfile: str, *, own: tuple[ContextFile, ...]) -> DockerfilePart:
    try:
        text = (folder / dockerfile).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as failed:
        raise UsageError(
            f"{folder / dockerfile} cannot be read: {failed}.",
            fix=f"An image is a folder with {DEPS_DOCKERFILE} and {CODE_DOCKERFILE}, as images/post_training is.",
            id="image-dockerfile",
        ) from None
    return DockerfilePart(dockerfile=dockerfile, args=arguments(text), files=own)


def _own_files(folder: Path, dockerfile: str) -> tuple[ContextFile, ...]:
    """Return the files beside the Dockerfile that its own ignore file lets through; never the other Dockerfile's."""
    rules = _text_of_file(folder / f"{dockerfile}.dockerignore") or _text_of_file(folder / ".dockerignore")
    ignored = ignore_matcher(ALWAYS_IGNORED, rules)
    others = {f"{name}.dockerignore" for name in (DEPS_DOCKERFILE, CODE_DOCKERFILE)} | {".dockerignore"}
    found = read_tree(folder, ignored=lambda path: path != dockerfile and (path in others or ignored(path)))
    return tuple(f for f in found if f.kind != "folder")


def _tree(root: Path, *, prefix: str) -> tuple[ContextFile, ...]:
    if not root.is_dir():
        raise UsageError(f"{root} is not a folder.", fix="Give the folder whose content you need.", id="image-source")
    ignored = ignore_matcher(ALWAYS_IGNORED, _text_of_file(root / ".dockerignore"))
    found = read_tree(root, prefix=prefix, ignored=lambda path: path == ".dockerignore" or ignored(path))
    return tuple(f for f in found if f.kind != "folder")


def _package(root: Path, name: str) -> tuple[ContextFile, ...]:
    """Return the package of a checkout (`src/maxtext`, `tunix`) as `maxtext/maxtext/…`: no other part of the checkout
    is needed.
    """
    found = next((path for path in (root / "src" / name, root / name) if (path / "__init__.py").is_file()), None)
    if found is None:
        raise UsageError(
            f"{root} has no package {name}: neither src/{name}/__init__.py nor {name}/__init__.py exists.",
            fix=f"Give the root of a checkout of {name} with the current layout.",
            id="image-source",
        )
    return tuple(replace(f, path=f"{name}/{f.path}") for f in _tree(found, prefix=name))


def _text_of_file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _walk(folder: Path, below: str) -> Iterator[tuple[Path, str]]:
    """Yield paths sorted, a folder before its content. Ignored paths are included, because a later rule may include
    part of them again.
    """
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as failed:
        raise context_unread(folder, failed) from None
    for entry in entries:
        if entry.name in {".git", ".venv", "__pycache__"}:  # thousands of files, and never in an image
            continue
        path = f"{below}{entry.name}"
        yield Path(entry.path), path
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), f"{path}/")


def _context_entry(path: Path, name: str, *, root: Path) -> ContextFile | None:
    """Return the entry; None for a socket, a pipe or a device, which no image can hold."""
    try:
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode):
            return _link(path, name, root=root)
        if stat.S_ISDIR(found.st_mode):
            return ContextFile(path=name, kind="folder")
        return _file_entry(path, name, found) if stat.S_ISREG(found.st_mode) else None
    except OSError as failed:
        raise context_unread(path, failed) from None


def _link(path: Path, name: str, *, root: Path) -> ContextFile:
    target = os.readlink(path)
    leads = Path(os.path.realpath(path))
    inside = not Path(target).is_absolute() and leads.is_relative_to(os.path.realpath(root)) and leads.exists()
    return ContextFile(path=name, kind="link", target=target, dangling=not inside)


def _file_entry(path: Path, name: str, found: os.stat_result) -> ContextFile:
    """Return the file's entry. A file too large to be included by default is not read yet: its size is reported at
    once.
    """
    return ContextFile(
        path=name,
        kind="file",
        size=found.st_size,
        executable=bool(found.st_mode & stat.S_IXUSR),
        sha256=_sha256(path) if found.st_size <= LIMIT else "",
        source=str(path.absolute()),
    )


def _hash_file(f: ContextFile) -> ContextFile:
    try:
        return replace(f, sha256=_sha256(Path(f.source))) if f.kind == "file" and not f.sha256 else f
    except OSError as failed:
        raise context_unread(Path(f.source), failed) from None


def _sha256(path: Path) -> str:
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def context_unread(path: Path, failed: OSError) -> EnvironmentMissing:
    return EnvironmentMissing(
        f"{path} cannot be read: {failed.strerror}.",
        fix="Make it readable, or exclude it in .dockerignore.",
        id="image-context-unreadable",
    )
