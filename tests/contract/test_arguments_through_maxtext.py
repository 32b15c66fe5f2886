"""Every value a workload can hold comes back from MaxText's own command line as it was, type included."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from tests.maxtext import Worker
from tests.trainer.values import HARD, VALUES, same
from xsft.spec.base import Value
from xsft.trainer.arguments import argument

pytestmark = pytest.mark.contract


def test_hard_values_come_back_unchanged_from_maxtexts_command_line(maxtext: Worker) -> None:
    assert _changed(list(HARD), maxtext) == []


def test_generated_values_come_back_unchanged_from_maxtexts_command_line(maxtext: Worker) -> None:
    """Drawn first, asked once: importing OmegaConf for each example would take minutes."""
    drawn: list[Value] = []

    @settings(max_examples=300, database=None)
    @given(value=VALUES)
    def draw(value: Value) -> None:
        drawn.append(value)

    draw()
    assert len(drawn) >= 200
    assert _changed(drawn, maxtext) == []


def _changed(values: list[Value], maxtext: Worker) -> list[tuple[Value, str, Any]]:
    """(value, argument, what MaxText read) of each that did not come back."""
    arguments = [argument("key", value) for value in values]
    answers = maxtext.process().ask({"values": arguments})  # drawn anew each time, so not kept
    triples = zip(values, arguments, answers, strict=True)
    return [(v, a, answer) for v, a, answer in triples if "value" not in answer or not same(v, answer["value"])]
