"""A signal that would end the process is raised as an exception, and has its default handler afterwards."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from xsft.machine.signals import ENDING, raise_on_signal


class Ended(BaseException):
    pass


@pytest.fixture(autouse=True)
def default() -> Iterator[None]:
    """Under nohup SIGHUP is ignored."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in ENDING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("signals", ENDING)
def test_a_signal_is_raised_with_its_number_and_its_default_handler_restored(signals: signal.Signals) -> None:
    with pytest.raises(Ended) as ended, raise_on_signal(Ended):
        os.kill(os.getpid(), signals)
    assert ended.value.args == (signals,)
    assert [signal.getsignal(number) for number in ENDING] == [signal.SIG_DFL] * 2


def test_an_ignored_or_handled_signal_is_unchanged() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, handler := lambda *_: None)
    with raise_on_signal(Ended):
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)
    assert (signal.getsignal(signal.SIGHUP), signal.getsignal(signal.SIGTERM)) == (signal.SIG_IGN, handler)


def test_the_outer_block_handles_a_signal_inside_a_nested_block() -> None:
    with pytest.raises(Ended) as ended, raise_on_signal(Ended), raise_on_signal(lambda _: SystemExit(1)):
        os.kill(os.getpid(), signal.SIGTERM)
    assert ended.value.args == (signal.SIGTERM,)


def test_raised_changes_no_handler_in_another_thread() -> None:
    def meanwhile() -> object:
        with raise_on_signal(Ended):
            return signal.getsignal(signal.SIGTERM)

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(meanwhile).result() is signal.SIG_DFL
