"""The real MaxText trainer on this machine's CPU, always in a PID namespace of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.localruns import WORKLOADS, local_plan
from xsft.launch.local_machine import Machine
from xsft.launch.local_run import LocalResult, run_local
from xsft.machine.pid_namespace import orphans
from xsft.planning.steps import Plan
from xsft.runs.compare import later_losses
from xsft.trainer.lines import CheckpointRestored, SaveFinished, Step, TrainerEvent
from xsft.verbs.submission import adapter_text

pytestmark = pytest.mark.trainer


@pytest.fixture
def machine(trainer_machine: Machine) -> Machine:
    return trainer_machine


@pytest.fixture
def orphan() -> Iterator[int]:
    """A process of our own that MaxText would take for a lost worker and end."""
    code = "import time; time.sleep(3000)  # multiprocessing.resource_tracker"
    silent = "stdin=-3, stdout=-3, stderr=-3"  # subprocess.DEVNULL; a pipe of ours would keep us waiting for its end
    start = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {code!r}], {silent}).pid)"
    started = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True, check=True)
    pid = int(started.stdout)
    yield pid
    os.kill(pid, signal.SIGKILL)  # raises where it is gone already: the test has failed then


def ran(plan: Plan, machine: Machine, events: list[TrainerEvent] | None = None) -> LocalResult:
    return run_local(plan, machine=machine, on_event=(events if events is not None else []).append)


def test_the_tiny_workload_learns_and_leaves_other_processes_alone(
    tmp_path: Path, machine: Machine, orphan: int
) -> None:
    if orphan not in orphans(Path("/proc"), uid=os.geteuid()):
        pytest.skip("orphans are not adopted by PID 1 here, so MaxText would not see this one either")
    events: list[TrainerEvent] = []
    result = ran(local_plan(tmp_path), machine, events)
    assert (result.outcome, result.steps, result.exit_status, result.private_pids) == ("completed", 40, 0, True)
    assert [e.step for e in events if isinstance(e, Step)] == list(range(1, 41))
    assert result.first_loss is not None
    assert result.last_loss is not None
    assert result.first_loss > 6
    assert result.last_loss < 3
    assert [c.name for c in result.checkpoints] == ["1", "10", "20", "30", "40"]
    os.kill(orphan, 0)
    assert result.log is not None
    assert "Terminating orphaned" not in result.log.read_text()
    assert list((result.folder / "tensorboard").glob("events.out.tfevents.*"))
    assert later_losses(result.folder, after=0) == pytest.approx(result.losses, abs=1e-5)
    again = ran(local_plan(tmp_path), machine)
    assert (again.action, again.losses) == ("finished", result.losses)


def test_an_interrupted_run_resumes_from_its_checkpoint_and_rereads_its_first_rows(
    tmp_path: Path, machine: Machine, warm_machine: Machine
) -> None:
    """The rows are told by the target tokens of each step: with one seed (`restarts.data: repeat`) they come again.

    Green no more when MaxText restores the position of its data. tests/contract/test_rows_read_twice.py reads them in
    another order with another seed.
    """
    read: list[TrainerEvent] = []

    def interrupt(event: TrainerEvent) -> None:
        read.append(event)
        if isinstance(event, SaveFinished) and event.step == 10:
            signal.raise_signal(signal.SIGINT)

    longer = {"data__num_epoch": 100, "data__packing": False, "restarts": {"data": "repeat"}}
    stopped = run_local(local_plan(tmp_path, train__steps=3000, **longer), machine=machine, on_event=interrupt)
    assert stopped.outcome == "interrupted"
    step = int(stopped.checkpoints[-1].name)
    assert step >= 10
    events: list[TrainerEvent] = []
    result = ran(local_plan(tmp_path, train__steps=step + 3, **longer), warm_machine, events)
    numbers = [(type(e), e.step) for e in events if isinstance(e, CheckpointRestored | Step)]
    assert numbers == [(CheckpointRestored, step), (Step, step + 1), (Step, step + 2), (Step, step + 3)]
    assert (result.outcome, result.resumed_from, sorted(result.losses)) == ("completed", step, list(range(1, step + 4)))
    first, again = ([e.target_tokens for e in of if isinstance(e, Step)] for of in (read, events))
    assert again == first[:3] != first[3:6]


def test_a_run_whose_data_ended_early_is_short(tmp_path: Path, warm_machine: Machine) -> None:
    """MaxText exits 0 here."""
    settings = {"data__columns": ["question", "answer"], "train__per_device_batch_size": 16, "train__steps": 50}
    result = ran(local_plan(tmp_path, **settings), warm_machine)
    assert (result.outcome, result.exit_status, result.reason) == ("short", 0, "the data ended")
    assert 1 <= result.steps < 50


def test_a_run_whose_answers_are_all_cut_off_has_failed(tmp_path: Path, warm_machine: Machine) -> None:
    """MaxText trains on nothing, saves, and exits with 0."""
    message = {"role": "user", "content": "Tell me once more, and slowly, what it was. " * 60}
    rows = [{"messages": [message, {"role": "assistant", "content": f"It was {n}."}]} for n in range(64)]
    data = tmp_path / "long.jsonl"
    data.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    few = {"data__hf_train_files": str(data), "data__rows": len(rows), "train__steps": 4}
    result = ran(local_plan(tmp_path, **few), warm_machine)
    assert (result.outcome, result.state_reason, result.exit_status) == ("failed", "no-target-tokens", 0)
    assert [c.name for c in result.checkpoints][-1] == "4"


def test_a_run_whose_loss_is_not_a_number_and_may_go_on_has_failed(tmp_path: Path, warm_machine: Machine) -> None:
    plan = local_plan(tmp_path, train__learning_rate=1e6, train__steps=6, overrides__maxtext__abort_on_nan_loss=False)
    result = ran(plan, warm_machine)
    assert (result.outcome, result.state_reason, result.exit_status) == ("failed", "loss-not-finite", 0)
    stopped = ran(local_plan(tmp_path, name="stopped", train__learning_rate=1e6, train__steps=6), warm_machine)
    assert (stopped.outcome, stopped.state_reason) == ("failed", None)
    assert stopped.reason == "MaxText stopped because of NaN loss"


@pytest.mark.usefixtures("warm_maxtext")
def test_lora_saves_the_adapter_only_and_a_missed_rule_ends_the_pipeline(tmp_path: Path, warm_machine: Machine) -> None:
    plan = local_plan(tmp_path, workload="tiny_lora_local.yaml")
    result = ran(plan, warm_machine)
    assert (result.outcome, result.reason) == ("completed", None)
    assert result.first_loss is not None
    assert result.last_loss is not None
    assert result.last_loss < result.first_loss - 1
    metadata = (result.checkpoints[-1] / "model_params" / "_METADATA").read_text()
    names = set(json.loads(metadata)["tree_metadata"])
    assert names
    assert all(re.search(r"lora_[ab]", name) for name in names)
    text = adapter_text(plan, result)
    assert text is not None
    assert "8,192 parameters; the whole model is 139,584 parameters" in text
    status, stages = evaluated(tmp_path, requires="not in the data")
    assert status == 6
    assert [(stage_row["name"], stage_row["action"], stage_row["verdict"]) for stage_row in stages] == [
        ("train", "done", None),
        ("evaluate", "created", "failed"),
    ]
    report = json.loads(Path(stages[1]["result"]).read_text())
    assert [len(report[which]["answers"][0]["tokens"]) for which in ("base", "tuned")] == [2, 2]


def evaluated(output: Path, *, requires: str) -> tuple[int, list[dict[str, Any]]]:
    """Exit status and stages of `xsft run` for the LoRA training of `output`."""
    document = yaml.safe_load((WORKLOADS / "tiny_lora_local.yaml").read_text())
    stage = {"prompts": ["What is 1 plus 1?"], "max_new_tokens": 2, "require": [{"prompt": 0, "matches": requires}]}
    file = output / "lora.yaml"
    file.write_text(yaml.safe_dump({**document, "output": str(output), "stages": {"evaluate": stage}}))
    argv = (sys.executable, "-m", "xsft", "run", str(file), "--json")
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout)["stages"]


def test_a_run_that_failed_of_an_unknown_key_names_the_key(tmp_path: Path, machine: Machine) -> None:
    result = ran(local_plan(tmp_path, overrides__maxtext={"stepz": 1}), machine)
    assert (result.outcome, result.reason) == ("failed", "MaxText does not know the key 'stepz'")


def test_accumulation_fails_with_the_tunix_of_the_lock(tmp_path: Path, warm_machine: Machine) -> None:
    """What `gradient-accumulation-tunix` refuses; green no more when the lock's Tunix can do it."""
    result = ran(local_plan(tmp_path, train__gradient_accumulation_steps=2, train__steps=2), warm_machine)
    assert (result.outcome, result.steps) == ("failed", 0)
    assert "'NoneType' object has no attribute 'add'" in str(result.reason)


def test_the_shipped_tokenizer_is_the_output_of_its_script(maxtext_python: Path, tmp_path: Path) -> None:
    script = Path(__file__).parent.parent / "tools" / "make_tiny_data.py"
    subprocess.run([str(maxtext_python), str(script), str(tmp_path)], check=True, capture_output=True)
    from xsft.catalog.data import located

    shipped = Path(located("xsft://tiny/tokenizer")) / "tokenizer.json"
    assert (tmp_path / "tokenizer" / "tokenizer.json").read_bytes() == shipped.read_bytes()
