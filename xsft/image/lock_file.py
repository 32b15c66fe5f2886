"""`images/<name>.lock.json` on disk: read by `plan` and `submit`, written atomically after a build or push."""

from __future__ import annotations

import hashlib
from pathlib import Path

from xsft.base.errors import Refused, UsageError, XsftError
from xsft.image.folders import image_names, images_folder, read_image_files
from xsft.image.lock import Lock, LockedImage, read_lock, update_lock
from xsft.image.options import BuildOptions
from xsft.image.recipe import make_recipe, repository_in
from xsft.machine.filelock import exclusive
from xsft.machine.files import write_atomic
from xsft.machine.paths import own_cache
from xsft.machine.regular import read_text
from xsft.spec.facts import ImageFacts


def lock_file(images: Path, name: str) -> Path:
    """Return the path, beside the image's folder so that it is in no build context."""
    return images / f"{name}.lock.json"


def read_lock_file(images: Path, name: str) -> Lock:
    """Return the image's lock; empty without one. Raises UsageError, image-lock-unreadable."""
    file = lock_file(images, name)
    try:
        return read_lock(read_text(file))
    except FileNotFoundError:
        return Lock()
    except (OSError, ValueError) as failed:
        raise UsageError(
            f"{file} cannot be read: {failed}.",
            fix="Restore it from git, or remove it and push again; the image itself is in its registry.",
            id="image-lock-unreadable",
        ) from None


def keep_lock(images: Path, locked: LockedImage) -> bool:
    """Write the lock. Returns whether it had to be written. Two processes write one after the other.

    Raises Refused for a lock that this xsft cannot write without losing part of it, EnvironmentMissing as
    `write_atomic` does.
    """
    file = lock_file(images, locked.image)
    with exclusive(_guard(file), waiting=lambda: None):
        try:
            text = update_lock(read_text(file) if file.exists() else None, locked)
            if text is not None:
                write_atomic(file, text)
        except (OSError, ValueError) as failed:
            raise Refused(
                f"{file} was not written: {failed}. {locked.ref} is pushed.",
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
        entries = read_lock_file(images, name).images
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
    # A lock comes from a repository, so it must not make xsft read anything outside the project.
    paths = (*options.sources.values(), *options.code)
    if any(path.startswith(("git+", "/")) or ".." in path.split("/") for path in paths):
        return None
    try:
        return current_tag(images, locked) != locked.code
    except XsftError:
        return None


def current_tag(images: Path, locked: LockedImage) -> str:
    """Return the tag of the code's image as it would be built now. Raises as `read_image_files` does."""
    options = locked.options or BuildOptions()
    trees = {package: images.parent / source for package, source in options.sources.items()}
    files = read_image_files(images, locked.image, options, trees)
    return make_recipe(options, files, image=locked.image, registry=None, base=locked.base).code.tag


def _guard(file: Path) -> Path:
    """Return the path of the lock's guard file: in the cache, so that nothing is left in the user's repository."""
    name = hashlib.sha256(str(file.absolute()).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return own_cache() / "image-locks" / f"{name}.lock"
