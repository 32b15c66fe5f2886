"""The programs of an evaluation, their digest, and the job that they do. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from xsft.evaluation.inputs import FIRST_TURNS
from xsft.evaluation.plan import EvaluationPlan
from xsft.evaluation.report import known_before
from xsft.workers.delivery import pod_argv, programs_digest

PROGRAM = "xsft.workers.measure_weights"
"""The program that measures on this machine."""
IN_POD = "xsft.workers.evaluation_container"
"""The program that measures and judges on a cluster; it runs the same functions."""


def program_job(plan: EvaluationPlan) -> dict[str, Any]:
    """Return the question to the program, as its docstring explains it."""
    return {
        "models": [{"name": "base", "argv": plan.base_argv}, {"name": "tuned", "argv": plan.tuned_argv}],
        "prompts": msgspec.to_builtins(plan.inputs.prompts),
        "most_prompts": FIRST_TURNS,
        "max_new_tokens": plan.inputs.max_new_tokens,
        "rows": plan.inputs.rows,
    }


def evaluation_argv(plan: EvaluationPlan, *, end: Mapping[str, Any], carried: str | None) -> tuple[str, ...]:
    """Return the command that measures on a host of a cluster, judges, and writes to the plan's output. `end`: how the
    program records the end of the run's attempt (`launcher.pod_end`); `carried`: as in `pod_argv`."""
    noted = known_before(plan, worker=programs_digest())
    notes = {**program_job(plan), **end, "noted": noted, "rules": msgspec.to_builtins(plan.inputs.rules)}
    return pod_argv(IN_POD, notes, (plan.result,), carried=carried)
