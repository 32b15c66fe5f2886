"""What `submit` asks of an image's registry: is it there, and which MaxText does it hold? Never a reason to fail."""

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
"""For one question."""
PAUSES_S = 2.0
"""Of it, at most this is spent on waiting for a registry that is busy."""


def image_problems(ref: str, *, env: Mapping[str, str] | None = None) -> tuple[Problem, ...]:
    """An error where the registry says that there is no such image; nothing where it does not tell."""
    if image_exists(ref, env=own_environment() if env is None else env) is not False:
        return ()
    message = f"The registry has no image {ref}: the pods would wait for it, on slices that are taken."
    return (error("image-not-found", "image.ref", message, "Push it, or correct image.ref."),)


def image_exists(ref: str, *, env: Mapping[str, str]) -> bool | None:
    """None where the registry does not tell."""
    return _asked(ref, env, lambda registry: registry.manifest(ref) is not None)


def maxtext_in(ref: str, *, env: Mapping[str, str] | None = None) -> str | None:
    """The MaxText release that its label names; None where it has none, or its registry does not tell."""
    env = own_environment() if env is None else env
    return _asked(ref, env, lambda registry: (registry.image_labels(ref) or {}).get(MAXTEXT_LABEL)) or None


def _asked(ref: str, env: Mapping[str, str], question: Callable[[Registries], T]) -> T | None:
    """None where the registry refuses, does not answer in time, or is the node's to choose (a name without a host)."""
    registry = Registries(env=env, budget_s=PAUSES_S)
    try:
        host = parse_reference(ref).host
        return within(DEADLINE_S, lambda: question(registry) if host and _may_ask(registry, host) else None)
    except (XsftError, ValueError):
        return None


def _may_ask(registry: Registries, host: str) -> bool:
    """Google's registries tell nothing without a login."""
    return not is_google(host) or registry.login_to(host).credential is not None
