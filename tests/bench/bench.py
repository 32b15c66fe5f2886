"""The budgets of xsft, measured: CPU seconds (user + system, children included) of whole commands, side by side in
one run.

`make bench` prints the table and exits with 1 where a budget is missed. Ratios are medians over rounds in which every
command ran once, in turn, so that a busy machine slows both sides alike.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xsft.environments import environments

ROOT = Path(__file__).parents[2]
XSFT = Path(sys.executable).with_name("xsft")
WORKLOAD = ROOT / "workloads" / "deepseek_ultrachat.yaml"


@dataclass(frozen=True, kw_only=True)
class Budget:
    what: str
    measured: float
    limit: float
    unit: str

    @property
    def kept(self) -> bool:
        return self.measured <= self.limit

    def line(self) -> str:
        verdict = "kept" if self.kept else "MISSED"
        return f"{self.what:<58} {self.measured:6.3f} {self.unit:<12} limit {self.limit:<5} {verdict}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        budgets = measure(rounds=args.rounds, folder=Path(folder))
    if args.json:
        print(json.dumps([{**vars(b), "kept": b.kept} for b in budgets]))
    else:
        print("\n".join(b.line() for b in budgets))
    return 0 if all(b.kept for b in budgets) else 1


def measure(*, rounds: int, folder: Path) -> tuple[Budget, ...]:
    environments.ensure("xpk", progress=lambda _line: None)
    many = hundred_files(folder)
    seconds: dict[str, list[float]] = {"help": [], "bare": [], "new": [], "again": [], "fit": [], "hundred": []}
    for number in range(rounds):
        cache = folder / f"cache-{number}"
        seconds["help"].append(cpu_s((str(XSFT), "--help"), cache=cache))
        seconds["bare"].append(cpu_s(bare_xpk(folder), cache=cache))
        seconds["new"].append(cpu_s((str(XSFT), "plan", str(WORKLOAD)), cache=cache))
        seconds["again"].append(cpu_s((str(XSFT), "plan", str(WORKLOAD)), cache=cache))
        seconds["fit"].append(cpu_s((str(XSFT), "fit", str(WORKLOAD)), cache=cache))
        if number < 3:
            seconds["hundred"].append(cpu_s((str(XSFT), "plan", "--json", *many), cache=folder / f"many-{number}"))
    return budgets(seconds)


def budgets(seconds: dict[str, list[float]]) -> tuple[Budget, ...]:
    return (
        Budget(what="xsft --help", measured=statistics.median(seconds["help"]), limit=0.10, unit="CPU-s"),
        Budget(
            what="plan of a new spec / bare xpk dry run", measured=ratio(seconds, "new", "bare"), limit=1.3, unit="x"
        ),
        Budget(
            what="plan of the same spec again / bare xpk dry run",
            measured=ratio(seconds, "again", "bare"),
            limit=0.4,
            unit="x",
        ),
        Budget(
            what="plan of 100 new specs / plan of one", measured=ratio(seconds, "hundred", "new"), limit=5, unit="x"
        ),
        Budget(
            what="fit of a known verdict - plan of the same spec",
            measured=statistics.median(a - b for a, b in zip(seconds["fit"], seconds["again"], strict=True)),
            limit=0.2,
            unit="CPU-s",
        ),
        Budget(
            what="(bare xpk dry run)", measured=statistics.median(seconds["bare"]), limit=float("inf"), unit="CPU-s"
        ),
    )


def ratio(seconds: dict[str, list[float]], a: str, b: str) -> float:
    return statistics.median(x / y for x, y in zip(seconds[a], seconds[b], strict=False))


def cpu_s(argv: Sequence[str], *, cache: Path) -> float:
    """User + system seconds of the command and everything it started. The environments stay shared, renders are per
    cache.
    """
    shared_environments(cache)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(argv, env=environment(cache), cwd=ROOT, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 2):
        raise SystemExit(f"{argv} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def shared_environments(cache: Path) -> None:
    cache.mkdir(exist_ok=True)
    link = cache / "envs"
    if not link.exists():
        link.symlink_to(environments.default_cache())


def environment(cache: Path) -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("XSFT_", "PYTHON"))}
    return {
        **inherited,
        "XSFT_CACHE_DIR": str(cache),
        "TELEMETRY_ENABLED": "false",
        "DEPENDENCY_AUTO_DOWNLOAD": "false",
    }


def bare_xpk(folder: Path) -> tuple[str, ...]:
    """The line that xsft plans for the same workload, rendered by xpk's own command line."""
    planned = subprocess.run(
        (str(XSFT), "plan", "--json", str(WORKLOAD)), cwd=ROOT, capture_output=True, text=True, check=False
    )
    argv = json.loads(planned.stdout)["plans"][0]["xpk_argv"]
    xpk = environments.ensure("xpk", progress=lambda _line: None).script("xpk")
    return (str(xpk), *argv[1:], "--dry-run", f"--output-manifest-file={folder / 'bare.yaml'}")


def hundred_files(folder: Path) -> tuple[str, ...]:
    """100 different workloads of both modes."""
    import yaml

    files = []
    for number in range(100):
        source = WORKLOAD if number % 2 else ROOT / "workloads" / "deepseek_ultrachat_mcjax.yaml"
        document = yaml.safe_load(source.read_text())
        document["train"]["steps"] = 1000 + number
        document["place"] = yaml.safe_load((ROOT / "places.yaml").read_text())["main"]
        path = folder / f"workload-{number}.yaml"
        path.write_text(yaml.safe_dump(document))
        files.append(str(path))
    return tuple(files)


if __name__ == "__main__":
    sys.exit(main())
