"""Finds the modules that a verb enters, and those that call each other: who reads one has to read the other, too.

    python -m tests.tools.calls status --context stand-in
    python -m tests.tools.calls check --offline workloads/tiny_local.yaml

The verb runs in this process, on the stand-in for a cluster with three runs and a bucket. Its caller is the nearest
frame of xsft, so a callback through a library (`sorted(key=…)`) is a call, and so is the next value of a generator.
Frames of `machine.parallel` are passed over as those of `threading` are: to hand work to a thread is no call of its
author by the executor. What a module calls while it is imported does not count.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from unittest.mock import patch

from tests.fakes import gcs
from tests.fakes.clusters import ClusterApi, standing_in
from tests.fakes.kuberuns import Runs, ended
from xsft.verbs.cli import main as xsft

Calls = Mapping[tuple[str, str], set[str]]
"""(calling module, called module) -> the functions that were called."""

PACKAGE = "xsft."
EXECUTOR = "xsft.machine.parallel"
STEP = "metric_logger.py:265] completed step: 1, seconds: 4.5, TFLOP/s/device: 459.0, total_weights: 84, loss: 2.5"


def calls_of(work: Callable[[], object], *, package: str = PACKAGE) -> Calls:
    """Run `work`, and return each call from one module of the package to another, threads included."""
    names_by_call: dict[tuple[str, str], set[str]] = defaultdict(set)

    def note(frame: FrameType, event: str, _argument: object) -> None:
        called = _module(frame)
        if event != "call" or not called.startswith(package):
            return
        caller = _caller(frame, package)
        if caller is not None and _module(caller) != called and caller.f_code.co_name != "<module>":
            names_by_call[_module(caller), called].add(frame.f_code.co_qualname)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return names_by_call


def modules_entered(work: Callable[[], object]) -> set[str]:
    return {module for pair in calls_of(work) for module in pair}


def two_way(calls: Calls) -> list[tuple[str, str]]:
    return sorted((one, other) for one, other in calls if one < other and (other, one) in calls)


def _caller(frame: FrameType, package: str) -> FrameType | None:
    caller = frame.f_back
    while caller is not None and (_module(caller) == EXECUTOR or not _module(caller).startswith(package)):
        caller = caller.f_back
    return caller


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


@contextmanager
def three_runs(folder: Path) -> Iterator[ClusterApi]:
    """`going` trains, `waits` for quota, and `broken` failed, on the stand-in; this process can reach it."""
    with standing_in(folder) as api, gcs.serving(gcs.Bucket({})) as bucket:
        runs = Runs(api.standin.objects)
        runs.admitted("going")
        api.standin.logs.say(runs.pod("going")["metadata"]["name"], STEP)
        runs.queued("waits", position=2)
        runs.jobset("broken", status=ended("Failed", "FailJobSetFailurePolicyAction"))
        over = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-11-21T10:59:00Z"}}
        statuses = [{"name": "jax-tpu", "restartCount": 0, "state": over}]
        pod = runs.pod("broken", host=5, phase="Failed", containerStatuses=statuses)["metadata"]["name"]
        api.standin.logs.say(pod, "Traceback (most recent call last):", "ValueError: the fifth host is odd")
        env = {"KUBECONFIG": str(api.kubeconfig), "STORAGE_EMULATOR_HOST": bucket.url}
        folders = {"XSFT_STATE_DIR": str(folder / "state"), "XSFT_CACHE_DIR": str(folder / "cache")}
        with patch.dict(os.environ, {**env, **folders}):
            yield api


def main(arguments: tuple[str, ...]) -> int:
    with tempfile.TemporaryDirectory() as name, three_runs(Path(name)):
        calls = calls_of(lambda: xsft(arguments))
    pairs = two_way(calls)
    for one, other in pairs:
        sys.stdout.write(f"\n{one}\n  -> {other}: {', '.join(sorted(calls[one, other]))}\n")
        sys.stdout.write(f"  <- {', '.join(sorted(calls[other, one]))}\n")
    entered = {module for pair in calls for module in pair}
    sys.stdout.write(f"\n{arguments[0]}: {len(entered)} modules, {len(pairs)} pairs that call each other\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(tuple(sys.argv[1:])))
