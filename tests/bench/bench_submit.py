"""`xsft submit` against `xpk workload create`: wall seconds, in turn, on the same stand-in of a cluster.

Both make the same McJAX run of 128 hosts, each time under a new name. xpk is the pinned one with gcloud and kubectl
that answer at once (tests/fakes/xpktools.py); it is spared what it would ask the network (its latest version, its
telemetry, the project's number). Ten of its seconds are a sleep between two looks at kubectl. xsft renders anew, looks
at the queue, the quota and the bucket, makes its dry runs, writes the record and reads back.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.contract.commandline import Machine, machine
from tests.fakes.clusters import standing_in
from tests.fakes.xpktools import furnish
from xsft.effects import environments
from xsft.effects.through_xpk import OFF

STORY = "deepseek_ultrachat_mcjax"
PLACE = {"project": "my-project", "zone": "us-east5-b", "cluster": "my-cluster"}
LIMIT = 5.0
"""At least this many times faster."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    rounds, as_json = vars(parser.parse_args()).values()
    xpk = environments.ensure("xpk", progress=lambda _line: None)
    with (
        tempfile.TemporaryDirectory() as folder,
        standing_in(Path(folder)) as api,
        machine(Path(folder), environments=xpk.folder.parent, api=api) as here,
    ):
        tools = furnish(here.folder / "tools", here.api.standin, context="gke_my-project_us-east5-b_my-cluster")
        here.env |= {**OFF, "PATH": f"{tools.folder}:{here.env['PATH']}", "KUBECONFIG": str(here.folder / "none")}
        seconds = [(by_xsft(here, n), by_xpk(here, n, xpk.script("xpk"))) for n in range(rounds)]
        made = len(here.jobsets)
    if made != 2 * rounds:
        raise SystemExit(f"{made} JobSets instead of {2 * rounds}")
    return told(seconds, as_json=as_json)


def told(seconds: list[tuple[float, float]], *, as_json: bool) -> int:
    ours, theirs = (statistics.median(column) for column in zip(*seconds, strict=True))
    factor = statistics.median(b / a for a, b in seconds)
    kept = factor >= LIMIT
    if as_json:
        print(json.dumps({"xsft_s": ours, "xpk_s": theirs, "factor": factor, "limit": LIMIT, "kept": kept}))
    else:
        verdict = "kept" if kept else "MISSED"
        print(
            f"xsft submit {ours:.2f} s, xpk workload create {theirs:.2f} s: {factor:.1f} x, limit {LIMIT:g} {verdict}"
        )
    return 0 if kept else 1


def by_xsft(here: Machine, number: int) -> float:
    file = here.workload(STORY, place=PLACE, name=f"by-xsft-{number}")
    return timed(lambda: here.xsft("submit", file, "--json"))


def by_xpk(here: Machine, number: int, xpk: Path) -> float:
    """The line that xsft plans for the same workload, run by hand."""
    file = here.workload(STORY, place=PLACE, name=f"by-xpk-{number}")
    planned = json.loads(here.xsft("plan", file, "--json").stdout)["plans"][0]["xpk_argv"]
    argv = (str(xpk), *planned[1:], "--skip-validation", "--project-number=123456")
    env = {**here.env, "KUBECONFIG": str(here.folder / "xpk-kubeconfig")}
    return timed(
        lambda: subprocess.run(
            argv, env=env, cwd=here.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    )


def timed(run: Callable[[], subprocess.CompletedProcess[str]]) -> float:
    started = time.monotonic()
    done = run()
    seconds = time.monotonic() - started
    if done.returncode != 0:
        raise SystemExit(f"{done.args} ended with {done.returncode}:\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
