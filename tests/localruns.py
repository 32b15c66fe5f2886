"""Local plans in a temporary folder, and a stand-in for the trainer that prints what MaxText prints."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.replacing import replace
from xsft.checks.facts import Facts
from xsft.launch.local_machine import Machine
from xsft.machine.paths import own_cache
from xsft.machine.pid_namespace import Containment, detect
from xsft.planning.planner import make_intent, make_plan
from xsft.planning.steps import Plan
from xsft.spec.model import WorkloadSpec
from xsft.spec.yamltext import load_yaml

WORKLOADS = Path(__file__).parent.parent / "workloads"

FAKE = """\
import json, os, signal, sys, time
does = json.load(open(os.path.join(os.path.dirname(__file__), "does.json")))
keys = dict(a.partition("=")[::2] for a in sys.argv[3:])
saved = os.path.join(keys["base_output_directory"], keys["run_name"], "checkpoints")
steps, period = int(keys["steps"]), int(keys["checkpoint_period"])
def say(text):
    print("I1121 11:55:14.470897 140142328048512 somewhere.py:1] " + text, flush=True)
def save(step):
    say(f"[process=0] Saving checkpoint at step {step}")
    folder = os.path.join(saved, str(step))
    os.makedirs(folder, exist_ok=True)
    open(os.path.join(folder, "_CHECKPOINT_METADATA"), "w").write("{}")
    say(f"[process=0][thread=async_save] Finished saving checkpoint (finalized tmp dir) to `{folder}`.")
def done(step):
    loss = does.get("losses", {}).get(str(step), 7 - step / 10)
    targets = does.get("targets", 84)
    say(f"Train step {step} training loss: {loss:.6f}  - training perplexity: 1.0")
    say(f"completed step: {step}, seconds: 0.217, TFLOP/s/device: 0.001, Tokens/s/device: 1181.694, "
        f"total_weights: {targets}, loss: {loss:.3f}, lm_loss: 0.000, perplexity: 631.719")
json.dump({"argv": sys.argv, "env": dict(os.environ), "cwd": os.getcwd()}, open(does["seen"], "w"))
for line in does.get("first", ()):
    say(line)
for line in does.get("plain", ()):
    print(line, flush=True)
if "exit" in does:
    sys.exit(does["exit"])
if does.get("deaf"):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
last = max((int(n) for n in os.listdir(saved)), default=0) if os.path.isdir(saved) else 0
if last:
    say(f"Restored params from step: {last} in 0.094 seconds")
end = min(steps, does.get("data_ends", steps))
for step in range(last + 1, end + 1):
    done(step)
    if (step == 1 or step % period == 0 or step == end) and step != does.get("not_saved"):
        save(step)
    if step == does.get("hang_at"):
        time.sleep(60)
if end < steps:
    say("Exception in load_next_train_batch: You may have run out of training data. Received <class 'StopIteration'> "
        "exception: (Run out of shards on host 0, shard 1 is not available)")
say("Train loop finished in: 2.2828 seconds")
if "last_words" in does:
    print(does["last_words"], flush=True)
sys.exit(does.get("ends_with", 0))
"""

OPEN = Containment(prefix=(), private=False, why_not="a test", needed=False)


@dataclass(frozen=True, kw_only=True)
class FakeTrainer:
    """An interpreter that runs no MaxText; `does` is what happens next."""

    folder: Path

    def machine(self, **does: Any) -> Machine:
        script = self.folder / "fake-python"
        script.write_text(f"#!{sys.executable}\n{FAKE}")
        script.chmod(0o755)
        (self.folder / "does.json").write_text(json.dumps({"seen": str(self.folder / "seen.json"), **does}))
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "SECRET": "not for the trainer"}
        return Machine(python=script, env=env, cache=self.folder / "cache", contain=lambda: OPEN, now=lambda: "now")

    def seen(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "seen.json").read_text()))


@pytest.fixture
def fake(tmp_path: Path) -> FakeTrainer:
    """The trainer's stand-in in a folder of its own."""
    folder = tmp_path / "fake"
    folder.mkdir()
    return FakeTrainer(folder=folder)


@pytest.fixture(scope="session")
def private_pids() -> Containment:
    """Return how a process gets a PID namespace of its own: MaxText ends other people's processes otherwise."""
    if not (containment := detect()).private:
        pytest.skip(f"no PID namespace here, and MaxText must not run without one in a test: {containment.why_not}")
    return containment


@pytest.fixture(scope="session")
def trainer_machine(
    private_pids: Containment, maxtext_python: Path, tmp_path_factory: pytest.TempPathFactory
) -> Machine:
    """The real trainer's, with the user's cache: no program of XLA's is compiled twice."""
    env = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(tmp_path_factory.mktemp("home")),
        "XSFT_STATE_DIR": os.environ["XSFT_STATE_DIR"],
    }
    return Machine(python=maxtext_python, env=env, cache=own_cache(), contain=lambda: private_pids)


@pytest.fixture(scope="session")
def warm_machine(trainer_machine: Machine, warm_python: Path) -> Machine:
    """The same trainer, imported already: for a training that no test interrupts."""
    return replace(trainer_machine, python=warm_python)


def local_plan(output: Path | str, *, workload: str = "tiny_local.yaml", **changes: Any) -> Plan:
    """`train__steps=6` changes train.steps; a value of `maxtext` goes to the overrides."""
    document = load_yaml((WORKLOADS / workload).read_text())
    document["output"] = str(output)
    for path, value in changes.items():
        *parents, leaf = path.split("__")
        node = document
        for name in parents:
            node = node.setdefault(name, {})
        node[leaf] = value
    return make_plan(make_intent(WorkloadSpec.model_validate(document), Facts()), rendered=None, file=workload)
