"""Memory and disk of an export, estimated from the size of its weights."""

from __future__ import annotations

from msgspec.structs import replace

from tests.spec.test_export_inputs import INPUTS
from xsft.weights.estimates import FACTOR, FILES_BYTES, PROCESS_BYTES, estimate_export

BILLION = 10**9


def test_memory_holds_the_checkpoint_and_the_export_together() -> None:
    export_estimate = estimate_export(INPUTS, parameters=BILLION, weights_bytes=4 * BILLION)
    assert export_estimate is not None
    assert export_estimate.memory == int(6 * BILLION * FACTOR) + PROCESS_BYTES
    assert export_estimate.disk == 2 * BILLION + FILES_BYTES


def test_checkpoint_before_training_is_estimated_as_float32() -> None:
    ahead = estimate_export(INPUTS, parameters=BILLION, weights_bytes=None)
    assert ahead == estimate_export(INPUTS, parameters=BILLION, weights_bytes=4 * BILLION)


def test_adapters_take_their_size_and_unknown_models_have_no_estimate() -> None:
    small = estimate_export(replace(INPUTS, form="adapters"), parameters=BILLION, weights_bytes=1000)
    assert small is not None
    assert small.disk == 1000 + FILES_BYTES
    assert estimate_export(INPUTS, parameters=None, weights_bytes=None) is None
