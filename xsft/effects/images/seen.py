"""Reads for `submit` what a registry has of an image. Never fails: what could not be read is part of the result."""

from __future__ import annotations

from collections.abc import Mapping

from xsft.base.errors import XsftError
from xsft.effects.images.registry_client import Registries
from xsft.image.contents import ImageLook
from xsft.image.reference import parse_reference
from xsft.image.registry_names import is_google
from xsft.machine.parallel import call_within
from xsft.machine.process import own_environment

DEADLINE_S = 10.0
"""Time limit for one look."""
PAUSES_S = 2.0
"""Maximum part of it that is spent on waiting for a busy registry."""


def look_at_image(ref: str, *, env: Mapping[str, str] | None = None) -> ImageLook:
    """Return what the registry tells of the image, with the login that this machine has for it."""
    registry = Registries(env=own_environment() if env is None else env, budget_s=PAUSES_S)
    who = "no login"
    try:
        host = parse_reference(ref).host
        if not host:
            return ImageLook(ref=ref, status="unread", asked_with=who, why="The node chooses its registry.")
        who = "your login" if registry.login_to(host).credential is not None else who
        if is_google(host) and who == "no login":  # Google's registries answer nothing without one
            return ImageLook(ref=ref, status="unread", asked_with=who, why=f"There is no login for {host} here.")
        return call_within(DEADLINE_S, lambda: _look_at_image(registry, ref, who))
    except (XsftError, ValueError) as failed:
        return ImageLook(ref=ref, status="unread", asked_with=who, why=str(failed))


def _look_at_image(registry: Registries, ref: str, who: str) -> ImageLook:
    found = registry.image(ref)
    if found is None:
        return ImageLook(ref=ref, status="missing", asked_with=who)
    return ImageLook(ref=ref, status="there", asked_with=who, configuration=found.configuration)
