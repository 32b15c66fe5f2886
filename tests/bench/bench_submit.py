"""`xsft submit` against `xpk workload create`: wall seconds, in turn, on the same cluster.

Both make the same McJAX run of 128 hosts, each time under a new name, on a real control plane (tests/control_plane), or
on the stand-in where its programs are not built. Its queue stands behind a gate, so that no pods come in between. xpk
is the pinned one with the real kubectl and a gcloud that answers at once (tests/fakes/xpktools.py); it is spared what
it would ask the network (its latest version, its telemetry, the project's number). Ten of its seconds are a sleep
between two looks at kubectl: the factor is told with it and without. xsft renders anew, looks at the queue, the quota
and the bucket, makes its dry runs, writes the record and reads back. MaxText's parser is asked in the first round,
whose time is told on its own, too; its answer serves the others, which differ in their names alone.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.contract.commandline import Machine, machine
from tests.control_plane import tools as programs
from tests.fakes.clusters import ClusterApi, standing_in
from tests.fakes.kubeapi import write_kubeconfig
from tests.fakes.xpktools import Server, furnish, serving_xpk
from xsft.environments import environments
from xsft.launch.through_xpk import OFF

STORY = "deepseek_ultrachat_mcjax"
PLACE = {"project": "team-project", "zone": "us-east5-b", "cluster": "team-cluster"}
CONTEXT = "gke_team-project_us-east5-b_team-cluster"
LIMIT = 5.0
"""At least this many times faster."""


class Took(NamedTuple):
    wall_s: float
    cpu_s: float
    """Of the process and those it started; the cluster's is not counted."""


SLEEPLOG = """\
import os, time
def sleep(seconds, sleep=time.sleep):
    with open(os.environ["SLEPT"], "a") as file:
        file.write(f"{seconds}\\n")
    sleep(seconds)
time.sleep = sleep
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--stand-in", action="store_true", help="not on a real control plane")
    arguments = parser.parse_args()
    xpk = environments.ensure("xpk", progress=lambda _line: None)
    with (
        tempfile.TemporaryDirectory() as folder,
        served(Path(folder), stand_in=arguments.stand_in) as (api, server),
        machine(Path(folder), environments=xpk.folder.parent, api=api) as here,
    ):
        tools = furnish(here.folder / "tools", server, context=CONTEXT)
        (here.folder / "site").mkdir()
        (here.folder / "site" / "sitecustomize.py").write_text(SLEEPLOG, encoding="utf-8")
        here.env |= {**OFF, "PATH": f"{tools.folder}:{here.env['PATH']}", "KUBECONFIG": str(here.folder / "none")}
        (here.folder / "cache" / "parser-answers").unlink()
        rounds = [(by_xsft(here, n), *by_xpk(here, n, xpk.script("xpk"))) for n in range(arguments.rounds)]
        jobset_count = len(here.jobsets)
    if jobset_count != 2 * arguments.rounds:
        raise SystemExit(f"{jobset_count} JobSets instead of {2 * arguments.rounds}")
    return told(rounds, where="the stand-in" if api.kube_api else "a real control plane", as_json=arguments.json)


@contextmanager
def served(folder: Path, *, stand_in: bool) -> Iterator[tuple[ClusterApi, Server]]:
    """The cluster, and what gcloud's kubeconfig says of it."""
    binaries = None if stand_in else programs.find()
    if binaries is None:
        with standing_in(folder) as api:
            yield api, serving_xpk(api.standin)
        return
    from tests.control_plane.start import up
    from tests.faults import real

    cluster = up(folder / "cluster", tools=binaries, name="bench", progress=say, bound=True)
    try:
        world = real.gated_default(cluster)
        config = write_kubeconfig(folder / "config", server=cluster.server, token=cluster.token, ca=cluster.ca)
        yield ClusterApi(kubeconfig=config, others=world), real.serving_xpk(cluster)
    finally:
        cluster.down()


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def told(rounds: list[tuple[Took, Took, float]], *, where: str, as_json: bool) -> int:
    slept = statistics.median(sleep_s for _, _, sleep_s in rounds)
    xsft, xpk = (
        Took(*map(statistics.median, zip(*column, strict=True))) for column in list(zip(*rounds, strict=True))[:2]
    )
    factor = statistics.median(b.wall_s / a.wall_s for a, b, _ in rounds)
    awake = statistics.median((b.wall_s - sleep_s) / a.wall_s for a, b, sleep_s in rounds)
    within = factor >= LIMIT
    if as_json:
        times = {
            "xsft": xsft._asdict(),
            "xsft_first": rounds[0][0]._asdict(),
            "xpk": xpk._asdict(),
            "xpk_sleep_s": slept,
        }
        print(json.dumps({"where": where, **times, "factor": factor, "factor_without_sleep": awake, "kept": within}))
        return 0 if within else 1
    print(f"on {where}, medians of {len(rounds)}:")
    print(f"xsft submit          {xsft.wall_s:6.2f} s, {xsft.cpu_s:.2f} s of CPU")
    print(f"  the first of them  {rounds[0][0].wall_s:6.2f} s, with MaxText's parser")
    print(f"xpk workload create  {xpk.wall_s:6.2f} s, {xpk.cpu_s:.2f} s of CPU, {slept:.1f} s asleep")
    print(f"{factor:.1f} x, limit {LIMIT:g} {'kept' if within else 'MISSED'}; without xpk's sleep {awake:.1f} x")
    return 0 if within else 1


def by_xsft(here: Machine, number: int) -> Took:
    file = here.workload(STORY, place=PLACE, name=f"by-xsft-{number}")
    return timed(lambda: here.xsft("submit", file, "--json", closed=True))


def by_xpk(here: Machine, number: int, xpk: Path) -> tuple[Took, float]:
    """The line that xsft plans for the same workload, run by hand; and the seconds that it slept."""
    file = here.workload(STORY, place=PLACE, name=f"by-xpk-{number}")
    planned = json.loads(here.xsft("plan", file, "--json").stdout)["plans"][0]["xpk_argv"]
    argv = (str(xpk), *planned[1:], "--skip-validation", "--project-number=123456")
    slept = here.folder / f"slept-{number}"
    env = {**here.env, "KUBECONFIG": str(here.folder / "xpk-kubeconfig"), "SLEPT": str(slept)}
    env["PYTHONPATH"] = str(here.folder / "site")
    took = timed(
        lambda: subprocess.run(
            argv, env=env, cwd=here.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    )
    return took, sum(map(float, slept.read_text(encoding="utf-8").split())) if slept.exists() else 0.0


def timed(run: Callable[[], subprocess.CompletedProcess[str]]) -> Took:
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = run()
    wall_s, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(f"{done.args} ended with {done.returncode}:\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
    return Took(wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


if __name__ == "__main__":
    sys.exit(main())
