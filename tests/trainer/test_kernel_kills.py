"""The cause that this machine gives for a killed trainer."""

from __future__ import annotations

import pytest

from xsft.trainer.kernel_kills import TRAINER, TRAINER_KILLED, kernel_said, killed_text, signal_text, true_status

OOM = "Out of memory: Killed process 4711 (python3) total-vm:21GB, anon-rss:14GB, oom_score_adj:0"
IN_A_GROUP = "Memory cgroup out of memory: Killed process 42 (python) total-vm:2GB"


@pytest.mark.parametrize(
    ("status", "last", "true"),
    [
        (1, "unshare: sigprocmask unblock failed: Invalid argument", 137),
        (1, "ValueError: unshare: what: ever", 1),
        (137, "", 137),
        (0, "unshare: a: b", 0),
    ],
)
def test_true_status_finds_a_kill_behind_unshare(status: int, last: str, true: int) -> None:
    assert true_status(status, ["before", last]) == true
    assert true_status(status, []) == status


def test_kernel_said_returns_the_last_kill_since_the_trainer_began() -> None:
    records = (
        f"6,1,{seconds}000000,-;{text}\n SUBSYSTEM=x"
        for seconds, text in ((5, IN_A_GROUP), (99, OOM), (100, "eth0: up"))
    )
    record_list = tuple(records)
    assert kernel_said(since=90, read=lambda: iter(record_list)) == OOM
    assert kernel_said(since=200, read=lambda: iter(record_list)) is None
    assert kernel_said(since=0, read=lambda: iter((f"6,1,5000000,-;{IN_A_GROUP}",))) == IN_A_GROUP
    assert kernel_said(since=0, read=lambda: iter(("nonsense", "6,1,x,-;y"))) is None


def test_kernel_said_accepts_the_log_of_this_kernel() -> None:
    assert kernel_said(since=float("inf")) is None


def test_killed_text_names_the_signal_the_memory_and_the_kernel_log() -> None:
    assert killed_text(TRAINER, memory_bytes=4 * 10**9, kernel=OOM) == (
        f"{TRAINER_KILLED}: out of memory: {OOM}; this machine has 4.0 GB of memory"
    )
    assert "sudo dmesg" in killed_text("to_maxtext", memory_bytes=None, kernel=None)


@pytest.mark.parametrize("program", [TRAINER, "to_maxtext"])
def test_signal_text_names_the_program_and_the_signal(program: str) -> None:
    assert signal_text(program, 134, since=0) == f"{program} was ended by SIGABRT"
    assert (signal_text(program, 137, since=0) or "").startswith(f"{program} was killed (SIGKILL)")
    assert signal_text(program, 1, since=0) is None
    assert signal_text(program, 255, since=0) is None
