"""The program that measures (`measure_worker`), its digest, and the job of an evaluation. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import msgspec

from xsft.evaluation.inputs import FIRST_TURNS
from xsft.evaluation.plan import EvaluationPlan
from xsft.evaluation.report import SCHEMA, known_before
from xsft.pod.sent import sent_argv

PROGRAM = files("xsft.evaluation").joinpath("measure_worker.py")


def program_digest() -> str:
    """Return the sha256 of the program, 64 hex digits."""
    return hashlib.sha256(PROGRAM.read_bytes()).hexdigest()


def job_of(plan: EvaluationPlan) -> dict[str, Any]:
    """Return the job of the program, as its docstring explains it."""
    return {
        "models": [{"name": "base", "argv": plan.base_argv}, {"name": "tuned", "argv": plan.tuned_argv}],
        "prompts": msgspec.to_builtins(plan.inputs.prompts),
        "most_prompts": FIRST_TURNS,
        "max_new_tokens": plan.inputs.max_new_tokens,
        "rows": plan.inputs.rows,
    }


def pod_argv(plan: EvaluationPlan, *, end: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the command that measures on a host of a cluster, judges, and writes to the plan's output. `end`: how the
    program records the end of the run's attempt (`launchers.pod_end`)."""
    noted = {"schema": SCHEMA, **known_before(plan, worker=program_digest())}
    notes = {**job_of(plan), **end, "noted": noted, "rules": msgspec.to_builtins(plan.inputs.rules)}
    return sent_argv("xsft.evaluation.container", notes, (plan.result,))
