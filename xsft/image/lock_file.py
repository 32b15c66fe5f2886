"""`images/<name>.lock.json` on disk, written atomically after a build or push; and what a registry has of the image.

What could not be read in a registry is part of the result.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from xsft.base.errors import Refused, UsageError, XsftError
from xsft.image.code_layer import Manifest
from xsft.image.contents import ENV_NAMES, ImageConfiguration, ImageLook
from xsft.image.folders import image_names, images_folder, read_image_files
from xsft.image.lock import Lock, LockedImage, read_lock, update_lock
from xsft.image.options import BuildOptions
from xsft.image.recipe import make_recipe, repository_in
from xsft.image.reference import is_google, parse_reference
from xsft.image.registry import RegistryClient
from xsft.machine.filelock import exclusive
from xsft.machine.files import write_atomic
from xsft.machine.parallel import call_within
from xsft.machine.paths import own_cache
from xsft.machine.process import own_environment
from xsft.machine.regular import read_text
from xsft.spec.facts import ImageFacts

DEADLINE_S = 10.0
"""Time limit for one look."""
PAUSES_S = 2.0
"""Maximum part of it that is spent on waiting for a busy registry."""


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
    with exclusive(guard_file(file), waiting=lambda: None):
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


def guard_file(file: Path) -> Path:
    """Return the path of the lock's guard file: in the cache, so that nothing is left in the user's repository."""
    name = hashlib.sha256(str(file.absolute()).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return own_cache() / "image-locks" / f"{name}.lock"


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
    facts = ImageFacts(name=name, repository=repository, pushed_to=tuple(sorted(entries)))
    locked = entries.get(repository or "")
    if locked is None:
        return facts
    return replace(
        facts,
        digest=locked.digest,
        maxtext=locked.maxtext,
        evaluate=locked.evaluate,
        stale=is_stale(images, locked),
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


class _RunConfiguration(Struct, frozen=True, kw_only=True):
    labels: dict[str, str] | None = msgspec.field(default=None, name="Labels")
    env: tuple[str, ...] | None = msgspec.field(default=None, name="Env")
    entrypoint: tuple[str, ...] | None = msgspec.field(default=None, name="Entrypoint")


class _HistoryEntry(Struct, frozen=True, kw_only=True):
    created_by: str = ""


class _Configuration(Struct, frozen=True, kw_only=True):
    """source: OCI image-spec v1.1 config.md."""

    os: str = ""
    architecture: str = ""
    config: _RunConfiguration | None = None
    history: tuple[_HistoryEntry, ...] | None = ()


_CONFIGURATION = msgspec.json.Decoder(_Configuration)


def look_at_image(ref: str, *, env: Mapping[str, str] | None = None) -> ImageLook:
    """Return what the registry tells of the image, with the login that this machine has for it."""
    look = ImageLook(ref=ref, status="unread", asked_with="no login")
    try:
        reference = parse_reference(ref)
        if not reference.host:
            return replace(look, why="The node chooses its registry.")
        repository = RegistryClient(reference.name, env=own_environment() if env is None else env, budget_s=PAUSES_S)
        if repository.login is not None:
            look = replace(look, asked_with="your login")
        elif is_google(reference.host):  # Google's registries answer nothing without one
            return replace(look, why=f"There is no login for {reference.host} here.")
        return call_within(DEADLINE_S, partial(_look, repository, reference.identifier or "latest", look))
    except (XsftError, ValueError) as failed:
        return replace(look, why=str(failed))


def _look(repository: RegistryClient, tag: str, look: ImageLook) -> ImageLook:
    answer = repository.manifest_for_tpus(tag)
    if answer is None:
        return replace(look, status="missing")
    return replace(look, status="there", configuration=_read_configuration(repository, answer[1]))


def _read_configuration(repository: RegistryClient, manifest: Manifest) -> ImageConfiguration | None:
    """Return the configuration; of an index without an image for TPU hosts, its platforms only; None if the content is
    not an image.
    """
    if manifest.platforms:
        return ImageConfiguration(platforms=tuple(sorted(manifest.platforms)))
    if manifest.config is None or not manifest.config.digest:
        return None
    try:
        configuration = _CONFIGURATION.decode(repository.blob(manifest.config.digest))
    except (msgspec.DecodeError, RecursionError) as wrong:
        raise ValueError(f"its configuration is invalid: {wrong}") from None
    run = configuration.config or _RunConfiguration()
    platform = f"{configuration.os}/{configuration.architecture}"
    variables = (variable.partition("=") for variable in run.env or ())
    return ImageConfiguration(
        platforms=(platform,) if configuration.os and configuration.architecture else (),
        size=manifest.size,
        labels=run.labels or {},
        env={name: text for name, _, text in variables if name in ENV_NAMES},
        entrypoint=run.entrypoint or (),
        made_by=tuple(entry.created_by for entry in configuration.history or ()),
    )
