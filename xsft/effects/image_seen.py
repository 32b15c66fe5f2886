"""What is in an image that somebody pushed: its own word, read from its registry without pulling it."""

from __future__ import annotations

from collections.abc import Mapping

from xsft.effects.process import own_environment
from xsft.effects.registry import DEADLINE_S, address, is_google
from xsft.effects.registry_client import Registries
from xsft.effects.storage import may_log_in, within
from xsft.errors import XsftError
from xsft.image.recipe import MAXTEXT_LABEL


def maxtext_in(ref: str, *, env: Mapping[str, str] | None = None) -> str | None:
    """The MaxText release that its label names; None where it has none, or its registry does not tell in time."""
    env = own_environment() if env is None else env
    asked = address(ref)
    if asked is None or (is_google(asked[0]) and not _may_log_in(env)):
        return None
    try:
        labels = within(DEADLINE_S, lambda: Registries(env=env, budget_s=DEADLINE_S).image_labels(ref))
    except XsftError:
        return None
    return (labels or {}).get(MAXTEXT_LABEL) or None


def _may_log_in(env: Mapping[str, str]) -> bool:
    """A bucket of the tests says nothing about registries."""
    return may_log_in({name: value for name, value in env.items() if name != "STORAGE_EMULATOR_HOST"})
