"""A conversion on this machine: done once, found by its files, however it ends. The converter is a stand-in."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from tests.checkpoints import small_files
from tests.hfmodels import SIZES, write_model
from tests.localruns import OPEN
from tests.until import until
from xsft.base.errors import EnvironmentMissing, Refused, RunFailed
from xsft.launch.local_machine import Machine
from xsft.machine.filelock import exclusive
from xsft.planning import api
from xsft.planning.planner import conversion_plan
from xsft.records.document import read_record
from xsft.spec.conversion_inputs import RECORD_FILE, ConversionSource, read_conversion
from xsft.stages.convert import Conversion, ConversionResult, bytes_done, lacks
from xsft.stages.convert_stage import look
from xsft.stages.once import do_once
from xsft.weights.conversion_plan import ArraysDone, ConversionEvent, ConversionPhase, ConversionPlan
from xsft.weights.estimates import ConversionEstimate
from xsft.weights.inspect import writes

pytestmark = pytest.mark.loopback

MODEL = "qwen3-0.6b"

FAKE = """\
import json, os, sys, time
home = os.path.dirname(__file__)
does = json.load(open(os.path.join(home, "does.json")))
keys = dict(a.partition("=")[::2] for a in sys.argv[3:])
print("INFO:absl:Lazy loading ENABLED. Initializing LazyHFLoader for: x...", flush=True)
print("Transforming weights: 100%|####| 13/13 [00:00<00:00]", flush=True)
print("INFO:absl:Starting checkpoint save (loading weights just-in-time)...", flush=True)
base = keys["base_output_directory"]
open(os.path.join(home, "converted"), "a").write(base + "\\n")
torn = os.path.join(base, "0.orbax-checkpoint-tmp")
for name, text in does["files"].items():
    path = os.path.join(torn, "items", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").write(text)
if "touch" in does:
    open(does["touch"], "a").write(" ")
while os.path.exists(os.path.join(home, "hang")):
    time.sleep(0.01)
if not does.get("torn"):
    os.rename(torn, os.path.join(base, "0"))
for line in does.get("says", ()):
    print(line, flush=True)
print(json.dumps({"env": dict(os.environ), "argv": sys.argv}), file=open(os.path.join(home, "seen.json"), "w"))
sys.exit(does.get("exit", 0))
"""


@dataclass
class Lab:
    folder: Path
    events: list[ConversionEvent] = field(default_factory=list)
    waited: list[str] = field(default_factory=list)

    def workload(self, name: str = "tiny", **changes: Any) -> api.LoadedWorkload:
        document: dict[str, Any] = {
            "name": name,
            "target": "local",
            "model": {"name": MODEL, "tokenizer": "xsft://tiny/tokenizer", "hf": {"repo": str(self.folder / "model")}},
            "data": {"hf_path": "openai/gsm8k", "hf_name": "main", "columns": ["question", "answer"]},
            "train": {"steps": 2, "per_device_batch_size": 1, "max_target_length": 64},
            "output": str(self.folder / "out"),
            "overrides": {"maxtext": dict(SIZES)},
        }
        file = self.folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump({**document, **changes}))
        return api.load(file)

    def machine(self) -> Machine:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "HF_TOKEN": "not for the converter"}
        cache = self.folder / "cache"
        return Machine(python=self.folder / "python", env=env, cache=cache, contain=lambda: OPEN, now=lambda: "now")

    def does(self, **what: Any) -> None:
        files = {name: content.decode() for name, content in small_files(MODEL, given=SIZES).items()}
        (self.folder / "does.json").write_text(json.dumps({"files": files, **what}))

    def convert(self, workload: api.LoadedWorkload | None = None, **what: Any) -> ConversionResult:
        workload_of_lab = workload or self.workload()
        return do_once(self.asked(workload_of_lab, **what))

    def asked(self, workload: api.LoadedWorkload, **what: Any) -> Conversion:
        return Conversion(
            look=lambda: look(workload)[0],
            machine=what.get("machine", self.machine),
            cache=self.folder / "cache",
            on_event=what.get("on_event", self.events.append),
            waiting=lambda: self.waited.append("waited"),
            verify=what.get("verify", lambda _plan: "310 tensors equal the source's"),
            accepted=workload.spec.checks,
        )

    @property
    def runs(self) -> list[str]:
        """Folders that the converter wrote into, in order."""
        file = self.folder / "converted"
        return [Path(line).name for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.setenv("XSFT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("XSFT_CACHE_DIR", str(tmp_path / "cache"))
    yield converting(tmp_path)
    (tmp_path / "hang").unlink(missing_ok=True)


def converting(folder: Path) -> Lab:
    write_model(folder / "model")
    python = folder / "python"
    python.write_text(f"#!{sys.executable}\n{FAKE}")
    python.chmod(0o755)
    lab = Lab(folder=folder)
    lab.does()
    return lab


def test_a_conversion_runs_once_and_is_found_again(lab: Lab) -> None:
    first = lab.convert()
    assert (first.action, first.end.outcome, first.end.reason) == ("created", "completed", None)
    assert first.end.result == f"{first.plan.first}/0/items"
    again = lab.convert()
    assert (again.action, again.end.result) == ("finished", first.end.result)
    assert "tiny-convert converted the same weights" in again.end.why
    assert len(lab.runs) == 1
    (intent,) = api.intend((lab.workload(),))
    assert f"load_parameters_path={first.end.result}" in intent.trainer_argv
    assert "checkpoint-to-convert" not in {problem.id for problem in intent.problems}


def test_both_records_hold_the_source_and_the_outcome(lab: Lab) -> None:
    result = lab.convert()
    beside = read_conversion((Path(result.plan.directory) / RECORD_FILE).read_bytes())
    assert beside is not None
    assert (beside.outcome, beside.digest, beside.run_name) == ("completed", result.plan.digest, "tiny-convert")
    assert beside.inputs["source"]["content"] == result.plan.inputs.source.content
    assert result.record is not None
    assert result.record == lab.folder / "out" / "tiny-convert" / "xsft" / "run.json"
    record = read_record(result.record.read_bytes())
    assert (record.outcome, record.last.exit_status, record.unread) == ("completed", 0, ())
    assert writes(record) == result.end.result


def test_another_run_with_the_same_weights_finds_the_conversion(lab: Lab) -> None:
    first = lab.convert()
    other = lab.convert(lab.workload("other"))
    assert (other.action, other.end.result, len(lab.runs)) == ("finished", first.end.result, 1)
    assert not (lab.folder / "out" / "other-convert").exists()


def test_other_weights_or_flags_get_a_conversion_of_their_own(lab: Lab) -> None:
    lab.convert()
    write_model(lab.folder / "model", seed=1)
    lab.convert()
    lab.does(files={n: c.decode() for n, c in small_files(MODEL, axis=0, given=SIZES).items()})
    lab.convert(lab.workload(overrides={"maxtext": {**SIZES, "param_scan_axis": 0}}))
    assert len(set(lab.runs)) == 3


@pytest.mark.early
def test_phases_and_converted_arrays_are_reported(lab: Lab) -> None:
    lab.convert()
    progress_events = [event for event in lab.events if isinstance(event, ConversionPhase | ArraysDone)]
    assert progress_events == [
        ConversionPhase(name="loading"),
        ArraysDone(done=13, of=13),
        ConversionPhase(name="saving"),
    ]


def test_the_converter_of_a_folder_gets_no_token_and_no_network(lab: Lab) -> None:
    lab.convert()
    env = json.loads((lab.folder / "seen.json").read_text())["env"]
    assert "HF_TOKEN" not in env
    assert (env["HF_HUB_OFFLINE"], env["JAX_PLATFORMS"]) == ("1", "cpu")


def test_two_concurrent_callers_convert_once(lab: Lab) -> None:
    (lab.folder / "hang").touch()
    started = threading.Event()

    def on_event(event: ConversionEvent) -> None:
        if event == ConversionPhase(name="saving"):
            started.set()

    conversion_results: list[ConversionResult] = []
    thread = threading.Thread(target=lambda: conversion_results.append(lab.convert(on_event=on_event)))
    thread.start()
    assert started.wait(300)
    two = threading.Thread(target=lambda: conversion_results.append(lab.convert(lab.workload("other"))))
    two.start()
    until(lambda: bool(lab.waited))
    (lab.folder / "hang").unlink()
    thread.join()
    two.join()
    assert sorted(result.action for result in conversion_results) == ["created", "finished"]
    assert len(lab.runs) == 1


KILLED = """\
import os, signal, sys
from pathlib import Path
from tests.stages.test_convert import Lab
from xsft.weights.conversion_plan import ConversionPhase
lab = Lab(folder=Path(sys.argv[1]))
def on_event(event):
    if event == ConversionPhase(name="saving"):
        os.kill(os.getpid(), signal.SIGKILL)
lab.convert(on_event=on_event)
"""


def test_a_killed_conversion_is_torn_and_converted_again(lab: Lab) -> None:
    (lab.folder / "hang").touch()
    ended = subprocess.run([sys.executable, "-c", KILLED, str(lab.folder)], cwd=Path.cwd(), check=False)
    assert ended.returncode == -signal.SIGKILL
    plan, _ = look(lab.workload())
    torn = Path(plan.first) / "0.orbax-checkpoint-tmp"
    until((torn / "items" / "_METADATA").exists)
    _end_stand_in(lab)  # no kernel option ties it here, and it would go on
    assert look(lab.workload())[0].broken == (plan.first,)
    paths_before = sorted(str(path) for path in torn.rglob("*"))
    again = lab.convert()
    assert (again.end.outcome, again.end.result) == ("completed", f"{plan.first}-2/0/items")
    assert plan.first in again.end.why
    assert sorted(str(path) for path in torn.rglob("*")) == paths_before
    assert lab.convert().action == "finished"
    assert again.record is not None
    attempts = read_record(again.record.read_bytes()).attempts
    assert [attempt.outcome for attempt in attempts] == ["failed", "completed"]
    assert again.action == "attempt"


def _end_stand_in(lab: Lab) -> None:
    """Stop the stand-in, found by its own command line, which names this test's folder."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if str(lab.folder / "python").encode() in command and b"to_maxtext" in command:
            os.kill(int(entry.name), signal.SIGKILL)
    (lab.folder / "hang").unlink()


def test_a_conversion_killed_after_the_save_gets_its_record_completed(lab: Lab) -> None:
    first = lab.convert()
    assert first.record
    beside = Path(first.plan.directory) / RECORD_FILE
    for file in (beside, first.record):
        file.write_text(file.read_text().replace('"completed"', '"running"'))
    again = lab.convert()
    assert (again.action, again.end.result) == ("finished", first.end.result)
    assert (conversion_record := read_conversion(beside.read_bytes()))
    assert conversion_record.outcome == "completed"
    assert read_record(first.record.read_bytes()).outcome == "completed"


def test_ctrl_c_stops_a_conversion_and_the_next_call_starts_again(lab: Lab) -> None:
    (lab.folder / "hang").touch()

    def interrupt(event: ConversionEvent) -> None:
        if event == ConversionPhase(name="saving"):
            signal.raise_signal(signal.SIGINT)

    stopped = lab.convert(on_event=interrupt)
    assert (stopped.end.outcome, stopped.end.result) == ("interrupted", None)
    (lab.folder / "hang").unlink()
    again = lab.convert()
    assert again.end.outcome == "completed"
    assert stopped.record
    assert [attempt.outcome for attempt in read_record(stopped.record.read_bytes()).attempts] == [
        "interrupted",
        "completed",
    ]


def test_a_failed_converter_reports_its_error_and_the_next_call_uses_a_new_folder(lab: Lab) -> None:
    lab.does(torn=True, exit=1, says=["ValueError: Key model.norm.weight not found in HF checkpoint index."])
    failed = lab.convert()
    assert (failed.end.outcome, failed.end.result) == ("failed", None)
    assert "model.norm.weight" in (failed.end.reason or "")
    lab.does()
    again = lab.convert()
    assert again.end.result == f"{failed.plan.first}-2/0/items"


def test_a_converter_ended_by_a_signal_has_the_signal_as_reason(lab: Lab) -> None:
    lab.does(torn=True, exit=139)
    assert lab.convert().end.reason == "to_maxtext was ended by SIGSEGV"


def test_exit_status_0_without_a_whole_checkpoint_is_a_failure(lab: Lab) -> None:
    lab.does(torn=True)
    failed = lab.convert()
    assert failed.end.outcome == "failed"
    assert "is not the requested checkpoint" in (failed.end.reason or "")


def test_a_checkpoint_that_is_not_its_source_fails_and_is_not_used(lab: Lab) -> None:
    def differs(_plan: ConversionPlan) -> str:
        raise RunFailed("The converted checkpoint is not its source: 3 tensors differ.", fix="Report it.")

    done = lab.convert(verify=differs)
    assert (done.end.outcome, done.end.result) == ("failed", None)
    assert (done.end.reason or "").startswith("The converted checkpoint is not its source")
    again = lab.convert()
    assert (again.action, again.end.outcome) == ("attempt", "completed")
    assert again.end.why.endswith("; 310 tensors equal the source's")
    assert lab.convert().end.why.endswith("; 310 tensors equal the source's")


def test_an_error_after_the_save_is_a_warning(lab: Lab) -> None:
    lab.does(exit=1, says=["RuntimeError: at the very end"])
    result = lab.convert()
    assert result.end.outcome == "completed"
    assert "failed-after-save" in {problem.id for problem in result.end.warnings}


def test_weights_that_change_during_a_conversion_fail_it(lab: Lab) -> None:
    config = lab.folder / "model" / "config.json"
    before = config.read_text()
    lab.does(touch=str(config))
    failed = lab.convert()
    assert failed.end.outcome == "failed"
    assert "changed while it was converted" in (failed.end.reason or "")
    config.write_text(before)
    lab.does()
    again = lab.convert()
    assert (again.end.outcome, again.end.result) == ("completed", f"{failed.plan.first}-2/0/items")


def test_a_converted_checkpoint_of_another_size_is_a_failure(lab: Lab) -> None:
    lab.does(files={name: content.decode() for name, content in small_files("qwen3-1.7b").items()})
    failed = lab.convert()
    assert failed.end.outcome == "failed"
    assert "does not hold qwen3-0.6b" in (failed.end.reason or "")
    lab.does()
    assert lab.convert().end.result == f"{failed.plan.first}-2/0/items"


def test_an_existing_checkpoint_of_another_size_is_passed_over(lab: Lab) -> None:
    plan, _ = look(lab.workload())
    for name, content in small_files("qwen3-1.7b").items():
        file = Path(plan.first) / "0" / "items" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    assert lab.convert().end.result == f"{plan.first}-2/0/items"


def test_a_folder_with_other_weights_is_left_alone(lab: Lab) -> None:
    hf = {"repo": str(lab.folder / "model"), "converted": str(lab.folder / "mine")}
    model = {"name": MODEL, "tokenizer": "xsft://tiny/tokenizer", "hf": hf}
    first = lab.convert(lab.workload(model=model))
    write_model(lab.folder / "model", seed=1)
    second = lab.convert(lab.workload(model=model))
    assert (first.end.result, second.end.result) == (
        f"{lab.folder}/mine/0/items",
        f"{lab.folder}/mine-2/0/items",
    )


def test_a_conversion_does_not_use_the_folder_of_a_training(lab: Lab) -> None:
    result = lab.convert()
    assert result.record
    result.record.write_text(result.record.read_text().replace('"conversion"', '"model"'))
    write_model(lab.folder / "model", seed=1)
    with pytest.raises(Refused, match="another run"):
        lab.convert()
    assert len(lab.runs) == 1


def test_a_conversion_of_the_same_run_with_other_weights_is_refused_meanwhile(lab: Lab) -> None:
    plan, _ = look(lab.workload())
    with (
        exclusive(lab.asked(lab.workload()).run_of(plan).folder.lock, waiting=lambda: None),
        pytest.raises(Refused, match="other weights"),
    ):
        lab.convert()


def _needing(lab: Lab, **sizes: int) -> tuple[set[str], str]:
    (intent,) = api.intend((lab.workload(),))
    plan = conversion_plan(intent.run)
    assert plan
    needs = ConversionEstimate(**{"memory": 0, "output": 0, "download": 0, **sizes})
    problems = lacks(
        type(plan)(**{f: getattr(plan, f) for f in plan.__struct_fields__} | {"estimate": needs}), cache=lab.folder
    )
    return {problem.id for problem in problems}, " ".join(problem.message for problem in problems)


@pytest.mark.parametrize(
    ("sizes", "id"),
    [
        ({}, None),
        ({"memory": 10**15}, "conversion-memory"),
        ({"output": 10**18}, "conversion-disk"),
        ({"download": 10**18}, "conversion-disk"),
    ],
)
def test_memory_and_disk_are_checked_before_a_conversion(lab: Lab, sizes: dict[str, int], id: str | None) -> None:
    problem_ids, message = _needing(lab, **sizes)
    assert problem_ids == ({id} if id else set())
    assert "GB" in message or not id


def test_a_model_of_unknown_size_is_reported_as_unchecked(lab: Lab) -> None:
    plan = look(lab.workload())[0]
    (reported,) = lacks(replace(plan, estimate=None), cache=lab.folder)
    assert (reported.id, reported.severity) == ("conversion-unchecked", "warning")


@pytest.mark.early
def test_no_environment_is_built_for_a_conversion_that_cannot_run(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xsft.stages.once.memory_bytes", lambda: 1000)
    built: list[str] = []

    def build() -> Machine:
        built.append("built")
        return lab.machine()

    with pytest.raises(EnvironmentMissing, match="memory"):
        lab.convert(machine=build)
    assert built == []


def test_bytes_done_includes_the_growing_download(lab: Lab) -> None:
    source = ConversionSource(repo="owner/name")
    plan = look(lab.workload())[0]
    needs = ConversionEstimate(memory=1, output=100, download=5000)
    plan = replace(plan, inputs=replace(plan.inputs, source=source), estimate=needs)
    blobs = lab.folder / "cache" / "huggingface" / "hub" / "models--owner--name" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / "abc.incomplete").write_bytes(b"x" * 1234)
    folder = Path(plan.directory)
    progress = bytes_done(plan, folder, machine=lab.machine())
    assert (progress.doing, progress.done, progress.of) == ("downloading", 1234, 5000)
    (folder / "0").mkdir(parents=True)
    (folder / "0" / "d").write_bytes(b"x" * 10)
    progress = bytes_done(plan, folder, machine=lab.machine())
    assert (progress.doing, progress.done, progress.of) == ("saving", 10, 100)


def test_too_little_memory_refuses_before_anything_is_written(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xsft.stages.once.memory_bytes", lambda: 1000)
    with pytest.raises(EnvironmentMissing, match="memory") as refused:
        lab.convert()
    assert refused.value.problem_id == "conversion-memory"
    assert lab.runs == []
    accepted = lab.workload(checks={"conversion-memory": "there is swap"})
    assert "checks-unused" not in {problem.id for problem in look(accepted)[1]}
    done = lab.convert(accepted)
    assert done.end.outcome == "completed"
    (reported,) = [problem for problem in done.end.warnings if problem.id == "conversion-memory"]
    assert (reported.severity, "accepted: there is swap" in reported.message) == ("note", True)
