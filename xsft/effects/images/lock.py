"""`images/<name>.lock.json` on disk: read by `plan` and `submit`, written atomically after a build or push."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import TypeVar

from xsft.base.errors import Refused, UsageError, XsftError
from xsft.effects.images.context import code_part, deps_part, hash_large_files, image_names, images_folder
from xsft.image.lock import read_base, read_lock, same_image, update_lock, with_base
from xsft.image.model import Base, BuildOptions, LockedImage, Material
from xsft.image.recipe import base_of, make_recipe, repository_in
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
        return None if before is not None and same_image(before, locked) else update_lock(text, locked)

    return _change(lock_file(images, locked.image), change, done=f"{locked.ref} is pushed")


def keep_base(images: Path, name: str, base: Base) -> bool:
    """Pin the base. Returns whether the lock had to be written. Raises as `keep_lock` does."""

    def change(text: str | None) -> str | None:
        return None if text and read_base(text) == base else with_base(text, image=name, base=base)

    return _change(lock_file(images, name), change, done=f"{base.pinned} is built on")


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


def image_facts(name: str, *, start: Path, registry: str | None) -> ImageFacts:
    """Return the lock's facts for the place's registry, or for its only one if the place names none."""
    images = images_folder(start, name)
    if images is None:
        return ImageFacts(name=name, there=False, others=image_names(start))
    try:
        held = locked_images(images, name)
    except UsageError as failed:
        return ImageFacts(name=name, lock_problem=failed.message)
    repository = repository_in(registry, name) if registry else (next(iter(held)) if len(held) == 1 else None)
    locked = held.get(repository or "")
    return ImageFacts(
        name=name,
        repository=repository,
        digest=locked.digest if locked else None,
        maxtext=locked.maxtext if locked else None,
        evaluate=locked.evaluate if locked else None,
        stale=is_stale(images, locked) if locked else None,
        pushed_to=tuple(sorted(held)),
    )


def is_stale(images: Path, locked: LockedImage) -> bool | None:
    """Return whether the current files would build another image with the same options; None if that cannot be
    determined offline.
    """
    if locked.options is None or not (images / locked.image).is_dir():
        return None
    sources = (locked.options.maxtext_source, locked.options.tunix_source)
    if any(source.startswith("git+") for source in sources) or not all(
        map(_is_inside, (*sources, *locked.options.code))
    ):
        return None
    try:
        return current_tag(images, locked.options, base=locked.base) != locked.code
    except XsftError:
        return None


def current_tag(images: Path, options: BuildOptions, *, base: str) -> str:
    """Return the tag of the code's image as it would be built now. Raises as `code_part` does."""
    folder, project = images / options.image, images.parent
    material = Material(
        deps=hash_large_files(deps_part(folder)),
        code=hash_large_files(
            code_part(
                folder,
                code=tuple(project / path for path in options.code),
                maxtext=_local_source(options.maxtext_source, project),
                tunix=_local_source(options.tunix_source, project),
            )
        ),
        base=base_of(base),
    )
    return make_recipe(options, material).code.tag


def _is_inside(folder: str) -> bool:
    """Return whether the folder is inside the project. A lock comes from a repository, so it must not make xsft read
    anything outside the project.
    """
    path = PurePosixPath(folder)
    return not path.is_absolute() and ".." not in path.parts


def _local_source(source: str, project: Path) -> Path | None:
    return None if source == "pypi" else project / source


def _guard(file: Path) -> Path:
    """Return the path of the lock's guard file: in the cache, so that nothing is left in the user's repository."""
    name = hashlib.sha256(str(file.absolute()).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return own_cache() / "image-locks" / f"{name}.lock"
