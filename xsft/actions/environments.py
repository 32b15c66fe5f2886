"""The environments that verbs use on this machine; each is built if it is missing."""

from __future__ import annotations

from xsft.effects.environments import environments
from xsft.effects.environments.installed import BuiltEnvironment
from xsft.effects.local.machine import Machine
from xsft.effects.machine.paths import own_cache
from xsft.effects.machine.process import own_environment
from xsft.screen.progress import shown


def maxtext_machine() -> Machine:
    """Return this machine with MaxText's environment."""
    with shown("MaxText environment") as progress:
        python = environments.ensure("maxtext", progress=progress).python
    return Machine(python=python, env=own_environment(), cache=own_cache())


def engine_environment() -> BuiltEnvironment:
    """Return the environment of the engine that reads an export."""
    with shown("engine environment") as progress:
        return environments.ensure("engine", progress=progress)
