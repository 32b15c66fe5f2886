"""Chooses the registry for an image, and ensures that its repository exists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from xsft.base.errors import UsageError
from xsft.base.placeholders import FIX, is_placeholder, placeholder_in
from xsft.cluster.places import load_places
from xsft.image.artifact_names import repository_of


def registry_of(place: str | None, *, start: Path) -> str | None:
    """Return the place's registry; without a place the only one in places.yaml, None if there are none or several.

    Raises UsageError for an unknown place, or one with no registry or a placeholder; SpecError for an invalid file.
    """
    places, file = load_places(start)
    if place is None:
        given = {found.registry for found in places.values() if found.registry}
        distinct = {registry for registry in given if not placeholder_in(registry)}
        return next(iter(distinct)) if len(distinct) == 1 else None
    if place not in places:
        known = f"Known: {', '.join(sorted(places)) or 'none'} ({file or 'no places.yaml'})."
        raise UsageError(f"Place {place} was not found. {known}", fix="Correct --place, or give --registry.")
    registry = places[place].registry
    if registry is None:
        fix = f"Add registry: us-docker.pkg.dev/my-project/xsft to {place} in {file}, or give --registry."
        raise UsageError(f"The place {place} has no registry.", fix=fix)
    if name := placeholder_in(registry):
        raise UsageError(is_placeholder(name), fix=FIX, id="place-placeholder")
    return registry


def ensure_repository(registry: str, *, env: Mapping[str, str], create: bool, progress: Callable[[str], None]) -> None:
    """Ensure that the repository exists. Artifact Registry's must exist before a push; other registries create theirs.
    Raises as `ArtifactRegistry.ensure` does.
    """
    repository = repository_of(registry)
    if repository is not None:
        from xsft.effects.images.artifact_registry import connect_artifact_registry

        progress(f"reading {registry}")
        connect_artifact_registry(env).ensure(repository, create=create, on_progress=progress)
