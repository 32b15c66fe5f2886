"""Local runs follow the plan that was shown; a stand-in trainer prints what MaxText prints."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.localruns import FakeTrainer, local_plan
from tests.replacing import replace
from tests.trainer.test_metrics_event_file import event
from xsft.base.errors import EnvironmentMissing, Refused, UsageError
from xsft.cluster.observation import Observation
from xsft.launch.local_machine import trainer_command
from xsft.launch.local_run import LocalResult, already_done, run_local
from xsft.machine.filelock import exclusive
from xsft.machine.pid_namespace import detect
from xsft.planning.steps import Plan
from xsft.records.document import to_json
from xsft.records.index import read_index
from xsft.records.resumption import complete_record
from xsft.runs.local_runs import observe_local
from xsft.trainer.lines import CheckpointRestored, SaveFinished, Step, TrainerEvent

pytestmark = pytest.mark.loopback


def plan(tmp_path: Path, **changes: object) -> Plan:
    return local_plan(tmp_path / "out", **{"train__steps": 6, "train__checkpoint_period": 2, **changes})


def ran(plan: Plan, fake: FakeTrainer, **does: object) -> LocalResult:
    return run_local(plan, machine=fake.machine(**does), on_event=lambda _: None)


@pytest.mark.early
def test_the_trainer_gets_the_arguments_of_the_plan(tmp_path: Path, fake: FakeTrainer) -> None:
    shown = plan(tmp_path, name="shown")
    ran(shown, fake)
    assert fake.seen()["argv"][1:] == list(shown.trainer_argv[1:])
    assert trainer_command(shown, python=Path("/p"), attempt=1)[1:] == shown.trainer_argv[1:]


def test_the_trainer_gets_only_the_planned_environment(tmp_path: Path, fake: FakeTrainer) -> None:
    shown = plan(tmp_path, env={"MY": "1"})
    ran(shown, fake)
    env = fake.seen()["env"]
    assert shown.trainer_env.items() <= env.items()
    assert env["HF_HUB_OFFLINE"] == env["MY"] == "1"
    assert env["JAX_PLATFORMS"] == "cpu"
    assert "SECRET" not in env
    assert env["JAX_COMPILATION_CACHE_DIR"] == str(fake.folder / "cache" / "jax")
    assert not Path(env["TMPDIR"]).exists()
    assert fake.seen()["cwd"] == os.getcwd()


def test_jax_cache_dir_in_the_workload_wins_over_xsfts_cache(tmp_path: Path, fake: FakeTrainer) -> None:
    ran(plan(tmp_path, overrides__maxtext__jax_cache_dir=""), fake)
    assert "JAX_COMPILATION_CACHE_DIR" not in fake.seen()["env"]


def test_status_shows_a_local_run_from_its_first_line(tmp_path: Path, fake: FakeTrainer) -> None:
    machine = fake.machine()
    state = tmp_path / "state"
    machine = replace(machine, env={**machine.env, "XSFT_STATE_DIR": str(state)})
    observations: list[Observation] = []

    def look(_event: TrainerEvent) -> None:
        observations.extend(observe_local(read_index(state / "runs").entries, now="2026-11-21T12:00:00Z"))

    run_local(plan(tmp_path), machine=machine, on_event=look)
    first, last = observations[0], observations[-1]
    assert (first.run_name, first.mode, first.steps) == ("tiny-local", "mcjax", 6)
    assert first.record is not None
    assert (first.record.outcome, first.record.alive) == ("running", True)
    assert last.progress is not None
    assert last.progress.step == 6


def test_an_attempt_that_reads_another_commit_of_the_hub_says_so(tmp_path: Path, fake: FakeTrainer) -> None:
    def at(commit: str) -> Plan:
        planned = plan(tmp_path)
        return replace(planned, run=replace(planned.run, hub_commits={"tokenizer": commit * 40}))

    assert ran(at("a"), fake, exit=1).warnings == ()
    assert [found.id for found in ran(at("b"), fake, exit=1).warnings] == ["hf-revision-moved"]
    assert ran(at("b"), fake).warnings == ()


@pytest.mark.early
def test_a_completed_run_has_its_events_losses_checkpoints_and_record(tmp_path: Path, fake: FakeTrainer) -> None:
    events: list[TrainerEvent] = []
    result = run_local(plan(tmp_path), machine=fake.machine(), on_event=events.append)
    assert (result.action, result.outcome, result.steps, result.exit_status) == ("created", "completed", 6, 0)
    assert (result.first_loss, result.last_loss) == (6.9, 6.4)
    assert [c.name for c in result.checkpoints] == ["1", "2", "4", "6"]
    assert [e.step for e in events if isinstance(e, Step)] == [1, 2, 3, 4, 5, 6]
    assert [e.step for e in events if isinstance(e, SaveFinished)] == [1, 2, 4, 6]
    record = complete_record(result.record.read_text())
    assert record.spec_digest == plan(tmp_path).spec_digest
    assert (record.outcome, record.attempts[0].exit_status, record.losses) == ("completed", 0, result.losses)
    assert "Train loop finished" in Path(record.attempts[0].log).read_text()


def test_a_finished_run_is_recognised_before_the_trainer_starts(tmp_path: Path, fake: FakeTrainer) -> None:
    first = ran(plan(tmp_path), fake)
    before = first.record.read_bytes()
    again = ran(plan(tmp_path), fake, exit=99)
    assert (again.action, again.outcome, again.losses) == ("finished", "completed", first.losses)
    assert already_done(plan(tmp_path)) == again
    assert first.record.read_bytes() == before


def test_a_run_whose_data_ended_is_short_despite_exit_status_0(tmp_path: Path, fake: FakeTrainer) -> None:
    result = ran(plan(tmp_path), fake, data_ends=3)
    assert (result.outcome, result.exit_status, result.steps, result.reason) == ("short", 0, 3, "the data ended")


def test_a_run_without_its_last_checkpoint_is_short(tmp_path: Path, fake: FakeTrainer) -> None:
    result = ran(plan(tmp_path), fake, not_saved=6)
    assert (result.outcome, result.exit_status, result.steps) == ("short", 0, 6)
    assert result.reason == "the checkpoint of step 6 is missing"


def test_a_failed_trainers_error_is_the_reason(tmp_path: Path, fake: FakeTrainer) -> None:
    result = ran(plan(tmp_path), fake, first=["MAXTEXT CONFIG ERROR: 'stepz' not in 'a', 'b'"], exit=1)
    assert (result.outcome, result.exit_status, result.steps) == ("failed", 1, 0)
    assert result.reason == "MaxText does not know the key 'stepz'"
    assert complete_record(result.record.read_text()).attempts[0].reason == result.reason


def test_a_trainer_ended_by_a_signal_has_the_signal_as_reason(tmp_path: Path, fake: FakeTrainer) -> None:
    result = ran(plan(tmp_path), fake, exit=137)
    assert (result.reason or "").startswith("the trainer was killed (SIGKILL)")
    assert ran(plan(tmp_path), fake, exit=139).reason == "the trainer was ended by SIGSEGV"
    assert ran(plan(tmp_path), fake, exit=255).reason == "the trainer ended with exit status 255"


def test_a_kill_behind_unshare_is_reported(tmp_path: Path, fake: FakeTrainer) -> None:
    """The kill is that of the kernel's out-of-memory killer, in the namespace that this machine allows."""

    def kill(event: TrainerEvent) -> None:
        if isinstance(event, SaveFinished) and event.step == 4:
            for pid in _pids(str(machine.python)):
                os.kill(pid, signal.SIGKILL)

    machine = replace(fake.machine(hang_at=4), contain=detect)
    result = run_local(plan(tmp_path), machine=machine, on_event=kill)
    assert (result.outcome, result.exit_status, result.steps) == ("failed", 137, 4)
    assert (result.reason or "").startswith("the trainer was killed (SIGKILL)")
    assert "GB of memory" in (result.reason or "")


def test_a_new_attempt_resumes_and_keeps_the_losses_of_the_whole_run(tmp_path: Path, fake: FakeTrainer) -> None:
    ran(plan(tmp_path), fake, data_ends=3)
    events: list[TrainerEvent] = []
    result = run_local(plan(tmp_path), machine=fake.machine(), on_event=events.append)
    assert (result.action, result.resumed_from, result.outcome) == ("attempt", 3, "completed")
    assert result.resumed_order == "reshuffled"
    assert [a.order for a in complete_record(result.record.read_text()).attempts] == [None, "reshuffled"]
    assert already_done(plan(tmp_path)) == replace(result, action="finished", exit_status=None)
    assert [e.step for e in events if isinstance(e, CheckpointRestored | Step)] == [3, 4, 5, 6]
    assert sorted(result.losses) == [1, 2, 3, 4, 5, 6]
    assert [a.outcome for a in complete_record(result.record.read_text()).attempts] == ["short", "completed"]
    assert result.log is not None
    assert result.log.name == "trainer-2.log"


def test_the_end_of_the_losses_is_in_the_event_files_if_only_xsft_was_killed(tmp_path: Path, fake: FakeTrainer) -> None:
    """The trainer went on to its last step, but its log ends with xsft."""
    result = ran(plan(tmp_path), fake)
    assert result.log is not None
    record = complete_record(result.record.read_text())
    running = replace(record.last, outcome="running", log=str(result.log))
    result.record.write_text(to_json(replace(record, attempts=(running,), losses={})))
    lines = result.log.read_text().splitlines(keepends=True)
    result.log.write_text("".join(lines[: next(i for i, line in enumerate(lines) if "completed step: 4" in line)]))
    events = result.folder / "tensorboard" / result.folder.name / "events.out.tfevents.1.host"
    events.parent.mkdir(parents=True)
    events.write_bytes(b"".join(event(step, "learning/loss", 0.5) for step in (3, 5, 6, 7)))
    again = ran(plan(tmp_path), fake)
    assert (again.action, again.losses) == ("finished", {1: 6.9, 2: 6.8, 3: 6.7, 5: 0.5, 6: 0.5})


def test_more_epochs_continue_a_run_whose_data_ended(tmp_path: Path, fake: FakeTrainer) -> None:
    ran(plan(tmp_path), fake, data_ends=3)
    result = ran(plan(tmp_path, data__num_epoch=2), fake)
    assert (result.action, result.resumed_from, result.outcome) == ("attempt", 3, "completed")


def seeds_of(result: LocalResult) -> list[list[str]]:
    attempts = complete_record(result.record.read_text()).attempts
    return [[word for word in attempt.argv if word.startswith("data_shuffle_seed=")] for attempt in attempts]


def test_each_resumed_attempt_shuffles_its_rows_with_another_seed(tmp_path: Path, fake: FakeTrainer) -> None:
    """The first attempt keeps its seed, and so does an attempt that finds no checkpoint: it has read no rows."""
    ran(plan(tmp_path), fake, exit=1)
    ran(plan(tmp_path), fake, data_ends=3)
    ran(plan(tmp_path), fake, data_ends=4)
    result = ran(plan(tmp_path), fake)
    assert seeds_of(result) == [[], [], ["data_shuffle_seed=2002"], ["data_shuffle_seed=3003"]]
    assert fake.seen()["argv"][1:] == list(complete_record(result.record.read_text()).last.argv[1:])


@pytest.mark.parametrize("fields", [{"restarts__data": "repeat"}, {"data__shuffle": False}])
def test_a_resumed_attempt_repeats_its_rows_if_requested(
    tmp_path: Path, fake: FakeTrainer, fields: dict[str, object]
) -> None:
    ran(plan(tmp_path, **fields), fake, data_ends=3)
    result = ran(plan(tmp_path, **fields), fake)
    assert seeds_of(result) == [[], []]
    assert (result.resumed_from, result.resumed_order) == (3, "repeated")


def test_a_finished_run_resumes_if_steps_grow(tmp_path: Path, fake: FakeTrainer) -> None:
    ran(plan(tmp_path), fake)
    result = ran(plan(tmp_path, train__steps=8, train__checkpoint_period=4), fake)
    assert (result.action, result.resumed_from, result.steps) == ("attempt", 6, 8)


def test_steps_below_the_last_step_are_refused(tmp_path: Path, fake: FakeTrainer) -> None:
    ran(plan(tmp_path), fake)
    with pytest.raises(Refused, match=r"already reached step 6, and train\.steps is 4"):
        ran(plan(tmp_path, train__steps=4), fake)


def test_another_workload_in_the_folder_is_refused_with_the_difference(tmp_path: Path, fake: FakeTrainer) -> None:
    ran(plan(tmp_path), fake)
    with pytest.raises(Refused, match=r"train\.learning_rate: 0\.003 -> 0\.5"):
        ran(plan(tmp_path, train__learning_rate=0.5), fake)


def test_a_workload_that_never_trained_may_be_corrected(tmp_path: Path, fake: FakeTrainer) -> None:
    ran(plan(tmp_path, train__learning_rate=9.0), fake, exit=1)
    result = ran(plan(tmp_path), fake)
    assert (result.outcome, result.action) == ("completed", "attempt")


def test_checkpoints_of_an_unknown_run_are_refused(tmp_path: Path, fake: FakeTrainer) -> None:
    saved = tmp_path / "out" / "tiny-local" / "checkpoints" / "5"
    saved.mkdir(parents=True)
    (saved / "_CHECKPOINT_METADATA").touch()
    with pytest.raises(Refused, match=r"holds checkpoints \(step 5\)"):
        ran(plan(tmp_path), fake)


def test_a_record_that_cannot_be_read_is_left_alone(tmp_path: Path, fake: FakeTrainer) -> None:
    record = tmp_path / "out" / "tiny-local" / "xsft" / "run.json"
    record.parent.mkdir(parents=True)
    record.write_text("{")
    with pytest.raises(Refused, match="cannot be read") as caught:
        ran(plan(tmp_path), fake)
    assert record.read_text() == "{"
    move = caught.value.fix.partition(": ")[2]
    assert move == f"mv {record} {record}.damaged"
    subprocess.run(shlex.split(move), check=True)
    assert ran(plan(tmp_path), fake).outcome == "completed"


def test_a_folder_with_checkpoints_and_a_record_that_cannot_be_read_is_moved_whole(
    tmp_path: Path, fake: FakeTrainer
) -> None:
    ran(plan(tmp_path), fake, data_ends=3)
    run = tmp_path / "out" / "tiny-local"
    (run / "xsft" / "run.json").write_text("{")
    with pytest.raises(Refused, match="cannot be read") as caught:
        ran(plan(tmp_path), fake)
    assert caught.value.fix.endswith(f": mv {run} {run}.damaged")


def test_an_unfinished_save_is_no_checkpoint(tmp_path: Path, fake: FakeTrainer) -> None:
    ran(plan(tmp_path), fake, data_ends=3)
    (tmp_path / "out" / "tiny-local" / "checkpoints" / "6.orbax-checkpoint-tmp").mkdir()
    (tmp_path / "out" / "tiny-local" / "checkpoints" / "77").mkdir()  # no _CHECKPOINT_METADATA
    assert already_done(plan(tmp_path)) is None


def test_a_second_submit_is_refused_while_the_run_is_running(tmp_path: Path, fake: FakeTrainer) -> None:
    lock = tmp_path / "out" / "tiny-local" / "xsft" / "lock"
    with exclusive(lock, waiting=lambda: None), pytest.raises(Refused, match="is already running"):
        ran(plan(tmp_path), fake)


def test_an_output_in_a_bucket_is_a_usage_error(fake: FakeTrainer) -> None:
    with pytest.raises(UsageError, match="gs://bucket/runs"):
        ran(local_plan("gs://bucket/runs"), fake)


def test_a_missing_interpreter_is_a_missing_environment(tmp_path: Path, fake: FakeTrainer) -> None:
    machine = fake.machine()
    machine.python.unlink()
    with pytest.raises(EnvironmentMissing, match="could not be started"):
        run_local(plan(tmp_path), machine=machine, on_event=lambda _: None)


def test_padded_checkpoint_arrays_are_a_warning(tmp_path: Path, fake: FakeTrainer) -> None:
    result = ran(plan(tmp_path), fake, first=["Checkpoint shape mismatches (3 arrays): loading sharded"])
    assert [w.id for w in result.warnings] == ["checkpoint-padded"]


NOTHING = {"targets": 0, "losses": {str(n): 0.0 for n in range(1, 7)}}
NAN = {"losses": {str(n): float("nan") for n in range(3, 7)}}


@pytest.mark.parametrize(
    ("does", "reason", "words"),
    [
        (NOTHING, "no-target-tokens", "6 steps in a row had no target token"),
        (NAN, "loss-not-finite", "the loss of 4 steps was NaN or infinite"),
    ],
)
def test_a_run_without_target_tokens_or_finite_loss_has_failed(
    tmp_path: Path, fake: FakeTrainer, does: dict[str, Any], reason: str, words: str
) -> None:
    result = ran(plan(tmp_path), fake, **does)
    assert (result.outcome, result.state_reason, result.exit_status) == ("failed", reason, 0)
    assert words in (result.reason or "")
    attempt = complete_record(result.record.read_text()).attempts[0]
    assert (attempt.outcome, attempt.state_reason, attempt.reason) == ("failed", reason, result.reason)
    again = ran(plan(tmp_path), fake, exit=9)
    assert (again.action, again.outcome, again.reason) == ("finished", "failed", result.reason)


def test_a_crash_is_reported_beside_missing_target_tokens(tmp_path: Path, fake: FakeTrainer) -> None:
    result = ran(plan(tmp_path), fake, **NOTHING, ends_with=1, last_words="ValueError: late")
    assert result.state_reason == "no-target-tokens"
    assert "it ended with exit status 1 (ValueError: late)" in (result.reason or "")


def test_a_crash_after_the_last_checkpoint_is_no_failure(tmp_path: Path, fake: FakeTrainer) -> None:
    result = ran(plan(tmp_path), fake, ends_with=139)
    assert (result.outcome, result.reason) == ("completed", "the trainer was ended by SIGSEGV")
    assert [w.id for w in result.warnings] == ["failed-after-last-step"]
    assert complete_record(result.record.read_text()).last.reason == result.reason
    raised = ran(plan(tmp_path, name="b"), fake, ends_with=1, last_words="ValueError: late")
    assert (raised.outcome, raised.reason) == ("completed", "the trainer ended with exit status 1: ValueError: late")
    short = ran(plan(tmp_path, name="c"), fake, ends_with=1, not_saved=6)
    assert short.outcome == "failed"


def test_two_batches_with_nan_fail_a_run_only_if_they_are_all(tmp_path: Path, fake: FakeTrainer) -> None:
    assert ran(plan(tmp_path, name="six"), fake, losses={"1": float("nan"), "2": float("nan")}).outcome == "completed"
    two = ran(plan(tmp_path, name="two", train__steps=2), fake, **NOTHING)
    assert (two.outcome, two.state_reason) == ("failed", "no-target-tokens")


def test_a_record_that_claims_completion_is_checked_against_the_log(tmp_path: Path, fake: FakeTrainer) -> None:
    """An earlier xsft recorded such runs as completed."""
    first = ran(plan(tmp_path), fake, **NOTHING)
    document = json.loads(first.record.read_text())
    document["attempts"][0] |= {"outcome": "completed", "state_reason": None, "reason": None}
    first.record.write_text(json.dumps(document))
    assert ran(plan(tmp_path), fake).state_reason == "no-target-tokens"


def test_a_run_killed_with_xsft_after_its_last_step_is_judged_by_its_log(tmp_path: Path, fake: FakeTrainer) -> None:
    first = ran(plan(tmp_path), fake, **NOTHING)
    document = json.loads(first.record.read_text())
    document["attempts"][0] |= {"outcome": "running", "state_reason": None, "reason": None}
    first.record.write_text(json.dumps(document))
    done = already_done(plan(tmp_path))
    assert done is not None
    assert (done.outcome, done.state_reason) == ("failed", "no-target-tokens")


def test_a_loss_of_0_with_targets_is_a_warning_only(tmp_path: Path, fake: FakeTrainer) -> None:
    result = ran(plan(tmp_path), fake, losses={str(n): 0.0 for n in range(3, 7)})
    assert (result.outcome, [w.id for w in result.warnings]) == ("completed", ["loss-zero"])


@pytest.mark.parametrize("deaf", [False, True])
def test_an_interrupt_stops_the_trainer_and_keeps_its_checkpoints(
    tmp_path: Path, fake: FakeTrainer, deaf: bool
) -> None:
    def interrupt(event: TrainerEvent) -> None:
        if isinstance(event, SaveFinished) and event.step == 4:
            signal.raise_signal(signal.SIGINT)

    machine = fake.machine(hang_at=4, deaf=deaf)
    result = run_local(plan(tmp_path), machine=replace(machine, grace_s=0.5), on_event=interrupt)
    assert (result.outcome, result.steps, result.checkpoints[-1].name) == ("interrupted", 4, "4")
    assert complete_record(result.record.read_text()).outcome == "interrupted"
    assert not _running(str(machine.python))
    resumed = ran(plan(tmp_path), fake)
    assert (resumed.resumed_from, resumed.outcome) == (4, "completed")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_sigterm_and_sighup_interrupt_the_run(tmp_path: Path, fake: FakeTrainer, number: signal.Signals) -> None:
    def end(event: TrainerEvent) -> None:
        if isinstance(event, SaveFinished) and event.step == 4:
            signal.raise_signal(number)

    machine = fake.machine(hang_at=4)
    result = run_local(plan(tmp_path), machine=replace(machine, grace_s=0.5), on_event=end)
    assert (result.outcome, result.reason) == ("interrupted", f"ended by {number.name}")
    assert complete_record(result.record.read_text()).outcome == "interrupted"
    assert not _running(str(machine.python))


def test_a_run_killed_with_xsft_is_completed_from_its_log(tmp_path: Path, fake: FakeTrainer) -> None:
    first = ran(plan(tmp_path), fake, data_ends=3)
    document = json.loads(first.record.read_text())
    document["losses"] = []
    document["attempts"][0]["outcome"] = "running"
    first.record.write_text(json.dumps(document))
    result = ran(plan(tmp_path), fake)
    assert sorted(result.losses) == [1, 2, 3, 4, 5, 6]
    attempts = complete_record(result.record.read_text()).attempts
    assert [(a.outcome, a.last_step) for a in attempts] == [("failed", 3), ("completed", 6)]


def test_an_error_in_on_event_stops_the_trainer(tmp_path: Path, fake: FakeTrainer) -> None:
    def fail(event: TrainerEvent) -> None:
        if isinstance(event, SaveFinished):
            raise RuntimeError("ours")  # noqa: TRY004

    machine = fake.machine(hang_at=1)
    with pytest.raises(RuntimeError, match="ours"):
        run_local(plan(tmp_path), machine=replace(machine, grace_s=5), on_event=fail)
    assert not _running(str(machine.python))
    record = complete_record((tmp_path / "out" / "tiny-local" / "xsft" / "run.json").read_text())
    assert (record.outcome, record.attempts[0].reason) == ("failed", "ours")


def test_a_trainer_that_reports_a_full_disk_is_stopped(tmp_path: Path, fake: FakeTrainer) -> None:
    """The real trainer would wait for ever, because its TensorBoard thread is gone and the queue to it is full."""
    machine = fake.machine(plain=["OSError: [Errno 28] No space left on device"], hang_at=1)
    with pytest.raises(EnvironmentMissing, match="No space left on device") as caught:
        run_local(plan(tmp_path), machine=replace(machine, grace_s=5), on_event=lambda _: None)
    assert "free some space" in caught.value.fix
    assert not _running(str(machine.python))


def test_an_output_below_a_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(EnvironmentMissing, match="Not a directory") as caught:
        already_done(plan(tmp_path))
    assert "name another output" in caught.value.fix


def _pids(name: str) -> list[int]:
    """Return the process ids of the trainer itself, not of what started it."""
    listed = subprocess.run(["ps", "-ww", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    rows = (line.split(maxsplit=2) for line in listed.splitlines()[1:])
    return [int(row[0]) for row in rows if len(row) > 2 and "python" in Path(row[1]).name and row[2].startswith(name)]


def _running(name: str) -> bool:
    listed = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return any(name in line for line in listed.splitlines())
