"""Compile published runs as MaxText's pre-training step, and keep what each program computes and moves:
`python -m tests.tools.published_work [NAME…]` writes xsft/catalog/published_work.json.

A run takes 6 to 25 minutes of CPU and 4 to 5 GB. tests/tools/published.toml holds the runs' configurations. `peak_gib`
is libtpu's; that of the llamas is their arguments and what they offload to the host's memory (xsft/fit/verdict.py).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from xsft.catalog.data import FOLDER
from xsft.environments import environments
from xsft.fit.cache import compiler_versions
from xsft.fit.compile import COMPILER_ENV, PROGRAM
from xsft.fit.program import read_program
from xsft.fit.published import WORK, PublishedStep, published_steps
from xsft.fit.verdict import GIB
from xsft.fit.work import ProgramContext, work_of
from xsft.machine.process import own_environment

ROOT = Path(__file__).parents[2]
KEPT = FOLDER / WORK
UNKNOWN = re.compile(r"No such compile option: '(\w+)'")


class PublishedSet(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of one published run; `sets` and `flags` name tables of published.toml."""

    sets: tuple[str, ...]
    keys: dict[str, Any]
    flags: tuple[str, ...]


def main(names: list[str]) -> None:
    tables = tomllib.loads(Path(__file__).with_name("published.toml").read_text(encoding="utf-8"))
    python = environments.ensure("compiler", progress=print).python
    for one in published_steps():
        if one.id in tables and (not names or one.id in names):
            answer, program = _compiled(_job(one, tables), python)
            _keep(one.id, answer, program)


def _job(one: PublishedStep, tables: dict[str, Any]) -> dict[str, Any]:
    own = msgspec.convert(tables[one.id], PublishedSet)
    keys = {key: value for name in own.sets for key, value in tables["keys"][name].items()} | own.keys
    assert keys["per_device_batch_size"] * keys["max_target_length"] == one.tokens, one.id
    target = {
        "model_name": one.model,
        "compile_topology": one.tpu_type,
        "compile_topology_num_slices": one.num_slices,
        "run_name": "published",
        "skip_jax_distributed_system": True,
        "enable_goodput_recording": False,
        "log_config": False,
        "jax_cache_dir": "",
    }
    return {
        "config": "base.yml",
        "keys": [f"{key}={value}" for key, value in (keys | target).items()],
        "topology": one.tpu_type,
        "xla_flags": [flag for name in own.flags for flag in tables["flags"][name]],
        "step": "train",
    }


def _compiled(job: dict[str, Any], python: Path) -> tuple[dict[str, Any], str]:
    """Return the program's answer and text; `without` in the answer are the flags that this libtpu does not know.
    Raises AssertionError if the compiler did not accept the step."""
    with tempfile.TemporaryDirectory(prefix="xsft-published-") as name:
        folder, without = Path(name), list[str]()
        job = {**job, "keys": [*job["keys"], f"base_output_directory={name}"], "program": str(folder / PROGRAM)}
        while unknown := UNKNOWN.search((answer := _asked(job, folder, python)).get("error", "")):
            without.append(unknown[1])
            job = {**job, "xla_flags": [flag for flag in job["xla_flags"] if f"--{unknown[1]}=" not in flag]}
        assert "context" in answer, answer
        return {**answer, "without": without}, (folder / PROGRAM).read_text(encoding="utf-8")


def _asked(job: dict[str, Any], folder: Path, python: Path) -> dict[str, Any]:
    asked, answer = folder / "job.json", folder / "answer.json"
    asked.write_text(json.dumps(job), encoding="utf-8")
    homes = {name: str(folder) for name in ("HOME", "TMPDIR", "TPU_LOG_DIR")}
    env = {**COMPILER_ENV, **homes, "PATH": own_environment()["PATH"]}
    argv = (str(python), "-m", "tests.tools.pretrain_worker", str(asked), str(answer))
    subprocess.run(argv, cwd=ROOT, env=env, check=True)
    found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    return found


def _keep(name: str, answer: dict[str, Any], program: str) -> None:
    work = work_of(read_program(program), msgspec.convert(answer["context"], ProgramContext))
    made = {
        "work": msgspec.to_builtins(work),
        "peak_gib": round(answer["memory"]["peak"] / GIB, 2),
        "cpu_s": answer["cpu_s"],
        "without": answer["without"],
        "versions": compiler_versions(),
    }
    known = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    KEPT.write_text(json.dumps({**known, name: made}, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    took = f"{sum(answer['seconds'].values()):.0f} s, {answer['cpu_s']:.0f} CPU-s"
    print(f"{name}: peak {made['peak_gib']} GiB, {work.flops / 1e12:.1f} TFLOP, {took}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
