"""Asks MaxText's own input pipeline what a workload's data becomes, in a process of its own, on this machine."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, convert

from xsft.dataset.examples import TokenSequence
from xsft.effects.local import data_worker
from xsft.effects.local.machine import PASSED_ON, PASSED_ON_ONLINE, Machine, hub_token
from xsft.effects.local.namespace import refuse_where_harmful
from xsft.effects.machine import process
from xsft.effects.machine.scratch import scratch_folder
from xsft.errors import EnvironmentMissing, SpecError, Unreachable
from xsft.problems import error
from xsft.spec.base import Value
from xsft.spec.resolve import Run
from xsft.trainers.arguments import argument
from xsft.trainers.local import reads_only_files
from xsft.trainers.maxtext import trainer_argv
from xsft.trainers.tokenizer_copy import copy_of, copying

WORKER = Path(data_worker.__file__)
TIMEOUT_S = 1800.0
"""Tokenizing is some thousand rows a second; `--all` of a large split takes its time."""

HERE: Mapping[str, Value] = {
    "hardware": "cpu",
    "skip_jax_distributed_system": True,
    "enable_goodput_recording": False,
    "enable_single_controller": False,
    "grain_worker_count": 0,
    "log_config": False,
    "enable_data_shuffling": False,
    "per_device_batch_size": 1,
    "num_epoch": 1,
}
"""What one CPU device needs, and rows in the order of the file. None of it changes a row."""
_NOT_HERE = ("ici_", "dcn_", "load_parameters_path=", "lora.", "profiler", "gradient_accumulation_steps=")
"""Keys of meshes and weights, for which nothing is here."""

_OFFLINE = re.compile(
    r"^(\w*ConnectionError|ConnectTimeout|OfflineModeIsEnabled)\b|LocalEntryNotFoundError|Couldn't reach"
)
"""How datasets and huggingface_hub say that nothing answered."""


class Pass(Struct, frozen=True, kw_only=True):
    """One reading of the data from its start."""

    rows: int
    """Sequences that are read, at most."""
    packing: bool
    max_target_length: int
    lengths_only: bool = False


class PassRead(Struct, frozen=True, kw_only=True):
    rows: tuple[TokenSequence, ...] = ()
    lengths: tuple[int, ...] = ()
    """Of a pass that asked for lengths only."""
    ended: bool
    """There was no more data."""


class Answers(Struct, frozen=True, kw_only=True):
    passes: tuple[PassRead, ...]
    texts: Mapping[int, str]


def read(run: Run, passes: tuple[Pass, ...], *, machine: Machine) -> Answers:
    """Raises SpecError with MaxText's own words where it refuses the data, EnvironmentMissing where it cannot run."""
    contained = machine.contain()
    refuse_where_harmful(contained)
    with scratch_folder("data") as scratch:
        folder = str(scratch)
        job, answer = Path(folder, "job.json"), Path(folder, "answer.json")
        asked = [
            {"argv": _argv(run, one, folder), "rows": one.rows, "lengths_only": one.lengths_only} for one in passes
        ]
        job.write_text(json.dumps({"passes": asked}), encoding="utf-8")
        # -I: neither the user's site nor the checkout can shadow MaxText.
        program = (*_copying(run, folder), "-I", str(WORKER), str(job), str(answer))
        argv = (*contained.prefix, str(machine.python), *program)
        done = process.run(argv, env=_environment(run, machine, folder), cwd=Path.cwd(), timeout_s=TIMEOUT_S)
        if not answer.exists():
            words = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "it said nothing")
            raise EnvironmentMissing(f"MaxText's pipeline did not run: {words}", fix="run `xsft setup maxtext`")
        return _answers(json.loads(answer.read_text(encoding="utf-8")))


def _answers(found: Mapping[str, Any]) -> Answers:
    if "error" in found and _OFFLINE.search(found["error"]):
        fix = "Check the network, or name a copy: --set data.hf_path=json --set data.hf_train_files=FILE."
        raise Unreachable(f"MaxText could not fetch the data: {found['error']}", fix=fix)
    if "error" in found:
        fix = "Correct the data section; the words are MaxText's."
        raise SpecError((error("data-refused", "data", f"MaxText refuses the data: {found['error']}", fix),))
    readings = tuple(_reading(one) for one in found["passes"])
    return Answers(passes=readings, texts={int(token): text for token, text in found["texts"].items()})


def _reading(found: Mapping[str, Any]) -> PassRead:
    rows = found["rows"]
    if rows and isinstance(rows[0], int):
        return PassRead(lengths=tuple(rows), ended=found["ended"])
    return PassRead(rows=convert(rows, tuple[TokenSequence, ...]), ended=found["ended"])


def _argv(run: Run, one: Pass, folder: str) -> tuple[str, ...]:
    """The trainer's own line, with this machine's keys in place of the slices'."""
    keys: dict[str, Value] = {
        **HERE,
        "base_output_directory": folder,
        "packing": one.packing,
        "max_target_length": one.max_target_length,
        **({"tokenizer_path": _copy(folder)} if copy_of(run) else {}),
    }
    gone = (*_NOT_HERE, *(f"{key}=" for key in keys))
    kept = (word for word in trainer_argv(run) if not word.startswith(gone))
    return (*kept, *(argument(key, value) for key, value in keys.items()))


def _copying(run: Run, folder: str) -> tuple[str, ...]:
    """The tokenizer is copied as for the trainer, but into a folder of this call."""
    made = copying(run)
    return (*made[:-1], _copy(folder)) if made else ()


def _copy(folder: str) -> str:
    return f"{folder}/tokenizer"


def _environment(run: Run, machine: Machine, folder: str) -> dict[str, str]:
    online = () if reads_only_files(run) else PASSED_ON_ONLINE
    passed = {name: machine.env[name] for name in (*PASSED_ON, *online) if name in machine.env}
    own = {"HF_HOME": str(machine.cache / "huggingface"), "HF_HUB_DISABLE_TELEMETRY": "1", "JAX_PLATFORMS": "cpu"}
    login = hub_token(machine.env) if online else {}
    return {**passed, **login, **own, "TMPDIR": folder}
