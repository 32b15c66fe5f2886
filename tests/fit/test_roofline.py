from __future__ import annotations

import pytest

from xsft.catalog.tpu import parse_tpu_type
from xsft.fit.roofline import arithmetic_bound, compiled_bound
from xsft.fit.work import StepWork

WORK = StepWork(flops=918e12, kernel_flops=0.0, hbm_bytes=1638e9, ici_bytes=800e9, dcn_bytes=12.5e9, model_tflops=459.0)


def test_slowest_resource_is_the_bound() -> None:
    bound = compiled_bound(WORK, tpu=parse_tpu_type("v6e-256"), tokens=1000)
    assert bound is not None
    assert (bound.by, bound.times) == ("ici", {"compute": 1.0, "hbm": 1.0, "ici": 2.0, "dcn": 1.0})
    assert (bound.seconds, bound.tokens_per_second, bound.mfu) == (2.0, 500.0, 0.25)


def test_two_devices_share_the_rates_of_a_chip() -> None:
    one = compiled_bound(WORK, tpu=parse_tpu_type("tpu7x-128"), tokens=1)
    assert one is not None
    assert one.times["hbm"] == pytest.approx(2 * 1638 / 7380)
    assert one.times["compute"] == pytest.approx(2 * 918 / 2307)


def test_a_tpu_without_published_rates_has_no_bound_of_a_program() -> None:
    assert compiled_bound(WORK, tpu=parse_tpu_type("v4-8"), tokens=1) is None
    assert arithmetic_bound(flops=275e12, tpu=parse_tpu_type("v4-8"), tokens=1) is not None
    assert arithmetic_bound(flops=0, tpu=parse_tpu_type("v6e-8"), tokens=1) is None
