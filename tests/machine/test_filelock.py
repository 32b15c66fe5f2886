from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from xsft.machine.filelock import exclusive

WAITER = """
import sys
from pathlib import Path
from xsft.machine.filelock import exclusive
with exclusive(Path(sys.argv[1]), waiting=lambda: print("waiting", flush=True)):
    print(Path(sys.argv[2]).read_text(), flush=True)
"""


def test_a_second_process_reports_that_it_waits_for_the_lock(tmp_path: Path) -> None:
    lock, note = tmp_path / "new" / "lock", tmp_path / "note"
    with exclusive(lock, waiting=lambda: None):
        waiter = subprocess.Popen(
            (sys.executable, "-c", WAITER, str(lock), str(note)), stdout=subprocess.PIPE, text=True
        )
        assert waiter.stdout is not None
        assert waiter.stdout.readline() == "waiting\n"
        note.write_text("done")
    assert waiter.communicate(timeout=300)[0] == "done\n"


def test_a_free_lock_is_taken_silently(tmp_path: Path) -> None:
    lines: list[str] = []
    for _ in range(2):
        with exclusive(tmp_path / "lock", waiting=lambda: lines.append("waiting")):
            pass
    assert lines == []
