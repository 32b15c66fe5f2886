"""Submissions to a cluster, played through. The wait for their end: tests/launch/test_wait_for_end.py."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.launch.test_wait_for_end import submit
from tests.runs.test_waiting import DEAF, EMPTY, at
from xsft.base.errors import Refused
from xsft.base.problems import warning
from xsft.base.reporting import PlainView
from xsft.launch.listener import ActionListener
from xsft.machine.interrupts import NOTHING_CREATED


@pytest.mark.parametrize(
    ("action", "ids"),
    [
        ("created", ["of-the-plan", "of-the-run"]),
        ("attempt", ["of-the-plan", "of-the-run"]),
        ("adopted", ["of-the-run"]),
        ("finished", ["of-the-run"]),
        ("refused", ["of-the-plan"]),
    ],
)
def test_warnings_of_an_existing_run_are_not_repeated(
    action: str, ids: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    made = (warning("of-the-plan", "", "one.", "f"),)
    with suppress(Refused):
        submit(at("succeeded", 1000), action=action, warnings=made, problems=(warning("of-the-run", "", "two.", "f"),))
    err = capsys.readouterr().err
    assert [one for one in ("of-the-plan", "of-the-run") if f"[{one}]" in err] == ids
    assert ("1 warning of the workload, shown when" in err) == (action in ("adopted", "finished"))


def test_a_finished_run_is_not_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert submit(DEAF, action="finished") == 0


@contextmanager
def wiped(_title: str) -> Iterator[PlainView]:
    """A user who presses Ctrl-C while the progress is wiped."""
    yield PlainView()
    raise KeyboardInterrupt


def test_ctrl_c_while_the_progress_is_wiped_does_not_say_that_nothing_was_created() -> None:
    with pytest.raises(KeyboardInterrupt) as stopped:
        submit(EMPTY, listener=ActionListener(working=wiped))
    assert NOTHING_CREATED not in getattr(stopped.value, "__notes__", ())
