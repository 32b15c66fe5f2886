"""The environments that verbs use on this machine; each is built if it is missing."""

from __future__ import annotations

from xsft.environments import environments
from xsft.environments.installed import BuiltEnvironment
from xsft.launch.listener import ActionListener
from xsft.launch.local_machine import Machine
from xsft.machine.paths import own_cache
from xsft.machine.process import own_environment


def maxtext_machine(listener: ActionListener) -> Machine:
    """Return this machine with MaxText's environment."""
    with listener.working("MaxText environment") as progress:
        python = environments.ensure("maxtext", progress=progress).python
    return Machine(python=python, env=own_environment(), cache=own_cache())


def engine_environment(listener: ActionListener) -> BuiltEnvironment:
    """Return the environment of the engine that reads an export."""
    with listener.working("engine environment") as progress:
        return environments.ensure("engine", progress=progress)
