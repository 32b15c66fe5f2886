"""`xsft submit` of the tiny workload inside the real post-training image: the real trainer, in a real container."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.engine.daemon import Engine
from tests.localruns import WORKLOADS
from tests.until import until

pytestmark = pytest.mark.engine

WITHIN_S = 480.0
"""Half a minute on a machine that does nothing else."""


def workload(folder: Path, image: str) -> Path:
    document = yaml.safe_load((WORKLOADS / "tiny_local.yaml").read_text())
    document |= {"output": str(folder / "runs"), "image": {"ref": image}}
    (folder / "tiny.yaml").write_text(yaml.safe_dump(document))
    return folder / "tiny.yaml"


def environment(engine: Engine, folder: Path) -> Mapping[str, str]:
    """Nothing of MaxText's is on this machine: its cache is empty."""
    own = {"XSFT_CACHE_DIR": str(folder / "cache"), "XSFT_STATE_DIR": str(folder / "state")}
    return {**engine.env, **own}


def submit(engine: Engine, file: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        (sys.executable, "-m", "xsft", "submit", "--json", str(file)),
        env=environment(engine, file.parent), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def finished(child: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
    try:
        out, told = child.communicate(timeout=WITHIN_S)
    finally:
        child.send_signal(signal.SIGINT)  # nothing to one that has ended
        child.wait()
    return child.returncode, json.loads(out) if out else {}, told


def test_the_tiny_workload_completes_inside_the_image(engine: Engine, deps_image: str, tmp_path: Path) -> None:
    file = workload(tmp_path, deps_image)
    status, document, told = finished(submit(engine, file))
    assert status == 0, told
    result = document["result"]
    assert result["steps"] == 40
    assert result["last_loss"] < result["first_loss"] - 0.5
    assert document["private_pids"]
    assert "step 40/40" in told
    saved = [Path(path) for path in document["checkpoints"]]
    assert [path.name for path in saved][-1] == "40"
    assert {(path.stat().st_uid, path.stat().st_gid) for path in saved} == {(os.getuid(), os.getgid())}
    assert not (tmp_path / "cache" / "environments").exists()
    assert engine.docker("ps", "--all", "--quiet").stdout == ""
    again, repeated, _ = finished(submit(engine, file))
    assert (again, repeated["action"]) == (0, "finished")


def test_interrupted_it_goes_on_from_its_checkpoint(engine: Engine, deps_image: str, tmp_path: Path) -> None:
    file = workload(tmp_path, deps_image)
    child = submit(engine, file)
    until_or_ended((tmp_path / "runs" / "tiny-local" / "checkpoints" / "10" / "_CHECKPOINT_METADATA").exists, child)
    child.send_signal(signal.SIGINT)
    status, _, told = finished(child)
    assert status == 130, told
    assert "the trainer is stopped" in told
    assert engine.docker("ps", "--all", "--quiet").stdout == ""
    status, document, told = finished(submit(engine, file))
    assert (status, document["action"]) == (0, "attempt"), told
    assert document["resumed_from"] in {10, 20, 30}
    assert document["result"]["steps"] == 40


def until_or_ended(done: Callable[[], object], child: subprocess.Popen[str]) -> None:
    until(lambda: done() or child.poll() is not None, within_s=WITHIN_S)
    assert child.poll() is None, child.communicate()
