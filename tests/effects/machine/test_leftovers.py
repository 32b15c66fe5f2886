"""What a killed writer left goes; what somebody is writing, or what is nobody's of us, stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from xsft.effects.machine.leftovers import OLD_S, sweep
from xsft.effects.records.index import IndexEntry, keep, read_index

KILLED = """
import os, signal, sys
from xsft.effects.machine.files import write_atomic
write_atomic(sys.argv[1], b"{}", write=lambda *_: os.kill(os.getpid(), signal.SIGKILL))
"""


def killed_while_writing(target: Path) -> Path:
    """The file that is left of it."""
    done = subprocess.run((sys.executable, "-c", KILLED, str(target)), check=False)
    assert done.returncode == -signal.SIGKILL
    (left,) = target.parent.glob(".*.tmp")
    return left


def aged(path: Path, seconds: float) -> None:
    at = time.time() - seconds
    os.utime(path, (at, at))


def test_the_next_run_that_is_kept_sweeps_what_a_killed_one_left(tmp_path: Path) -> None:
    left = killed_while_writing(tmp_path / "gemma-0123.json")
    keep(tmp_path, IndexEntry(run_name="a", target="xpk", output="gs://b/r"))
    assert left.exists()  # its writer may be at it
    aged(left, OLD_S + 60)
    keep(tmp_path, IndexEntry(run_name="b", target="xpk", output="gs://b/r"))
    assert not left.exists()
    assert [entry.run_name for entry in read_index(tmp_path).entries] == ["a", "b"]


def test_one_that_goes_meanwhile_keeps_no_other_from_going(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its writer has renamed it: what was listed is not there any more."""
    for name in ("a", "b", "c"):
        path = tmp_path / f".{name}.json.0123456789ab.tmp"
        path.write_text("x", encoding="utf-8")
        aged(path, 10 * OLD_S)
    gone: list[Path] = []

    def unlink(path: Path, missing_ok: bool = False) -> None:
        gone.append(path)
        if len(gone) == 1:
            raise FileNotFoundError
        os.unlink(path)

    monkeypatch.setattr(Path, "unlink", unlink)
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == gone[:1]


def test_what_is_not_ours_stays(tmp_path: Path) -> None:
    names = ("notes.tmp", ".notes.tmp", ".a.0123456789AB.tmp", ".a.json.0123456789abc.tmp", "a.json", ".lock")
    for name in names:
        (tmp_path / name).write_text("x", encoding="utf-8")
        aged(tmp_path / name, 10 * OLD_S)
    (tmp_path / ".a.json.0123456789ab.tmp").mkdir()
    outside = tmp_path / "outside"
    outside.write_text("x", encoding="utf-8")
    (tmp_path / ".b.json.0123456789ab.tmp").symlink_to(outside)
    before = sorted(tmp_path.iterdir())
    sweep(tmp_path, older_s=-1.0)
    assert sorted(tmp_path.iterdir()) == before
    sweep(tmp_path / "nothing")
