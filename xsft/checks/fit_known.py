"""The catalogue's verdicts as entries like those that `xsft fit` keeps. Pure."""

from __future__ import annotations

from xsft.catalog.fit import CompilerVerdict, known_verdict
from xsft.checks.values import is_on
from xsft.fit.derive import KnownStep
from xsft.fit.step import target_length
from xsft.fit.verdict import CompiledStep, DoesNotFit, Fits, Marginal, Verdict
from xsft.spec.resolve import Run
from xsft.trainers.trainer import trainer_of


def shipped_verdict(run: Run) -> tuple[str, KnownStep] | None:
    """Return the row's id and the verdict of the catalogue on this run's SFT step; None without one."""
    keys = trainer_of(run).trainer_keys(run)
    if run.model is None or run.slice is None or is_on(keys.get("override_model_config", False)):
        return None
    row = known_verdict(model=run.model.name, tpu_type=run.slice.xpk_type, num_slices=run.num_slices, keys=keys)
    if row is None or row.step != "sft":
        return None
    entry = CompiledStep(verdict=_verdict(row), tokens=row.tokens, versions={"maxtext": row.maxtext}, made_at="")
    return row.id, KnownStep(entry=entry, derived=row.tokens != target_length(keys))


def _verdict(row: CompilerVerdict) -> Verdict:
    peak, total = row.peak_gib or 0.0, row.sum_gib or 0.0
    match row.outcome:
        case "fits":
            return Fits(peak_gib=peak, sum_gib=total, limit_gib=row.limit_gib, by=None)
        case "marginal":
            return Marginal(peak_gib=peak, sum_gib=total, limit_gib=row.limit_gib, by=None)
        case "no":
            return DoesNotFit(needed_gib=peak, limit_gib=row.limit_gib, told_by="compiler")
