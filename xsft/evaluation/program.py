"""The programs of an evaluation, their digest, and the job that they do. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from xsft.evaluation.inputs import FIRST_TURNS
from xsft.evaluation.plan import EvaluationPlan
from xsft.evaluation.report import known_before
from xsft.workers.evaluation_archive import ARCHIVE, FOLDER_IN_IMAGE, IN_POD, program_digest
from xsft.workers.sent import carried_argv, sent_argv

PROGRAM = "xsft.workers.measure_weights"
"""The program that measures on this machine."""


def program_job(plan: EvaluationPlan) -> dict[str, Any]:
    """Return the job of the program, as its docstring explains it."""
    return {
        "models": [{"name": "base", "argv": plan.base_argv}, {"name": "tuned", "argv": plan.tuned_argv}],
        "prompts": msgspec.to_builtins(plan.inputs.prompts),
        "most_prompts": FIRST_TURNS,
        "max_new_tokens": plan.inputs.max_new_tokens,
        "rows": plan.inputs.rows,
    }


def pod_argv(plan: EvaluationPlan, *, end: Mapping[str, Any], carried: str | None) -> tuple[str, ...]:
    """Return the command that measures on a host of a cluster, judges, and writes to the plan's output. `end`: how the
    program records the end of the run's attempt (`launcher.pod_end`); `carried`: the digest of the program in the
    image. The pod runs that one if it is this xsft's; else the program is sent with the command."""
    digest = program_digest()
    noted = known_before(plan, worker=digest)
    notes = {**program_job(plan), **end, "noted": noted, "rules": msgspec.to_builtins(plan.inputs.rules)}
    if carried != digest:
        return sent_argv(IN_POD, notes, (plan.result,))
    return carried_argv(IN_POD, notes, (plan.result,), archive=f"{FOLDER_IN_IMAGE}/{ARCHIVE}", sha256=digest)
