"""The catalogue's verdicts as entries like those that `xsft fit` keeps. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xsft.catalog.fit import CompilerVerdict, compiled_on_default_mesh, has_default_mesh, known_verdict
from xsft.catalog.tpu import parse_tpu_type
from xsft.checks.values import is_on
from xsft.fit.step import target_length
from xsft.fit.verdict import CompiledStep, DoesNotFit, Fits, KnownStep, Marginal, NearStep, Verdict
from xsft.spec.base import Value
from xsft.spec.resolve import Run
from xsft.trainer.trainer import trainer_of


def shipped_verdict(run: Run) -> KnownStep | None:
    """Return the catalogue's verdict on this run; None without one, and for a trainer whose step is not compiled."""
    keys = trainer_of(run).trainer_keys(run)
    model = _catalogued_model(run, keys)
    if run.slice is None or model is None:
        return None
    row = known_verdict(model=model, tpu_type=run.slice.xpk_type, num_slices=run.num_slices, keys=keys)
    return KnownStep(entry=_entry(row), derived=row.tokens != target_length(keys), row=row) if row else None


def shipped_near(run: Run) -> Iterator[NearStep]:
    """Yield the catalogue's verdicts on runs that differ from this one only in their length or slice."""
    keys = trainer_of(run).trainer_keys(run)
    model = _catalogued_model(run, keys)
    for row in compiled_on_default_mesh(model=model, keys=keys) if model else ():
        yield NearStep(
            entry=_entry(row),
            tpu=parse_tpu_type(row.tpu_type),
            num_slices=row.num_slices,
            same_mesh=has_default_mesh(keys),
        )


def _catalogued_model(run: Run, keys: Mapping[str, Value]) -> str | None:
    """Return the model whose rows may be of this run; None for a model that keys change, and for a trainer whose step
    is not compiled."""
    if run.model is None or run.spec.on_this_machine or trainer_of(run).STEP is None:
        return None
    if is_on(keys.get("override_model_config", False)):
        return None
    return run.model.name


def _entry(row: CompilerVerdict) -> CompiledStep:
    return CompiledStep(
        verdict=_verdict(row), tokens=row.tokens, versions={"maxtext": row.maxtext}, made_at="", cpu_s=row.cpu_s
    )


def _verdict(row: CompilerVerdict) -> Verdict:
    peak, total = row.peak_gib or 0.0, row.sum_gib or 0.0
    match row.outcome:
        case "fits":
            return Fits(peak_gib=peak, sum_gib=total, limit_gib=row.limit_gib, by=None)
        case "marginal":
            return Marginal(peak_gib=peak, sum_gib=total, limit_gib=row.limit_gib, by=None)
        case "no":
            return DoesNotFit(needed_gib=peak, limit_gib=row.limit_gib, told_by="compiler")
