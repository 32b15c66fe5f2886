"""The least time of a step: the slowest of its four resources, were each used at its full rate. Pure."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from xsft.catalog.tpu import Slice
from xsft.fit.work import StepWork

StepLimit = Literal["compute", "hbm", "ici", "dcn"]

GIGA = 1e9
TERA = 1e12


class StepBound(Struct, frozen=True, kw_only=True):
    """A lower bound of the time of a step."""

    seconds: float
    by: StepLimit
    """The resource that needs that long."""
    times: dict[StepLimit, float]
    """Limit -> seconds at its full rate; a bound by arithmetic has `compute` only."""
    tokens: float
    """Per device and step, padding included."""
    mfu: float | None
    """Share of the bfloat16 peak at that time, at most; None if the model's FLOPs are unknown."""
    compiled: bool
    """Whether the compiled program was counted; else only the model's matrix multiplications."""

    @property
    def tokens_per_second(self) -> float:
        """Return the tokens per second and device, at most."""
        return self.tokens / self.seconds


def compiled_bound(work: StepWork, *, tpu: Slice, tokens: float) -> StepBound | None:
    """Return the bound of a compiled step; None for a TPU whose rates are unknown. `tokens`: per device and step."""
    peak, rates, share = tpu.device_tflops, tpu.bandwidth, tpu.chips / tpu.devices
    if peak is None or rates is None:
        return None
    times: dict[StepLimit, float] = {
        "compute": work.flops / (peak * TERA),
        "hbm": work.hbm_bytes / (rates.hbm * share * GIGA),
        "ici": work.ici_bytes / (rates.ici * share * GIGA),
        "dcn": work.dcn_bytes / (rates.dcn * share * GIGA),
    }
    return _slowest(times, tokens=tokens, model_tflops=work.model_tflops, peak=peak, compiled=True)


def arithmetic_bound(*, flops: float, tpu: Slice, tokens: float) -> StepBound | None:
    """Return the bound of a step that was not compiled. `flops`: of the model, per device and step."""
    peak = tpu.device_tflops
    if peak is None or flops <= 0:
        return None
    times: dict[StepLimit, float] = {"compute": flops / (peak * TERA)}
    return _slowest(times, tokens=tokens, model_tflops=flops / TERA, peak=peak, compiled=False)


def _slowest(
    times: dict[StepLimit, float], *, tokens: float, model_tflops: float | None, peak: float, compiled: bool
) -> StepBound:
    by = max(times, key=lambda resource: times[resource])
    mfu = model_tflops / times[by] / peak if model_tflops is not None else None
    return StepBound(seconds=times[by], by=by, times=times, tokens=tokens, mfu=mfu, compiled=compiled)
