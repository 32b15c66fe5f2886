"""An evaluation on this machine; the stand-in for MaxText's interpreter writes the answer that a test gives it."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.localruns import OPEN, local_plan
from tests.until import until
from xsft.base.errors import EnvironmentMissing, Refused, UsageError
from xsft.base.stage import StageEnd, StageFound
from xsft.evaluation.inputs import EvaluationPlan
from xsft.evaluation.report import from_json
from xsft.launch.local_machine import Machine
from xsft.machine.filelock import exclusive
from xsft.records.document import read_record
from xsft.records.record import Record
from xsft.stages.evaluate import LocalEvaluation
from xsft.stages.evaluate_plan import plan_evaluate
from xsft.stages.once import do_once, end_of_stage, find_job

pytestmark = pytest.mark.loopback

PROGRAM = """\
import json, os, sys, time
here = os.path.dirname(__file__)
does = json.load(open(os.path.join(here, "does.json")))
job, answer = sys.argv[-2:]
print("xsft evaluate: base: loading the weights", flush=True)
with open(os.path.join(here, "starts"), "a") as starts:
    starts.write("x")
time.sleep(does["sleeps"])
if isinstance(does["answer"], str):
    json.dump({"error": does["answer"]}, open(answer, "w"))
elif does["answer"] is not None:
    json.dump(does["answer"], open(answer, "w"))
sys.exit(does["exit"])
"""


def weights(text: str, loss: float | None = None) -> dict[str, Any]:
    answer = {"tokens": [1, 0], "text": text, "ended": "stop", "prompt_cut": False}
    return {"answers": [answer], "loss": loss, "targets": 0 if loss is None else 9, "rows": 0}


ANSWER = {
    "prompts": [[{"role": "user", "content": "What is 1 plus 1?"}]],
    "models": {"base": weights("no"), "tuned": weights("it is 2.")},
}


class Evaluated(Struct, frozen=True, kw_only=True):
    folder: Path
    plan: EvaluationPlan
    machine: Machine

    def does(self, answer: Any = ANSWER, *, exit: int = 0, sleeps: float = 0.0) -> Evaluated:
        (self.folder / "does.json").write_text(json.dumps({"answer": answer, "exit": exit, "sleeps": sleeps}))
        return self

    def performed(self, lines: list[str] | None = None) -> StageEnd:
        progress = (lines if lines is not None else []).append
        return end_of_stage(do_once(self.job(progress)), self.job().fix)

    def job(self, progress: Callable[[str], None] = print) -> LocalEvaluation:
        return LocalEvaluation(look=lambda: self.plan, machine=lambda: self.machine, progress=progress)

    def find(self) -> StageFound:
        return find_job(self.job())

    @property
    def starts(self) -> int:
        file = self.folder / "starts"
        return len(file.read_text()) if file.is_file() else 0

    @property
    def record(self) -> Record:
        return read_record((Path(self.plan.output) / self.plan.run_name / "xsft" / "run.json").read_bytes())


@pytest.fixture
def evaluated(tmp_path: Path) -> Evaluated:
    return evaluating(tmp_path)


def evaluating(folder: Path) -> Evaluated:
    script = folder / "fake-python"
    script.write_text(f"#!{sys.executable}\n{PROGRAM}")
    script.chmod(0o755)
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    machine = Machine(python=script, env=env, cache=folder / "cache", contain=lambda: OPEN)
    return Evaluated(folder=folder, plan=planned(folder), machine=machine).does()


def planned(folder: Path, *, matches: str = "is 2", trained: bool = True) -> EvaluationPlan:
    rules = [{"prompt": 0, "matches": matches}]
    stages = {"evaluate": {"prompts": ["What is 1 plus 1?"], "require": rules}}
    run = local_plan(folder / "runs", stages=stages).run
    plan = plan_evaluate(run, digest="0" * 64, file=folder / "workload.yaml")
    if trained:
        Path(plan.weights).mkdir(parents=True, exist_ok=True)
        Path(plan.weights, "_METADATA").write_text("{}")
    return plan


@pytest.mark.early
def test_an_evaluation_writes_its_report_and_record(evaluated: Evaluated) -> None:
    lines: list[str] = []
    end = evaluated.performed(lines)
    assert (end.action, end.state) == ("created", "done")
    assert "passed" in end.why
    assert lines == ["base: loading the weights"]
    assert end.result == f"{evaluated.plan.directory}/evaluation.json"
    report = from_json(Path(end.result).read_bytes())
    assert report is not None
    assert report.tuned.answers[0].text == "it is 2."
    assert report.judgement.verdict == "passed"
    record = evaluated.record
    assert (record.outcome, record.spec_digest, len(record.attempts)) == ("completed", evaluated.plan.digest, 1)
    assert "loading the weights" in Path(record.last.log).read_text()


def test_an_evaluation_runs_once_and_again_for_other_rules(evaluated: Evaluated) -> None:
    assert evaluated.find().state == "missing"
    first = evaluated.performed()
    assert evaluated.performed().action == "done"
    assert (evaluated.find().state, evaluated.find().result) == ("done", first.result)
    assert evaluated.starts == 1
    other = replace(evaluated, plan=planned(evaluated.folder, matches="is 3"))
    assert other.find().state == "missing"
    assert other.performed().result != first.result
    assert evaluated.starts == 2
    assert evaluated.find().state == "done"


def test_a_failed_verdict_is_kept_without_another_evaluation(evaluated: Evaluated) -> None:
    missed = replace(evaluated, plan=planned(evaluated.folder, matches="is 3"))
    end = missed.performed()
    assert (end.action, end.verdict) == ("created", "failed")
    assert "is 3" in end.why
    assert (missed.record.outcome, missed.record.last.reason) == ("failed", end.why)
    again = missed.performed()
    assert (again.action, again.verdict, again.why) == ("done", "failed", end.why)
    assert (missed.find().verdict, missed.starts) == ("failed", 1)


@pytest.mark.parametrize(
    ("answer", "exit", "why"),
    [("ValueError: no such key", 1, "ValueError: no such key"), (None, 1, "exit status 1")],
)
def test_a_failed_evaluation_is_retried_at_a_new_path(evaluated: Evaluated, answer: Any, exit: int, why: str) -> None:
    end = evaluated.does(answer, exit=exit).performed()
    assert (end.state, end.result) == ("failed", None)
    assert why in end.why
    assert (evaluated.find().state, evaluated.record.outcome) == ("failed", "failed")
    again = evaluated.does().performed()
    assert (again.action, again.state) == ("attempt", "done")
    assert again.result == f"{evaluated.plan.directory}-2/evaluation.json"
    assert [attempt.outcome for attempt in evaluated.record.attempts] == ["failed", "completed"]


def test_an_interrupted_evaluation_is_torn_and_the_next_call_runs_it(evaluated: Evaluated) -> None:
    evaluated.does(sleeps=60)
    threading.Thread(target=_interrupt_once_started, args=(evaluated,)).start()
    end = evaluated.performed()
    assert (end.state, end.interrupted) == ("torn", True)
    assert evaluated.record.outcome == "interrupted"
    assert evaluated.does().performed().state == "done"


def _interrupt_once_started(evaluated: Evaluated) -> None:
    until(lambda: evaluated.starts == 1)
    os.kill(os.getpid(), signal.SIGINT)


def test_a_killed_evaluation_is_torn(evaluated: Evaluated) -> None:
    evaluated.performed()
    Path(evaluated.plan.directory, "evaluation.json").unlink()
    file = Path(evaluated.plan.output) / evaluated.plan.run_name / "xsft" / "run.json"
    file.write_text(file.read_text().replace('"completed"', '"running"'))
    assert evaluated.find().state == "torn"
    end = evaluated.performed()
    assert (end.action, end.state) == ("attempt", "done")
    assert evaluated.record.attempts[0].reason == "xsft or the machine stopped"


def test_two_concurrent_callers_evaluate_once(evaluated: Evaluated) -> None:
    lines: list[str] = []
    other: list[StageEnd] = []
    lock = Path(evaluated.plan.output) / evaluated.plan.run_name / "xsft" / "lock"
    with exclusive(lock, waiting=lambda: None):
        assert evaluated.find().state == "running"
        waiting = threading.Thread(target=lambda: other.append(evaluated.performed(lines)))
        waiting.start()
        until(lambda: lines)
    waiting.join()
    assert "waiting for it" in lines[0]
    assert other[0].state == "done"


def test_weights_that_do_not_exist_are_refused(tmp_path: Path, evaluated: Evaluated) -> None:
    untrained = replace(evaluated, plan=planned(tmp_path / "other", trained=False))
    with pytest.raises(Refused, match="no checkpoint of step 40") as refused:
        untrained.performed()
    assert refused.value.problem_id == "evaluation-untrained"
    assert untrained.find().state == "missing"


def test_weights_larger_than_the_memory_are_refused(evaluated: Evaluated) -> None:
    with Path(evaluated.plan.weights, "d").open("wb") as file:
        file.truncate(1 << 43)
    with pytest.raises(EnvironmentMissing) as refused:
        evaluated.performed()
    assert refused.value.problem_id == "evaluation-memory"


def test_an_evaluation_with_another_maxtext_release_is_refused(evaluated: Evaluated) -> None:
    inputs = replace(evaluated.plan.inputs, release="0.2.3")
    with pytest.raises(UsageError) as refused:
        replace(evaluated, plan=replace(evaluated.plan, inputs=inputs)).performed()
    assert refused.value.problem_id == "evaluation-release"


def test_an_evaluation_does_not_use_the_folder_of_another_run(evaluated: Evaluated) -> None:
    evaluated.performed()
    file = Path(evaluated.plan.output) / evaluated.plan.run_name / "xsft" / "run.json"
    file.write_text(file.read_text().replace('"evaluation"', '"model"'))
    other = replace(evaluated, plan=planned(evaluated.folder, matches="is 4"))
    with pytest.raises(Refused) as refused:
        other.find()
    assert refused.value.problem_id == "stage-name-taken"
