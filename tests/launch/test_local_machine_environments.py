from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from xsft.base.reporting import PlainView, Reporter
from xsft.environments.installed import BuiltEnvironment
from xsft.launch.local_machine import engine_environment, maxtext_machine
from xsft.machine.paths import own_cache
from xsft.machine.process import own_environment

pytestmark = pytest.mark.contract


class Titles(list[str]):
    @property
    def listener(self) -> Reporter:
        @contextmanager
        def working(title: str) -> Iterator[PlainView]:
            self.append(title)
            yield PlainView()

        return Reporter(working=working)


def test_maxtext_machine_has_the_installed_maxtext(maxtext_environment: BuiltEnvironment) -> None:
    titles = Titles()
    machine = maxtext_machine(titles.listener)
    assert (machine.python, titles) == (maxtext_environment.python, ["MaxText environment"])
    assert (machine.env, machine.cache) == (own_environment(), own_cache())


def test_engine_environment_is_the_installed_engine(inference_engine: BuiltEnvironment) -> None:
    titles = Titles()
    assert engine_environment(titles.listener) == inference_engine
    assert titles == ["engine environment"]
