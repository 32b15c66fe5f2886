"""Finds the digest of the base image that an image is built on."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from xsft.base.errors import EnvironmentMissing, Refused, XsftError
from xsft.effects.images.build import Docker, Registry
from xsft.image.model import Base, LockedImage
from xsft.image.recipe import base_of
from xsft.image.reference import parse_reference


def resolve_base(
    ref: str | None,
    *,
    pinned: Base | None,
    held: Iterable[LockedImage],
    docker: Callable[[], Docker],
    registry: Registry,
    again: bool,
) -> Base | None:
    """Return the digest of the base, or None if the Dockerfile uses no base. Taken from the lock (so that all users
    build on the same one), else from its own digest, a pushed image, the engine or the registry. `again`: ignore the
    lock.

    Raises Refused, image-base-differs, for a base other than the lock's; EnvironmentMissing if neither the engine nor
    the registry has it; and as they do if they do not answer.
    """
    if ref is None:
        return None
    asked = Base(ref=ref.partition("@")[0], digest=parse_reference(ref).digest)
    if pinned and not again:
        if asked.ref != pinned.ref or asked.digest not in {None, pinned.digest}:
            raise Refused(
                f"The lock pins the base {pinned.pinned}, and {asked.pinned} was given.",
                fix="Omit --base, or use the other one with --update-base and commit the lock.",
                id="image-base-differs",
            )
        return pinned
    if asked.digest:
        return asked
    if not again:
        known = (base_of(locked.base) for locked in held)
        before = next((base for base in known if base and base.ref == ref and base.digest), None)
        if before:
            return before
    return _looked_up(ref, docker=docker, registry=registry)


def _looked_up(ref: str, *, docker: Callable[[], Docker], registry: Registry) -> Base:
    """Return the base from the engine, which is what FROM would use, else from the registry. If neither answers, both
    errors are reported, the engine's first.
    """
    missing: EnvironmentMissing | None = None
    try:
        found = docker().base(ref)
    except EnvironmentMissing as failed:  # without an engine the registry may still have the base
        found, missing = None, failed
    if found:
        return found
    try:
        digest = registry.manifest_digest(ref)
    except XsftError as failed:
        raise (missing.with_problems_of(failed) if missing else failed) from None
    if digest is None:
        raise EnvironmentMissing(
            f"The base image {ref} is neither in the engine nor in its registry.",
            fix="Correct --base, or BASE_IMAGE in the Dockerfile.",
            id="image-absent",
        )
    return Base(ref=ref, digest=digest)
