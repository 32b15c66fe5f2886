"""`xsft status` of 1,000 runs with 64,000 pods in a real API server, beside kubectl and `xpk workload list` on it.
With `--runs 20` the bound is a ratio to the CPU time of `xsft --help`.

Bounds are ratios to kubectl's times of the same run, because machines are noisy. Every command is a new process, run in
turn, on a server that has come to rest after the one before; medians of wall and CPU seconds, the best wall, the most
memory of its largest process, and, counted once, lists and what came over the wire. The server shares the machine with
them: `server` is what it spent on one such command. How fast the machine was meanwhile is told by a fixed piece of work
between the commands. xpk is the pinned one, with the real kubectl and a gcloud that answers at once.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench import many_runs, measured
from tests.bench.bench import Budget
from tests.bench.many_runs import NAMESPACE, Many
from tests.bench.measured import Cost
from tests.contract.commandline import XSFT
from tests.control_plane import build
from tests.fakes import gcs
from tests.fakes.xpktools import GCLOUD, Tools
from xsft.environments import environments
from xsft.launch.through_xpk import OFF

LISTS, RSS_MIB = 4, 200
TIMES = {"kubectl get jobsets": 2.0, "kubectl get jobsets -o json": 0.6}
"""Of the wall time of each, what `xsft status` of many runs may take at most."""
HELP, FEW, HELPS = "xsft --help", 20, 7.0
"""Of the CPU time of `xsft --help`, what `xsft status` of at most FEW runs may take at most."""
OURS = 3
"""Of the commands, the first ones."""
MANY = 50
SETTLE_S, QUIET_S, IDLE_SHARE = 90, 5, 0.1
"""Seconds that are waited at most, seconds of rest that are waited for, and the share of a core that is rest."""
REST_S = 15
"""Seconds that are waited at most for a second of rest between two commands: after the big ones the server collects
its garbage for a while, for which the next one is not to blame.
"""
WORK = 3_000_000
"""Additions of the fixed piece of work."""
PLACE = ("--project=my-project", "--zone=us-east5-b", "--cluster=my-cluster")
STATES = {
    "running": "training",
    "plain": "training",
    "running-pathways": "training",
    "unschedulable": "starting",
    "completed": "succeeded",
    "failed-pathways": "failed",
    "queued": "queued",
}
"""Of a run at that stage."""


@dataclass
class Command:
    """One way to ask."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    """Beside the bench's own."""
    costs: list[Cost] = field(default_factory=list)
    server_s: list[float] = field(default_factory=list)
    lists: int = 0
    mib: float = 0.0

    @property
    def cost(self) -> Cost:
        return measured.middle(self.costs)

    @property
    def best_s(self) -> float:
        return min(run_cost.wall_s for run_cost in self.costs)


@dataclass(frozen=True, kw_only=True)
class Bench:
    many: Many
    folder: Path
    env: Mapping[str, str]
    paces: list[float] = field(default_factory=list)
    """CPU seconds of the fixed piece of work, one before each command."""

    def measure(self, command: Command) -> measured.Ran:
        self.settle(at_most_s=REST_S, quiet_s=1)
        self.paces.append(pace())
        before = self._server_s()
        ran = measured.run(command.argv, env={**self.env, **command.env}, cwd=self.folder)
        command.costs.append(ran.cost)
        command.server_s.append(self._server_s() - before)
        return ran

    def settle(self, *, at_most_s: int = SETTLE_S, quiet_s: int = QUIET_S) -> None:
        """Until the server does nothing of its own: after its start it compacts what it has read for a while."""
        quiet = 0
        for _ in range(at_most_s):
            before = self._server_s()
            time.sleep(1.0)
            quiet = quiet + 1 if self._server_s() - before < IDLE_SHARE else 0
            if quiet >= quiet_s:
                return

    def look_until_all_ends_are_read(self, command: Command) -> int:
        """Looks that this took; `command` is then as it was. Each look reads some ends, and they are remembered."""
        for looks in range(1, MANY):
            runs = json.loads(self.measure(command).stdout)["runs"]
            command.costs.clear()
            command.server_s.clear()
            if not any(run["reason"] == "steps-not-read" for run in runs):
                return looks
        raise SystemExit(f"after {MANY} looks there are ends that nobody has read")

    def count(self, command: Command) -> measured.Ran:
        """Run the command once through a front that counts its requests."""
        with measured.counting(self.many.cluster, self.folder) as counted:
            env = {**self.env, **command.env, **_reached_by(counted.kubeconfig, self.folder)}
            ran = measured.run(command.argv, env=env, cwd=self.folder)
        _reached_by(self.many.cluster.kubeconfig, self.folder)
        command.lists, command.mib = len(counted.lists), counted.mib
        return ran

    def _server_s(self) -> float:
        """CPU seconds of the API server so far."""
        stat = Path(f"/proc/{self.many.cluster.processes['kube-apiserver'].pid}/stat").read_text(encoding="utf-8")
        user, system = stat.rpartition(")")[2].split()[11:13]  # proc(5)
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--all-pods", action="store_true", help="also `kubectl get pods`, once: a minute, 4 GB")
    arguments = parser.parse_args()
    programs = build.ensure(progress=say)
    data = many_runs.saved(count=arguments.runs, programs=programs, progress=say)
    say(f"starting an API server that has {arguments.runs} runs")
    with (
        tempfile.TemporaryDirectory() as name,
        many_runs.serving(Path(name) / "many", data, count=arguments.runs, programs=programs) as many,
        asking(many, Path(name)) as bench,
    ):
        all_commands = commands(bench.many, xpk=environments.ensure("xpk", progress=say).script("xpk"))
        bench.settle()
        first = bench.measure(all_commands[0])
        run_rows = json.loads(first.stdout)["runs"]
        check(run_rows, runs=arguments.runs)
        looks = bench.look_until_all_ends_are_read(all_commands[0])
        active = []
        for _ in range(arguments.rounds):
            active.append(active_read(bench.measure(all_commands[0])))
            for command in all_commands[1:]:
                bench.measure(command)
        check(json.loads(bench.count(all_commands[0]).stdout)["runs"], runs=arguments.runs, proven=True)
        for command in all_commands[1:]:
            bench.count(command)
        if arguments.all_pods:
            every = Command("kubectl get pods", (*kubectl(bench.many), "get", "pods"))
            bench.measure(every)
            all_commands = (*all_commands, every)
    read = sum(run["progress"]["read"] for run in run_rows)
    return tell(all_commands, bench, first=first.cost, looks=looks, read=read, active=active, as_json=arguments.json)


@contextmanager
def asking(many: Many, folder: Path) -> Iterator[Bench]:
    """`folder` is there; commands run in it, with a bucket that is empty."""
    with gcs.serving(gcs.Bucket({})) as bucket:
        config = many.cluster.kubeconfig
        environment = {
            "HOME": str(folder),
            "XSFT_CACHE_DIR": str(folder / "cache"),
            "XSFT_STATE_DIR": str(folder / "state"),
        }
        path = f"{furnished(folder / 'tools', many)}:{os.environ['PATH']}"
        env = {
            "PATH": path,
            "LANG": "C.UTF-8",
            "STORAGE_EMULATOR_HOST": bucket.url,
            **environment,
            **OFF,
            **_reached_by(config, folder),
        }
        loader = os.environ.get("LD_LIBRARY_PATH")
        yield Bench(many=many, folder=folder, env={**env, **({"LD_LIBRARY_PATH": loader} if loader else {})})


def furnished(folder: Path, many: Many) -> Path:
    """The real kubectl, and a gcloud that gives the server's kubeconfig; all that xpk starts."""
    folder.mkdir()
    (folder / "kubectl").symlink_to(many.cluster.layout.tools.program("kubectl"))
    (folder / "gcloud").write_text(GCLOUD.replace("{python}", sys.executable), encoding="utf-8")
    (folder / "gcloud").chmod(0o755)
    (folder / "kubeconfig.json").symlink_to(folder.parent / "reached")
    Tools(folder).tell()
    return folder


def _reached_by(kubeconfig: Path, folder: Path) -> dict[str, str]:
    """A copy, into which xpk may write; and the one that its gcloud gives."""
    text = kubeconfig.read_text(encoding="utf-8")
    for name in ("reached", "kubeconfig"):
        (folder / name).write_text(text, encoding="utf-8")
    return {"KUBECONFIG": str(folder / "kubeconfig")}


def commands(many: Many, *, xpk: Path) -> tuple[Command, ...]:
    ours = (str(XSFT), "status", "--context", many.cluster.context, "--namespace", NAMESPACE)
    get = (*kubectl(many), "get")
    return (
        Command("xsft status --all --json", (*ours, "--all", "--json")),
        Command("xsft status --all", (*ours, "--all")),
        Command("xsft status", ours),
        Command("kubectl get jobsets", (*get, "jobsets")),
        Command("kubectl get workloads", (*get, "workloads")),
        Command("kubectl get jobsets -o json", (*get, "jobsets", "-o", "json")),
        Command("kubectl get pods (one run)", (*get, "pods", "-l", f"jobset.sigs.k8s.io/jobset-name={many.mcjax}")),
        Command(HELP, (str(XSFT), "--help")),
        Command("xpk workload list", (str(xpk), "workload", "list", *PLACE, f"--namespace={NAMESPACE}")),
    )


def kubectl(many: Many) -> tuple[str, ...]:
    return (many.cluster.layout.tools.program("kubectl"), "--context", many.cluster.context, "-n", NAMESPACE)


def check(run_rows: list[dict[str, Any]], *, runs: int, proven: bool = False) -> None:
    """Raises SystemExit where `xsft status` does not tell every run's state. Of the first looks, unless `proven`: what
    has ended well is `unknown` while nobody has read whether it made all its steps, and each look reads some.
    """
    expected = Counter(STATES[many_runs.stage(number)] for number in range(runs))
    unread = () if proven else ("steps-not-read",)
    counts = Counter("succeeded" if run["reason"] in unread else run["state"] for run in run_rows)
    if counts != expected:
        raise SystemExit(f"xsft status tells {dict(counts)} instead of {dict(expected)}")


def active_read(looked: measured.Ran) -> int:
    """Active runs whose progress this look read; of so many the time decides (`runs.read_scope.ReadLimits`)."""
    run_rows = json.loads(looked.stdout)["runs"]
    return sum(run["progress"]["read"] for run in run_rows if run["state"] in ("training", "starting"))


def pace() -> float:
    """Return the pace of this machine now: neighbours on its cores change it by half."""
    began, total = time.process_time(), 0
    for number in range(WORK):
        total += number
    return time.process_time() - began


def tell(
    all_commands: tuple[Command, ...],
    bench: Bench,
    *,
    first: Cost,
    looks: int,
    read: int,
    active: list[int],
    as_json: bool,
) -> int:
    many = bench.many
    beside = {command.name: command for command in all_commands}
    ours = all_commands[:OURS]
    if many.runs <= FEW:
        budgets = [_budget_of_few(command, beside[HELP]) for command in ours]
    else:
        budgets = [budget for command in ours for budget in _budgets(command, beside=beside)]
    if as_json:
        rows = {
            one.name: {**vars(one.cost), "best_wall_s": one.best_s, "lists": one.lists, "mib": one.mib}
            for one in all_commands
        }
        print(
            json.dumps(
                {
                    "runs": many.runs,
                    "pods": many.pods,
                    "progress_read": read,
                    "first_wall_s": first.wall_s,
                    "active_read": active,
                    "paces_s": bench.paces,
                    "commands": rows,
                    "budgets": [{**vars(one), "kept": one.kept} for one in budgets],
                }
            )
        )
    else:
        print(f"{many.runs} runs, {many.pods} pods; load {os.getloadavg()[0]:.1f}")
        print(f"the first look of this machine: {first.wall_s:.2f} s, progress read of {read} runs; then {looks} looks")
        print(f"each later look read the progress of {min(active)} to {max(active)} active runs")
        print(f"the machine: a fixed piece of work took {min(bench.paces):.2f} to {max(bench.paces):.2f} s")
        print(f"{'':32}{'wall s':>8}{'best':>8}{'CPU s':>8}{'server':>8}{'RSS MiB':>9}{'lists':>7}{'MiB':>8}")
        print("\n".join(map(_line, all_commands)))
        print("\n".join(one.line() for one in budgets))
    return 0 if all(one.kept for one in budgets) else 1


def _line(measured_command: Command) -> str:
    cost, server = measured_command.cost, sorted(measured_command.server_s)[len(measured_command.server_s) // 2]
    return (
        f"{measured_command.name:32}{cost.wall_s:8.2f}{measured_command.best_s:8.2f}{cost.cpu_s:8.2f}{server:8.2f}{cost.rss_mib:9.0f}"
        f"{measured_command.lists:7}{measured_command.mib:8.2f}"
    )


def _budgets(command: Command, *, beside: Mapping[str, Command]) -> tuple[Budget, ...]:
    ratios = (
        Budget(what=f"{command.name}: wall / {other}", measured=ratio(command, beside[other]), limit=limit, unit="x")
        for other, limit in TIMES.items()
    )
    return (
        *ratios,
        Budget(what=f"{command.name}: lists", measured=command.lists, limit=LISTS, unit="lists"),
        Budget(what=f"{command.name}: memory", measured=command.cost.rss_mib, limit=RSS_MIB, unit="MiB"),
    )


def _budget_of_few(command: Command, alone: Command) -> Budget:
    part = statistics.median(a.cpu_s / b.cpu_s for a, b in zip(command.costs, alone.costs, strict=True))
    return Budget(what=f"{command.name}: CPU / {alone.name}", measured=part, limit=HELPS, unit="x")


def ratio(one: Command, other: Command) -> float:
    """Return the median ratio of their wall times over all rounds: what slows a round down slows both."""
    return statistics.median(a.wall_s / b.wall_s for a, b in zip(one.costs, other.costs, strict=True))


def say(line: str) -> None:
    print(f"bench: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
