"""Reads images/ and the folders of a user's own code, and packs files as a tar: a build context, or a layer. The same
files give the same bytes, whatever the user and the time.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from xsft.base.errors import EnvironmentMissing, Refused, UsageError, refuse_errors
from xsft.base.problems import Problem
from xsft.image.code_layer import RECORD, Layer, digest_of
from xsft.image.context import (
    NEVER,
    ContextFile,
    accept_problems,
    context_problems,
    dockerfile_arguments,
    ignore_matcher,
    secret_in,
)
from xsft.image.options import BuildOptions
from xsft.image.recipe import DOCKERFILE, LOCK_FILE, ImageFiles
from xsft.machine.regular import read_text
from xsft.workers.delivery import ARCHIVE, programs_archive, programs_digest

FOLDER = "images"
CODE_DOCKERFILE = "code.Dockerfile"
"""Dockerfile of the code in images of earlier versions."""
PIN = re.compile(r"^([a-z0-9][-a-z0-9.]*)==([0-9][0-9A-Za-z.]*)", re.MULTILINE)
MTIME_S = 315_619_200
"""1980-01-02T00:00:00Z. Not 0: a zip (so a wheel, if one is built from the context) cannot hold a time before 1980, in
any time zone.
"""
SCANNED = 1 << 20
"""Maximum size of a file that is searched for secrets, in bytes; larger files are data."""


def images_folder(start: Path, name: str) -> Path | None:
    """Return the images/ at or above `start` that has this image or its lock, or None."""
    for folder in (start, *start.parents):
        images = folder / FOLDER
        if (images / name / DOCKERFILE).is_file() or (images / f"{name}.lock.json").exists():
            return images
    return None


def image_names(start: Path) -> tuple[str, ...]:
    """Return every image of the nearest images/ that has one."""
    for folder in (start, *start.parents):
        names = sorted(path.parent.name for path in (folder / FOLDER).glob(f"*/{DOCKERFILE}"))
        if names:
            return tuple(names)
    return ()


def find_images(start: Path, name: str) -> Path:
    """Return the images/ that has a folder of this name. Raises UsageError with the names that exist."""
    images = images_folder(start, name)
    if images and (images / name).is_dir():
        return images
    hint = f"Known: {', '.join(image_names(start)) or 'none'}."
    raise UsageError(
        f"Image not found: {name!r} under images/ here or above has no {DOCKERFILE}. {hint}",
        fix="Choose one by its name with --image, or change to the project's folder.",
        id="image-unknown",
    )


def read_image_files(images: Path, image: str, options: BuildOptions, trees: Mapping[str, Path]) -> ImageFiles:
    """Return what the image is made from. `trees`: by package, the source tree that replaces the installed one. Raises
    as `read_context` and `read_code` do.
    """
    folder = images / image
    return ImageFiles(
        context=read_context(folder),
        arguments=dockerfile_arguments(_dockerfile_text(folder)),
        packages=dict(PIN.findall(_text_or_empty(folder / LOCK_FILE))),
        code=read_code([images.parent / path for path in options.code], trees),
    )


def read_context(folder: Path) -> tuple[ContextFile, ...]:
    """Return the context of the dependencies: the files beside the Dockerfile that its ignore file lets through. Raises
    UsageError if there is no Dockerfile, or one that this version cannot use.
    """
    if (folder / CODE_DOCKERFILE).exists():
        raise UsageError(
            f"{folder / CODE_DOCKERFILE} is not used any more: xsft adds the code as a layer, without an engine.",
            fix=f"Move what it installs into {DOCKERFILE}, and remove it.",
            id="image-dockerfile",
        )
    if f"/{RECORD}" not in _dockerfile_text(folder):  # without it an image cannot be told from another one
        raise UsageError(
            f"{folder / DOCKERFILE} writes no /{RECORD}, by which xsft knows the image and what it has installed.",
            fix="Add its last step from images/post_training/Dockerfile (README.md there, Interface).",
            id="image-dockerfile",
        )
    own_rules = f"{DOCKERFILE}.dockerignore"  # of this Dockerfile alone: it takes the place of the other
    is_excluded = ignore_matcher(_text_or_empty(folder / own_rules) or _text_or_empty(folder / ".dockerignore"))

    def ignored(path: str) -> bool:
        return path != DOCKERFILE and (path == own_rules or is_excluded(path))

    return _read_tree(folder, prefix="", ignored=ignored)


def read_code(folders: Iterable[Path], trees: Mapping[str, Path]) -> tuple[ContextFile, ...]:
    """Return the files of the code: the user's folders, the packages that replace installed ones (by name, from a
    checkout), and xsft's programs. Raises UsageError for two files with one path, and for a tree without its package.
    """
    files: dict[str, ContextFile] = {}
    for folder in folders:
        for file in _read_user_tree(folder, prefix="code"):
            if file.path in files:
                raise UsageError(
                    f"{file.path} is given twice: {file.source} and {files[file.path].source}.",
                    fix="Give one of them.",
                    id="image-source",
                )
            files[file.path] = file
    packages = [file for name, root in trees.items() for file in _read_package(root, name)]
    programs = programs_archive()
    archive = ContextFile(
        path=f"xsft/{ARCHIVE}", kind="file", size=len(programs), sha256=programs_digest(), content=programs
    )
    return (*files.values(), *packages, archive)


def refuse_content(files: Sequence[ContextFile], *, accept: Sequence[str], searched: str = "") -> tuple[Problem, ...]:
    """Return the warnings about files for an image; those below `searched` are searched for secrets. Raises SpecError
    with all errors that are not accepted, EnvironmentMissing if a file cannot be read.
    """
    kinds = {file.path: _secret_in(file) for file in files if file.path.startswith(searched)}
    return refuse_errors(accept_problems(context_problems(files, secrets=kinds), accept))


def write_tar(files: Sequence[ContextFile], into: IO[bytes]) -> None:
    """Write the tar. Raises Refused if a file has changed since it was hashed: the tag would name other bytes."""
    with tarfile.open(fileobj=into, mode="w|", format=tarfile.PAX_FORMAT, bufsize=1 << 16) as tar:
        # Every folder above a file, before its content: an engine makes missing ones unreadable to others.
        folders = {str(folder) for file in files for folder in PurePosixPath(file.path).parents}
        for folder in sorted(folders - {"."}):
            entry = _entry(folder)
            entry.type = tarfile.DIRTYPE
            entry.mode = 0o755
            tar.addfile(entry)
        for file in sorted(files, key=lambda file: file.path):
            _add(tar, file)


def layer_archive(files: Sequence[ContextFile]) -> tuple[Layer, bytes]:
    """Return the files as a layer, in memory, with its digests. Raises as `write_tar` does."""
    tar = io.BytesIO()
    write_tar(files, tar)
    archive = io.BytesIO()
    # filename and time are in gzip's header; empty, they differ between no two machines
    with gzip.GzipFile(filename="", mode="wb", fileobj=archive, mtime=0) as packing:
        packing.write(tar.getbuffer())
    content = archive.getvalue()
    return Layer(digest=digest_of(content), diff_id=digest_of(tar.getbuffer()), size=len(content)), content


def _dockerfile_text(folder: Path) -> str:
    try:
        return (folder / DOCKERFILE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as failed:
        raise UsageError(
            f"{folder / DOCKERFILE} cannot be read: {failed}.",
            fix=f"An image is a folder with {DOCKERFILE}, as images/post_training is.",
            id="image-dockerfile",
        ) from None


def _read_user_tree(root: Path, *, prefix: str) -> tuple[ContextFile, ...]:
    if not root.is_dir():
        raise UsageError(f"{root} is not a folder.", fix="Give the folder whose content you need.", id="image-source")
    return _read_tree(root, prefix=prefix, ignored=ignore_matcher(_text_or_empty(root / ".dockerignore")))


def _read_package(root: Path, name: str) -> tuple[ContextFile, ...]:
    """Return the package of a checkout, as `maxtext/…`: no other part of the checkout is needed."""
    for folder in (root / "src" / name, root / name):
        if (folder / "__init__.py").is_file():
            return _read_user_tree(folder, prefix=name)
    raise UsageError(
        f"{root} has no package {name}: neither src/{name}/__init__.py nor {name}/__init__.py exists.",
        fix=f"Give the root of a checkout of {name} with the current layout.",
        id="image-source",
    )


def _read_tree(root: Path, *, prefix: str, ignored: Callable[[str], bool]) -> tuple[ContextFile, ...]:
    """Return every file and link below `root`, without following links; `ignored` gets paths relative to `root`. Raises
    EnvironmentMissing if something cannot be read.
    """
    files = []
    for path, below in _walk(root, ""):
        if not ignored(below) and (file := _read_entry(path, str(PurePosixPath(prefix, below)), root=root)):
            files.append(file)
    return tuple(files)


def _walk(folder: Path, below: str) -> Iterator[tuple[Path, str]]:
    """Yield the paths of files and links, sorted. Ignored ones are included, because a later rule may include part of
    them again.
    """
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as failed:
        raise _unreadable_context(folder, failed) from None
    for entry in entries:
        path = f"{below}{entry.name}"
        if entry.name in NEVER or entry.name.endswith(".pyc"):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), f"{path}/")
        else:
            yield Path(entry.path), path


def _read_entry(path: Path, name: str, *, root: Path) -> ContextFile | None:
    """Return the entry; None for a socket, a pipe or a device, which no image can hold."""
    try:
        state = path.lstat()
        if stat.S_ISLNK(state.st_mode):
            target = os.readlink(path)
            end = Path(os.path.realpath(path))
            inside = not Path(target).is_absolute() and end.is_relative_to(os.path.realpath(root)) and end.exists()
            return ContextFile(path=name, kind="link", target=target, dangling=not inside)
        if not stat.S_ISREG(state.st_mode):
            return None
        with path.open("rb") as content:
            sha256 = hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as failed:
        raise _unreadable_context(path, failed) from None
    return ContextFile(
        path=name,
        kind="file",
        size=state.st_size,
        executable=bool(state.st_mode & stat.S_IXUSR),
        sha256=sha256,
        source=str(path.absolute()),
    )


def _secret_in(file: ContextFile) -> str:
    """Return the kind of secret that the content looks like; empty for none, and for a large file, which is data."""
    if file.size > SCANNED or not file.source:
        return ""
    try:
        return secret_in(Path(file.source).read_bytes())
    except OSError as failed:
        raise _unreadable_context(Path(file.source), failed) from None


def _text_or_empty(path: Path) -> str:
    try:
        return read_text(path, errors="surrogateescape")
    except OSError:
        return ""


def _unreadable_context(path: Path, failed: OSError) -> EnvironmentMissing:
    return EnvironmentMissing(
        f"{path} cannot be read: {failed.strerror}.",
        fix="Make it readable, or exclude it in .dockerignore.",
        id="image-context-unreadable",
    )


def _entry(path: str) -> tarfile.TarInfo:
    """Return an entry with owner root and one time, so that differences between two users' checkouts do not change
    the image.
    """
    entry = tarfile.TarInfo(path)
    entry.mtime = MTIME_S  # its owner is root, as of any new entry
    return entry


def _add(tar: tarfile.TarFile, file: ContextFile) -> None:
    entry = _entry(file.path)
    if file.kind == "link":
        entry.type = tarfile.SYMTYPE
        entry.mode = 0o777
        entry.linkname = file.target or ""
        tar.addfile(entry)
        return
    entry.size = file.size
    entry.mode = 0o755 if file.executable else 0o644
    if not file.source:
        tar.addfile(entry, io.BytesIO(file.content))
        return
    try:
        with Path(file.source).open("rb") as source:
            if file.sha256 and hashlib.file_digest(source, "sha256").hexdigest() != file.sha256:
                raise _changed(file, "its content is different")
            source.seek(0)
            tar.addfile(entry, source)
    except OSError as failed:  # also if the file's end comes too early
        raise _changed(file, failed.strerror or "it became shorter") from None


def _changed(file: ContextFile, why: str) -> Refused:
    return Refused(
        f"{file.path} changed while the image was built: {why}.",
        fix="Build again once no process writes to the context.",
        id="context-changed",
    )
