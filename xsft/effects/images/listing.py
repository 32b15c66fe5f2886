"""Lists xsft's images in the engine and in a registry."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from msgspec import Struct

from xsft.base.aliases import ShowLine
from xsft.base.errors import EnvironmentMissing
from xsft.effects.images.build import Docker
from xsft.effects.images.registry_client import Registries
from xsft.image.artifact_names import repository_of
from xsft.image.recipe import local_name

_OURS = re.compile(r"(deps|code)-[0-9a-f]{16,}")


class ImageTag(Struct, frozen=True, kw_only=True):
    where: Literal["local", "registry"]
    tag: str
    digest: str | None
    size: int
    """Bytes."""
    at: str | None


def in_engine(docker: Callable[[], Docker], image: str, *, say: ShowLine) -> tuple[ImageTag, ...]:
    """Return the images in this machine's engine, newest first; empty, with a message, if no engine answers."""
    try:
        held = docker().images(image)
    except EnvironmentMissing as failed:
        say(f"{failed.message} Only the registry is listed.")
        return ()
    prefix = f"{local_name(image)}:"
    return tuple(
        ImageTag(
            where="local",
            tag=tag.removeprefix(prefix),
            digest=next((digest.partition("@")[2] for digest in one.digests), None),
            size=one.size,
            at=one.created or None,
        )
        for one in held
        for tag in one.tags
        if tag.startswith(prefix)
    )


def in_registry(
    registries: Registries, repository: str, *, env: Mapping[str, str], say: ShowLine
) -> tuple[ImageTag, ...]:
    """Return the images in the registry. Raises Unreachable if it does not answer."""
    say(f"asking {repository}")
    folder, _, name = repository.rpartition("/")
    google = repository_of(folder)
    if google is None:
        return tuple(_plain_images(registries, repository))
    from xsft.effects.images.artifact_registry import connect_artifact_registry

    return tuple(
        ImageTag(where="registry", tag=tag, digest=one.digest, size=one.size, at=one.uploaded_at or None)
        for one in connect_artifact_registry(env).images(google, name=name)
        for tag in one.tags
        if _OURS.fullmatch(tag)
    )


def _plain_images(registries: Registries, repository: str) -> Iterator[ImageTag]:
    for tag in registries.tags(repository):
        found = registries.manifest(f"{repository}:{tag}") if _OURS.fullmatch(tag) else None
        if found:
            yield ImageTag(where="registry", tag=tag, digest=found.digest, size=found.size, at=None)
