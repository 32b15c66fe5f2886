from __future__ import annotations

from typing import Any

import pytest

from xsft.fit.program import ProgramBuffer
from xsft.fit.verdict import CompiledStep, DoesNotFit, Fits, Invalid, Marginal, from_json, to_json, verdict_of

GIB = 2**30

ACCEPTED: dict[str, Any] = {
    "memory": {
        "peak": 2165714688, "arguments": 894906368, "output": 894890752, "alias": 596583936,
        "temporaries": 983688384, "host_temporaries": 0,
    },
    "arguments": {"model": 298256076, "optimizer": 596508684},
    "limit": int(31.24 * GIB),
}  # fmt: skip
"""What libtpu 0.0.44 said of qwen3-0.6b on v6e-8 with 1,024 tokens: row qwen3-0.6b-v6e-8 of the catalogue."""


def test_accepted_step_fits_with_its_memory_by_use() -> None:
    buffer = ProgramBuffer(bytes=311164928, shape="bf16[151936,1024]", count=3, layer="jit(train_step)/jvp()")
    fit_verdict = verdict_of(ACCEPTED, devices_per_chip=1, buffers=(buffer,))
    assert isinstance(fit_verdict, Fits)
    assert (round(fit_verdict.peak_gib, 2), round(fit_verdict.sum_gib, 2), fit_verdict.limit_gib) == (2.02, 2.03, 31.24)
    assert fit_verdict.by is not None
    parts = (
        fit_verdict.by.weights,
        fit_verdict.by.optimizer,
        fit_verdict.by.gradients,
        fit_verdict.by.batch,
        fit_verdict.by.temporaries,
    )
    assert sum(parts) == pytest.approx(fit_verdict.sum_gib, abs=0.001)
    assert fit_verdict.by.buffers[0].shape == "bf16[151936,1024]"


def test_an_accepted_sum_above_the_limit_is_marginal() -> None:
    fit_verdict = verdict_of({**ACCEPTED, "limit": 2 * GIB}, devices_per_chip=1)
    assert isinstance(fit_verdict, Marginal)


def test_memory_offloaded_to_the_host_is_not_counted_on_the_chip() -> None:
    """qwen3-0.6b on v6e-8, 4 sequences of 2,048 tokens, decoder_layer_input=offload: 28 layer inputs of 16 MiB."""
    memory = {
        "peak": 6527780096, "arguments": 895049728, "output": 894890752, "alias": 596583936,
        "temporaries": 5381514560, "host_temporaries": 469762048,
    }  # fmt: skip
    fit_verdict = verdict_of({**ACCEPTED, "memory": memory}, devices_per_chip=1)
    assert isinstance(fit_verdict, Fits)
    assert fit_verdict.by is not None
    assert (fit_verdict.peak_gib, fit_verdict.by.host, fit_verdict.by.peak_known) == (6.0795, 0.4375, True)


def test_peak_that_includes_the_host_is_bounded_by_the_sum() -> None:
    """Layers that keep 32 GiB on the host: accepted for a chip of 31.24 GiB with a "peak" of 36.125."""
    memory = {
        "peak": int(36.125 * GIB), "arguments": int(2.125 * GIB), "output": 2 * GIB, "alias": 0,
        "temporaries": int(2.125 * GIB), "host_temporaries": 32 * GIB,
    }  # fmt: skip
    fit_verdict = verdict_of({**ACCEPTED, "memory": memory, "resident": GIB}, devices_per_chip=1)
    assert isinstance(fit_verdict, Fits)
    assert (fit_verdict.peak_gib, fit_verdict.sum_gib) == (7.25, 7.25)
    assert fit_verdict.by is not None
    assert (fit_verdict.by.host, fit_verdict.by.peak_known) == (32.0, False)


def test_two_devices_share_a_chip_of_tpu7x() -> None:
    verdict_of_one, two = (verdict_of(ACCEPTED, devices_per_chip=count) for count in (1, 2))
    assert isinstance(verdict_of_one, Fits)
    assert isinstance(two, Fits)
    assert (two.peak_gib, two.limit_gib) == (pytest.approx(2 * verdict_of_one.peak_gib, abs=0.001), 62.48)


def test_evaluation_counts_the_resident_optimizer_state() -> None:
    """The compiler is given the model and the batch; the optimizer's state is on the device, too."""
    optimizer = ACCEPTED["arguments"]["optimizer"]
    memory = {**ACCEPTED["memory"], "arguments": 298256076 + 1000, "output": 4, "alias": 0}
    answer = {**ACCEPTED, "memory": memory, "resident": optimizer}
    fit_verdict = verdict_of(answer, devices_per_chip=1)
    assert isinstance(fit_verdict, Fits)
    assert fit_verdict.peak_gib == pytest.approx((2165714688 + optimizer) / GIB, abs=0.001)
    assert fit_verdict.by is not None
    assert (fit_verdict.by.optimizer, fit_verdict.by.batch) == (pytest.approx(optimizer / GIB, abs=0.001), 0.0)
    beside = verdict_of({**answer, "limit": int(2.1 * GIB)}, devices_per_chip=1)
    assert beside == DoesNotFit(needed_gib=fit_verdict.peak_gib, limit_gib=2.1, told_by="compiler")
    refused = verdict_of({"needed": 2 * GIB, "limit": 2 * GIB, "resident": GIB}, devices_per_chip=1)
    assert refused == DoesNotFit(needed_gib=3.0, limit_gib=2.0, told_by="compiler")


def test_a_refused_step_has_one_total_and_no_buffers() -> None:
    fit_verdict = verdict_of({"needed": int(33.5 * GIB), "limit": int(31.24 * GIB)}, devices_per_chip=1)
    assert fit_verdict == DoesNotFit(needed_gib=33.5, limit_gib=31.24, told_by="compiler")


def test_unknown_error_gives_no_verdict() -> None:
    assert verdict_of({"error": "MemoryError: ", "phase": "compiling"}, devices_per_chip=1) is None
    assert verdict_of({"error": "TypeError: of the harness", "phase": "tracing"}, devices_per_chip=1) is None


def test_entry_survives_a_round_trip_and_junk_is_ignored() -> None:
    because = verdict_of({"error": "ValueError: no", "phase": "configuring"}, devices_per_chip=1)
    assert isinstance(because, Invalid)
    for verdict in (verdict_of(ACCEPTED, devices_per_chip=1), because):
        assert verdict is not None
        entry = CompiledStep(
            verdict=verdict, tokens=1024, versions={"maxtext": "0.2.5"}, made_at="2026-11-23T00:00:00Z"
        )
        assert from_json(to_json(entry)) == entry
        assert from_json(to_json(entry)[:-20]) is None
    assert from_json(b'{"schema": "xsft.fit-entry/2"}') is None
