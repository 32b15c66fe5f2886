"""`images/<name>.lock.json` on disk: read by `plan` and `submit`, written atomically after a build or push."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import TypeVar

from xsft.base.errors import Refused, UsageError, XsftError
from xsft.image.folders import image_names, images_folder, locked_versions, read_arguments, read_code, read_context
from xsft.image.lock import LockedImage, read_base, read_lock, same_image, update_lock, with_base
from xsft.image.options import BuildOptions
from xsft.image.recipe import Base, make_recipe, parse_base, repository_in
from xsft.machine.filelock import exclusive
from xsft.machine.files import write_atomic
from xsft.machine.paths import own_cache
from xsft.machine.regular import read_text
from xsft.spec.facts import ImageFacts

T = TypeVar("T")


def lock_file(images: Path, name: str) -> Path:
    """Return the path, beside the image's folder so that it is in no build context."""
    return images / f"{name}.lock.json"


def locked_images(images: Path, name: str) -> dict[str, LockedImage]:
    """Return the locked images by repository; empty without a lock. Raises UsageError, image-lock-unreadable."""
    return _read_lock_file(lock_file(images, name), read_lock) or {}


def pinned_base(images: Path, name: str) -> Base | None:
    """Return the base that all users build on; None before the first build. Raises UsageError,
    image-lock-unreadable.
    """
    return _read_lock_file(lock_file(images, name), read_base)


def keep_lock(images: Path, locked: LockedImage) -> bool:
    """Write the lock. Returns whether it had to be written. Two processes write one after the other.

    Raises Refused for a lock that this xsft cannot write without losing part of it, EnvironmentMissing as
    `write_atomic` does.
    """

    def change(text: str | None) -> str | None:
        before = read_lock(text).get(locked.repository) if text else None
        if before is not None and same_image(before, locked):
            return None
        return update_lock(text, locked)

    return _change(lock_file(images, locked.image), change, done=f"{locked.ref} is pushed")


def keep_base(images: Path, name: str, base: Base) -> bool:
    """Pin the base. Returns whether the lock had to be written. Raises as `keep_lock` does."""

    def change(text: str | None) -> str | None:
        if text and read_base(text) == base:
            return None
        return with_base(text, image=name, base=base)

    return _change(lock_file(images, name), change, done=f"{base.pinned} is built on")


def image_facts(name: str, *, start: Path, registry: str | None) -> ImageFacts:
    """Return the lock's facts for the place's registry, or for its only one if the place names none."""
    images = images_folder(start, name)
    if images is None:
        return ImageFacts(name=name, there=False, others=image_names(start))
    try:
        entries = locked_images(images, name)
    except UsageError as failed:
        return ImageFacts(name=name, lock_problem=failed.message)
    repository = repository_in(registry, name) if registry else None
    if registry is None and len(entries) == 1:
        repository = next(iter(entries))
    pushed_to = tuple(sorted(entries))
    locked = entries.get(repository or "")
    if locked is None:
        return ImageFacts(name=name, repository=repository, pushed_to=pushed_to)
    return ImageFacts(
        name=name,
        repository=repository,
        digest=locked.digest,
        maxtext=locked.maxtext,
        evaluate=locked.evaluate,
        stale=is_stale(images, locked),
        pushed_to=pushed_to,
    )


def is_stale(images: Path, locked: LockedImage) -> bool | None:
    """Return whether the current files would build another image with the same options; None if that cannot be
    determined offline.
    """
    options = locked.options
    if options is None or not (images / locked.image).is_dir():
        return None
    sources = (options.maxtext_source, options.tunix_source)
    if any(source.startswith("git+") for source in sources):
        return None
    if not all(_is_inside(path) for path in (*sources, *options.code)):
        return None
    try:
        return _current_tag(images, options, base=locked.base) != locked.code
    except XsftError:
        return None


def _current_tag(images: Path, options: BuildOptions, *, base: str) -> str:
    """Return the tag of the code's image as it would be built now. Raises as `read_context` and `read_code` do."""
    folder, project = images / options.image, images.parent
    recipe = make_recipe(
        options,
        context=read_context(folder),
        declared=read_arguments(folder),
        packages=locked_versions(folder),
        code=read_code(
            code=tuple(project / path for path in options.code),
            maxtext=_local_source(options.maxtext_source, project),
            tunix=_local_source(options.tunix_source, project),
        ),
        base=parse_base(base),
    )
    return recipe.code.tag


def _is_inside(folder: str) -> bool:
    """Return whether the folder is inside the project. A lock comes from a repository, so it must not make xsft read
    anything outside the project.
    """
    path = PurePosixPath(folder)
    return not path.is_absolute() and ".." not in path.parts


def _local_source(source: str, project: Path) -> Path | None:
    return None if source == "pypi" else project / source


def _read_lock_file(file: Path, read: Callable[[str], T]) -> T | None:
    try:
        return read(read_text(file))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as failed:
        raise UsageError(
            f"{file} cannot be read: {failed}.",
            fix="Restore it from git, or remove it and push again; the image itself is in its registry.",
            id="image-lock-unreadable",
        ) from None


def _change(file: Path, change: Callable[[str | None], str | None], *, done: str) -> bool:
    """Write what `change` returns for the text; None: no change. `done`: what is already done even if writing the lock
    fails.
    """
    with exclusive(_guard(file), waiting=lambda: None):
        try:
            text = change(read_text(file) if file.exists() else None)
            if text is not None:
                write_atomic(file, text)
        except (OSError, ValueError) as failed:
            raise Refused(
                f"{file} was not written: {failed}. {done}.",
                fix="Remove it, or use the xsft that wrote it; then push again.",
                id="image-lock-unreadable",
            ) from None
    return text is not None


def _guard(file: Path) -> Path:
    """Return the path of the lock's guard file: in the cache, so that nothing is left in the user's repository."""
    name = hashlib.sha256(str(file.absolute()).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return own_cache() / "image-locks" / f"{name}.lock"
