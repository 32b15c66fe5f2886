"""The catalogue's verdicts as entries like those that `xsft fit` keeps. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from xsft.catalog.fit import CompilerVerdict, known_verdict
from xsft.checks.values import is_on
from xsft.fit.derive import KnownStep
from xsft.fit.step import target_length
from xsft.fit.verdict import CompiledStep, DoesNotFit, Fits, Marginal, Verdict
from xsft.spec.base import Value
from xsft.spec.resolve import Run
from xsft.trainer.trainer import trainer_of


def shipped_verdict(run: Run) -> tuple[str, KnownStep] | None:
    """Return the row's id and the verdict of the catalogue on this run's step; None without one."""
    trainer = trainer_of(run)
    keys = trainer.trainer_keys(run)
    row = catalogued_verdict(run, keys)
    if row is None or row.step != trainer.STEP:
        return None
    entry = CompiledStep(verdict=_verdict(row), tokens=row.tokens, versions={"maxtext": row.maxtext}, made_at="")
    return row.id, KnownStep(entry=entry, derived=row.tokens != target_length(keys))


def catalogued_verdict(run: Run, keys: Mapping[str, Value]) -> CompilerVerdict | None:
    """Return the catalogue's verdict on this run; None without one, and for a trainer whose step is not compiled."""
    if run.model is None or run.slice is None or trainer_of(run).STEP is None:
        return None
    if is_on(keys.get("override_model_config", False)):
        return None
    return known_verdict(model=run.model.name, tpu_type=run.slice.xpk_type, num_slices=run.num_slices, keys=keys)


def _verdict(row: CompilerVerdict) -> Verdict:
    peak, total = row.peak_gib or 0.0, row.sum_gib or 0.0
    match row.outcome:
        case "fits":
            return Fits(peak_gib=peak, sum_gib=total, limit_gib=row.limit_gib, by=None)
        case "marginal":
            return Marginal(peak_gib=peak, sum_gib=total, limit_gib=row.limit_gib, by=None)
        case "no":
            return DoesNotFit(needed_gib=peak, limit_gib=row.limit_gib, told_by="compiler")
