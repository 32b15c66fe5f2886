"""The machine interface: plans and runs as JSON documents (docs/reference/machine-interface.md)."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins
from msgspec.structs import asdict

from xsft.base.errors import UsageError
from xsft.base.problems import Problem
from xsft.verbs.failure import problem_documents

if TYPE_CHECKING:
    from xsft.checks.step_time import RunTime
    from xsft.planning.steps import Plan
    from xsft.runs.rows import Row


def plan_document(plan: Plan) -> dict[str, Any]:
    return {
        "file": plan.file,
        "run_name": plan.run_name,
        "jobset": plan.jobset if plan.on_cluster else None,
        "spec_digest": plan.spec_digest,
        "target": plan.target,
        "mode": {"value": plan.mode.value, "reason": plan.mode.reason},
        "trainer_argv": list(plan.trainer_argv),
        "trainer_env": plan.trainer_env,
        "seeds": asdict(plan.seeds) if plan.seeds else None,
        "conversion_argv": list(plan.conversion_argv) if plan.conversion_argv else None,
        "xpk_argv": list(plan.xpk_argv) if plan.xpk_argv else None,
        "manifest": plan.manifest,
        "audit": [asdict(row) for row in plan.audit],
        "by_hand": list(plan.by_hand),
        "time": time_document(plan.time) if plan.time else None,
        "problems": problem_documents(plan.problems),
    }


def time_document(time: RunTime) -> dict[str, Any]:
    """Return the least time of a run as a part of documents."""
    return {
        "steps": time.steps,
        "step_time_bound_s": time.step_s,
        "bound_by": "arithmetic",
        "resources_s": {"arithmetic": time.step_s},
        "compiled": False,
        "tokens_per_second_bound": time.tokens_per_second,
        "mfu_bound": None,
        "chip_hours_bound": time.chip_hours,
        "cost_bound": time.cost,
        "measured_over_bound": list(time.ratios),
        "measured_by": "own" if time.own else "published",
    }


def run_document(row: Row) -> dict[str, Any]:
    """Return the row as JSON fields; a loss that is not a number is null, because JSON has none; the run's reason names
    it."""
    return {key: finite(value) if isinstance(value, float) else value for key, value in to_builtins(row).items()}


def finite(number: float | None) -> float | None:
    return None if number is None or not math.isfinite(number) else number


def print_json(verb: str, document: dict[str, Any]) -> None:
    """Print exactly one document on stdout, on one line."""
    text = json.dumps({"schema": f"xsft.{verb}/1", **document}, ensure_ascii=False)
    sys.stdout.write(text.encode("utf-8", "backslashreplace").decode() + "\n")


def status_of(problems: Iterable[Problem]) -> int:
    """Return 0, or the exit status of a failed check."""
    return UsageError.exit_status if any(p.severity == "error" for p in problems) else 0


def print_lines(lines: Iterable[str]) -> None:
    """Print the lines at once: the next one may take minutes, and the log of a nightly job is read while it waits."""
    sys.stdout.writelines([f"{line}\n" for line in lines])
    sys.stdout.flush()
