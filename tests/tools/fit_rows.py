"""Compile the catalogue's rows and the cluster workloads anew, and compare: `make fit [ROWS="A L1"]`.

Every step is compiled from an empty cache, once: a workload whose step is a row's takes its verdict. A dense model
takes 2 to 6 minutes of CPU, deepseek3-671b 10 to 14, a refusal under one; one compilation at a time.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.checks.factory import DROP, GOOD, run_of, spec
from xsft.catalog.data import toml
from xsft.catalog.fit import row_keys
from xsft.environments import environments
from xsft.fit.cache import FitCache
from xsft.fit.compile import CompileShop, compile_step
from xsft.fit.reserved_memory import needed_gib
from xsft.fit.trainer_step import step_to_compile
from xsft.fit.verdict import CompiledStep, DoesNotFit, Fits, Invalid, Marginal
from xsft.machine.process import own_environment
from xsft.planning import api
from xsft.spec.resolve import Run

ROOT = Path(__file__).parents[2]
TOLERANCE_GIB = 0.01


def main(names: list[str]) -> int:
    """Return 0 if every figure is the catalogue's, else 1."""
    wrong = []
    with tempfile.TemporaryDirectory(prefix="xsft-fit-") as folder:
        shop = CompileShop(
            environment=environments.ensure("compiler", progress=say),
            cache=FitCache(folder=Path(folder)),
            env=own_environment(),
            say=say,
        )
        for name, run, row in wanted(names):
            entry = compiled(run, shop)
            differs = difference(entry, row)
            print(f"{name}: {figures(entry)}{f'  WRONG: {differs}' if differs else ''}", flush=True)
            wrong.extend([name] if differs else [])
    print(f"{len(wrong)} wrong: {', '.join(wrong)}" if wrong else "all as in the catalogue")
    return 1 if wrong else 0


def wanted(names: list[str]) -> Iterator[tuple[str, Run, dict[str, Any] | None]]:
    """Yield name, run and row of each step; a workload has no row. `names`: only these; empty: all."""
    for row in toml("fit.toml")["rows"]:
        if not names or row["id"] in names:
            yield row["id"], row_run(row), row
    for file in sorted((ROOT / "workloads").glob("*.yaml")):
        loaded = api.load(file)
        if loaded.spec.on_cluster and (not names or file.stem in names):
            yield file.stem, api.intend((loaded,))[0].run, None


def row_run(row: dict[str, Any]) -> Run:
    """Return a run with exactly the row's keys."""
    keys = dict(row_keys(row))
    batch = keys.pop("per_device_batch_size")
    return run_of(
        spec(
            {**GOOD, "train": {"steps": 500, "per_device_batch_size": batch}},
            tpu={"type": row["tpu"], "num_slices": row["slices"]},
            model={"name": row["model"], "tokenizer": DROP},
            overrides={"maxtext": keys},
        )
    )


def compiled(run: Run, shop: CompileShop) -> CompiledStep:
    step = step_to_compile(run)
    assert step is not None, run.run_name
    cached = shop.cache.known(step)
    if cached is not None and not cached.derived:
        return cached.entry
    return compile_step(step, needed_gib=needed_gib(params_b=run.model.params_b if run.model else None), shop=shop)


def difference(entry: CompiledStep, row: dict[str, Any] | None) -> str:
    """Return what differs from the row, or that a workload does not fit; empty if nothing does."""
    outcome = verdict_name(entry)
    if outcome != (row["verdict"] if row else "fits"):
        return f"{outcome}, not {row['verdict'] if row else 'fits'}"
    if row is None or row.get("step") == "pretrain":
        return ""
    memory = {"peak": row.get("peak"), "sum": row.get("sum")}
    measured = dict(zip(memory, peak_and_sum(entry), strict=True))
    far = (
        k for k, gib in memory.items() if gib is not None and abs(gib - (measured[k] or 0.0)) > TOLERANCE_GIB + 0.005
    )
    return ", ".join(f"{key} {measured[key]} instead of {memory[key]}" for key in far)


def verdict_name(entry: CompiledStep) -> str:
    match entry.verdict:
        case Fits():
            return "fits"
        case Marginal():
            return "marginal"
        case DoesNotFit():
            return "no"
        case Invalid():
            return "invalid"


def peak_and_sum(entry: CompiledStep) -> tuple[float | None, float | None]:
    match entry.verdict:
        case Fits(peak_gib=peak, sum_gib=total) | Marginal(peak_gib=peak, sum_gib=total):
            return peak, total
        case DoesNotFit(needed_gib=needed):
            return needed, None
        case Invalid():
            return None, None


def figures(entry: CompiledStep) -> str:
    peak, total = peak_and_sum(entry)
    parts = (
        verdict_name(entry),
        f"peak {peak:.2f}" if peak is not None else "",
        f"sum {total:.2f}" if total is not None else "",
        f"{sum(entry.seconds.values()):.0f} s, {entry.cpu_s:.0f} CPU-s, {entry.rss_gib:.1f} GiB",
    )
    return ", ".join(part for part in parts if part)


def say(line: str) -> None:
    print(f"xsft: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
