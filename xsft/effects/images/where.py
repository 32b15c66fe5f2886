"""Which registry an image goes to, and that its repository is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from xsft.errors import UsageError
from xsft.spec.placeholders import FIX, is_placeholder, placeholder_in


def registry_of(place: str | None, *, start: Path) -> str | None:
    """The place's registry; without a place the only one that places.yaml has, None where there are none or several.

    Raises UsageError for a place that is not known, or has no registry or a placeholder; SpecError for a wrong file.
    """
    from xsft.effects.inputs.places import load_places

    places, file = load_places(start)
    if place is None:
        given = {found.registry for found in places.values() if found.registry}
        distinct = {registry for registry in given if not placeholder_in(registry)}
        return next(iter(distinct)) if len(distinct) == 1 else None
    if place not in places:
        known = f"Known: {', '.join(sorted(places)) or 'none'} ({file or 'no places.yaml'})."
        raise UsageError(f"There is no place {place}. {known}", fix="Correct --place, or give --registry.")
    registry = places[place].registry
    if registry is None:
        fix = f"Add registry: us-docker.pkg.dev/my-project/xsft to {place} in {file}, or give --registry."
        raise UsageError(f"The place {place} names no registry.", fix=fix)
    if name := placeholder_in(registry):
        raise UsageError(is_placeholder(name), fix=FIX, id="place-placeholder")
    return registry


def ensure_repository(registry: str, *, env: Mapping[str, str], create: bool, progress: Callable[[str], None]) -> None:
    """Artifact Registry's must be there before a push; other registries make theirs themselves.

    Raises as `ArtifactRegistry.ensure` does.
    """
    from xsft.image.artifact_names import repository_of

    repository = repository_of(registry)
    if repository is not None:
        from xsft.effects.images.artifact_registry import connect

        progress(f"looking at {registry}")
        connect(env).ensure(repository, create=create, on_progress=progress)
