from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.tools.calls import calls_of, three_runs, two_way
from xsft.verbs.cli import main


@pytest.mark.parametrize("arguments", [("status", "--all"), ("why", "broken")])
def test_the_modules_of_a_verb_call_each_other_one_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    with three_runs(tmp_path) as api:
        calls = calls_of(lambda: main((arguments[0], "--context", api.context, *arguments[1:])))
    assert "broken" in capsys.readouterr().out
    assert ("xsft.runs.read_all", "xsft.runs.read_runs") in calls
    assert len(pairs := two_way(calls)) <= 2, pairs  # a slow log lets it read the bucket, whose tries are a callback


@pytest.mark.parametrize(
    ("source", "pairs"),
    [
        ("largest([1, 2], key=abs)", []),
        ("largest([1, 2], key=lambda n: -n)", [("made.one", "made.other")]),
        ("largest((n for n in (1, 2)), key=abs)", [("made.one", "made.other")]),
    ],
)
def test_a_callback_and_the_next_value_of_a_generator_are_calls(source: str, pairs: list[tuple[str, str]]) -> None:
    other: dict[str, Any] = {"__name__": "made.other"}
    exec("def largest(several, key):\n    return max(several, key=key)", other)
    module_one = {"__name__": "made.one", "largest": other["largest"]}
    exec(f"def ask():\n    return {source}", module_one)
    calls = calls_of(module_one["ask"], package="made.")
    assert calls["made.one", "made.other"] == {"largest"}
    assert two_way(calls) == pairs
