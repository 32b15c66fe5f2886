"""The program that measures (`measure_worker`), its digest, and the job of an evaluation. Pure."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import Any

import msgspec

from xsft.evaluation.inputs import FIRST_TURNS
from xsft.evaluation.plan import EvaluationPlan
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


def pod_argv(plan: EvaluationPlan) -> tuple[str, ...]:
    """Return the command that measures on a host of a cluster, and writes to the plan's output."""
    noted = {"digest": plan.digest, "worker": program_digest()}
    return sent_argv("xsft.evaluation.container", {**job_of(plan), "noted": noted}, (plan.measured,))
