"""What `submit` checks in an image's registry: whether the image exists, and which MaxText it has. Never a reason to
fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from xsft.effects.images.registry_client import Registries
from xsft.effects.machine.process import own_environment
from xsft.effects.records.storage import within
from xsft.errors import XsftError
from xsft.image.recipe import MAXTEXT_LABEL
from xsft.image.reference import parse_reference
from xsft.image.registry_names import is_google
from xsft.problems import Problem, error

T = TypeVar("T")

DEADLINE_S = 10.0
"""Time limit for one query."""
PAUSES_S = 2.0
"""Maximum part of it that is spent on waiting for a busy registry."""


def image_problems(ref: str, *, env: Mapping[str, str] | None = None) -> tuple[Problem, ...]:
    """Return an error if the registry reports that there is no such image; nothing if it does not answer."""
    if image_exists(ref, env=own_environment() if env is None else env) is not False:
        return ()
    message = f"The registry has no image {ref}: the pods would wait for it while they hold their slices."
    return (error("image-not-found", "image.ref", message, "Push it, or correct image.ref.", kind="disputable"),)


def image_exists(ref: str, *, env: Mapping[str, str]) -> bool | None:
    """Return whether the image exists; None if the registry does not answer."""
    return _asked(ref, env, lambda registry: registry.manifest(ref) is not None)


def maxtext_in(ref: str, *, env: Mapping[str, str] | None = None) -> str | None:
    """Return the MaxText release in its label; None if it has none, or its registry does not answer."""
    env = own_environment() if env is None else env
    return _asked(ref, env, lambda registry: (registry.image_labels(ref) or {}).get(MAXTEXT_LABEL)) or None


def _asked(ref: str, env: Mapping[str, str], question: Callable[[Registries], T]) -> T | None:
    """Return the answer; None if the registry refuses, does not answer in time, or is chosen by the node (a name
    without a host).
    """
    registry = Registries(env=env, budget_s=PAUSES_S)
    try:
        host = parse_reference(ref).host
        return within(DEADLINE_S, lambda: question(registry) if host and _may_ask(registry, host) else None)
    except (XsftError, ValueError):
        return None


def _may_ask(registry: Registries, host: str) -> bool:
    """Return whether to query the registry: Google's registries answer nothing without a login."""
    return not is_google(host) or registry.login_to(host).credential is not None
