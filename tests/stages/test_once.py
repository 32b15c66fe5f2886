"""A stage of this machine whose xsft is killed before each of its writes, one after the other."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.stages.test_convert import converting
from tests.stages.test_evaluate import evaluating
from tests.stages.test_export import exporting
from xsft.base.state_names import State
from xsft.records.record_files import record_store
from xsft.runs.classify import classify
from xsft.runs.local_runs import observe_local
from xsft.stages.once import LocalJob, do_once, find_job

pytestmark = pytest.mark.contract

NOW = "2026-11-23T00:00:00Z"
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = ("os.link", "os.remove", "os.rename")
SUBREAPER = 36
"""prctl's PR_SET_CHILD_SUBREAPER: what a killed process started becomes a child of this one."""

Job = LocalJob[Any]


def conversion(folder: Path) -> Job:
    lab = converting(folder)
    return lab.asked(lab.workload())


STAGES: dict[str, Callable[[Path], Job]] = {
    "convert": conversion,
    "evaluate": lambda folder: evaluating(folder).job(),
    "export": lambda folder: exporting(folder).work(),
}


def changes(event: str, arguments: tuple[Any, ...], *, folder: Path) -> bool:
    """Return whether the audit event is a lasting change of a run or a result, or a program that starts."""
    if event == "subprocess.Popen":
        return True
    path = str(arguments[0]) if arguments else ""
    is_lasting = path.startswith(str(folder)) and not path.startswith((f"{folder}/state", f"{folder}/cache"))
    if event == "open":
        return is_lasting and bool(arguments[2] & WRITES)
    return is_lasting and event in CHANGES


def killed_before(number: int, job: Job, *, folder: Path) -> bool:
    """Do the job in a process that is killed before its change of this number; return whether it was. The programs
    that it had started are killed too, as a PID namespace does."""
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    worker = os.fork()
    if worker == 0:
        work_until(number, job, folder=folder)
    _, status = os.waitpid(worker, 0)
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    with suppress(ChildProcessError):
        while True:
            for orphan in children.read_text().split():
                os.kill(int(orphan), signal.SIGKILL)
            os.waitpid(-1, 0)
    return os.WIFSIGNALED(status)


def work_until(number: int, job: Job, *, folder: Path) -> NoReturn:
    numbers = count()

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if changes(event, arguments, folder=folder) and next(numbers) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(audit)
    do_once(job)
    os._exit(0)


def shown_state(job: Job) -> State | None:
    """The state that `xsft status` shows; None without a row."""
    entries = record_store(job.machine().env).local_index().entries
    name = job.run_of(job.look()).run_name
    observations = observe_local((entry for entry in entries if entry.run_name == name), now=NOW)
    return classify(observations[-1]).state if observations else None


def kill_and_continue(stage: str, number: int, *, folder: Path) -> bool:
    """Kill the stage before its change of this number, and look at what the next calls say; return whether it was
    killed."""
    job = STAGES[stage](folder)
    was_killed = killed_before(number, job, folder=folder)
    state_found, shown = find_job(job).state, shown_state(job)
    assert (state_found == "done") == (shown == "succeeded"), (number, state_found, shown)
    again = do_once(job)
    assert (again.end.outcome, find_job(job).state, shown_state(job)) == ("completed", "done", "succeeded"), number
    assert do_once(job).action == "finished"
    return was_killed


@pytest.mark.parametrize("stage", STAGES)
def test_killed_before_any_write_the_next_call_completes_it_and_all_say_so(
    stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each number in a process of its own: a fork of one with helper processes would share them."""
    for number in count():
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.setenv("XSFT_STATE_DIR", str(folder / "state"))
        monkeypatch.setenv("XSFT_CACHE_DIR", str(folder / "cache"))
        child = os.fork()
        if child == 0:
            status = 2
            try:
                status = int(kill_and_continue(stage, number, folder=folder))
            except BaseException:  # noqa: BLE001 - pytest must not go on in a fork
                traceback.print_exc()
            os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (0, 1), number
        if status == 0:
            break
    assert number > 5
