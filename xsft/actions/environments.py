"""The environments that verbs use on this machine; each is built if it is missing."""

from __future__ import annotations

from xsft.actions.listener import ActionListener
from xsft.effects.environments import environments
from xsft.effects.environments.installed import BuiltEnvironment
from xsft.effects.local.machine import Machine
from xsft.effects.machine.paths import own_cache
from xsft.effects.machine.process import own_environment


def maxtext_machine(listener: ActionListener) -> Machine:
    """Return this machine with MaxText's environment."""
    with listener.working("MaxText environment") as progress:
        python = environments.ensure("maxtext", progress=progress).python
    return Machine(python=python, env=own_environment(), cache=own_cache())


def engine_environment(listener: ActionListener) -> BuiltEnvironment:
    """Return the environment of the engine that reads an export."""
    with listener.working("engine environment") as progress:
        return environments.ensure("engine", progress=progress)
