"""The end of a stage on this machine is recorded, however it ends."""

from __future__ import annotations

import os
import signal

import pytest

from xsft.launch.recording import run_recorded


def work(ends: BaseException | signal.Signals | None) -> str:
    if isinstance(ends, BaseException):
        raise ends
    if ends is not None:
        os.kill(os.getpid(), ends)
    return "done"


@pytest.mark.parametrize(
    ("ends", "recorded"),
    [
        (None, []),
        (KeyboardInterrupt(), [("interrupted", "interrupted by the user")]),
        (signal.SIGTERM, [("interrupted", "ended by SIGTERM")]),
        (OSError("no space"), [("failed", "no space")]),
    ],
)
def test_an_interruption_or_error_of_a_stage_is_recorded(
    ends: BaseException | signal.Signals | None, recorded: list[tuple[str, str]]
) -> None:
    found: list[tuple[str, str]] = []

    def record(outcome: str, why: str) -> str:
        found.append((outcome, why))
        return outcome

    if isinstance(ends, OSError):
        with pytest.raises(OSError, match="no space"):
            run_recorded(lambda: work(ends), record=record)
    else:
        assert run_recorded(lambda: work(ends), record=record) == ("interrupted" if recorded else "done")
    assert found == recorded
