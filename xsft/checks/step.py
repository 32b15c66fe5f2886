"""Check by arithmetic alone, without the compiler, whether a step cannot be built or cannot fit. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from xsft.base.problems import errors_in
from xsft.catalog.fit import minimum_gib_per_chip
from xsft.checks import lora, mesh
from xsft.checks.facts import Facts
from xsft.fit.translate import InvalidStep
from xsft.fit.verdict import DoesNotFit, Invalid, Verdict
from xsft.spec.resolve import Run
from xsft.trainer.trainer import trainer_of


def analytic_verdict(run: Run) -> Verdict | None:
    """Return NO or INVALID if arithmetic alone decides; None if the compiler must be asked."""
    return next(_estimated_verdicts(run), None)


def _estimated_verdicts(run: Run) -> Iterator[Verdict]:
    keys = trainer_of(run).trainer_keys(run)
    for problem in errors_in((*mesh.check(run, keys, Facts()), *lora.check(run, keys, Facts()))):
        because = InvalidStep(where=problem.where, message=problem.message, fix=problem.fix)
        yield Invalid(because=because)
    if run.model is None or run.slice is None or run.model.params_b is None or run.slice.hbm_gib is None:
        return
    if keys.get("override_model_config") or keys.get("lora.lora_weight_qtype"):
        return
    need = minimum_gib_per_chip(params_b=run.model.params_b, run=run.slice, num_slices=run.num_slices, keys=keys)
    if need > run.slice.hbm_gib:
        yield DoesNotFit(needed_gib=round(need, 2), limit_gib=run.slice.hbm_gib, told_by="bound")
