"""The files that a workload's data is read from, and a digest of their content."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from xsft.base.errors import SpecError
from xsft.base.problems import error
from xsft.catalog.data import located
from xsft.data.preparation import RowSource
from xsft.machine.byte_progress import ByteProgress, pieces_of
from xsft.spec.paths import FILE_FORMATS


class SourceContent(Struct, frozen=True, kw_only=True):
    """One source, as it is on this machine."""

    load: dict[str, Any]
    """Arguments of datasets.load_dataset, except `streaming`."""
    files: tuple[Path, ...] = ()
    """Every file that determines the content; empty for a data set of the hub."""

    @property
    def commit(self) -> str | None:
        """Return the commit of a data set of the hub, once it is known."""
        return self.load.get("revision")


def located_source(source: RowSource) -> SourceContent:
    """Return the source's files. Raises SpecError if they are not on this machine."""
    common = {"split": source.split, "name": source.name, "data_dir": source.data_dir}
    if source.on_hub:
        return SourceContent(load={"path": source.path, **common, "data_files": source.files})
    if source.path in FILE_FORMATS:
        files = _matching_files(source.files or "")
        load = {"path": source.path, **common, "data_files": [str(file) for file in files]}
        return SourceContent(load=load, files=files)
    folder = Path(located(source.path)).expanduser().absolute()
    if not folder.is_dir():
        raise _unreadable(
            "data.hf_path", f"{folder} is not a folder", "Set data.hf_path to the folder of the data set."
        )
    load = {"path": str(folder), **common, "data_files": source.files}
    return SourceContent(load=load, files=tuple(_files_below(folder)))


def digest(content: SourceContent, *, say: Callable[[str], None]) -> str:
    """Return the digest: of the names and bytes of a folder's files, of the bytes of named files, or the commit of a
    data set of the hub. Raises SpecError if a file cannot be read.
    """
    if content.commit:
        return content.commit
    whole = hashlib.sha256()
    folder = Path(content.load["path"])
    progress = ByteProgress(say, total=sum(file.stat().st_size for file in content.files), verb="digested")
    for file in content.files:
        name = str(file.relative_to(folder)) if folder.is_absolute() else ""
        whole.update(f"{name}\0{_digest_of(file, progress)}\n".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def stamps(contents: Sequence[SourceContent]) -> tuple[tuple[int, int], ...]:
    """Return values that change when a file is written."""
    found = (file.stat() for content in contents for file in content.files)
    return tuple((one.st_size, one.st_mtime_ns) for one in found)


def _matching_files(pattern: str) -> tuple[Path, ...]:
    path = located(pattern)
    if not path:
        fix = "Set data.hf_train_files, or --set data.hf_train_files=FILE."
        raise _unreadable("data.hf_train_files", "No files are named", fix)
    if "://" in path:
        fix = "Copy them here (`gcloud storage cp`), and name the copy: --set data.hf_train_files=FILE."
        raise _unreadable("data.hf_train_files", f"{path} is not on this machine", fix)
    found = tuple(Path(file).absolute() for file in sorted(glob.glob(os.path.expanduser(path), recursive=True)))
    if not found:
        message = f"No file matches {path}" if glob.has_magic(path) else f"{path} does not exist"
        raise _unreadable(
            "data.hf_train_files", message, "Correct the path; a relative one starts from the workload's folder."
        )
    return found


def _files_below(folder: Path) -> Iterator[Path]:
    """Yield the regular files, without hidden ones, as `datasets` does."""
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(root, name) for name in sorted(names) if not name.startswith("."))


def _digest_of(file: Path, progress: ByteProgress) -> str:
    content = hashlib.sha256()
    try:
        for piece in pieces_of(file, progress):
            content.update(piece)
        return content.hexdigest()
    except OSError as failed:
        message = f"{file} cannot be read: {failed.strerror}"
        raise _unreadable("data.hf_train_files", message, "Check its permissions (ls -l).") from None


def _unreadable(where: str, message: str, fix: str) -> SpecError:
    return SpecError((error("data-unreadable", where, f"{message}.", fix),))
