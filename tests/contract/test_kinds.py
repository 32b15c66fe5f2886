"""Values of a later file that the pinned datasets casts, or stops at: the copy of the rule says the same."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path

import pytest

from tests.maxtext import answer
from tests.pipeline import Pipeline, PipelineError
from tests.stories import intent_of, spec_of, varied
from xsft.data.kinds import find_retyped_column

pytestmark = [pytest.mark.contract, pytest.mark.maxtext]

CASTS = Path(__file__).with_name("datasets_casts.py")
ARGV = intent_of(varied(spec_of("tiny_local"), {"train.per_device_batch_size": 1})).trainer_argv
CHAT = {"messages": [{"role": "user", "content": "1 plus 2?"}, {"role": "assistant", "content": "3."}]}
VALUES: tuple[object, ...] = (None, 1, 1.5, True, "x", "7", ["a"], [], {"k": 1})
PAIRS = list(permutations(VALUES, 2))
NOT_JUDGED = [(True, "x"), (True, "7")]
"""Which texts are booleans is not copied."""


def test_the_rule_casts_exactly_what_datasets_casts(maxtext_python: Path) -> None:
    judged = [find_retyped_column([{"n": one}], [{"n": other}]) is None for one, other in PAIRS]
    casts = answer(maxtext_python, CASTS, [[{"n": one}, {"n": other}] for one, other in PAIRS])
    told = zip(PAIRS, judged, casts, strict=True)
    assert [pair for pair, said, cast in told if said != cast] == NOT_JUDGED


def test_a_null_inside_messages_stops_the_pipeline(tmp_path: Path, maxtext_pipeline: Pipeline) -> None:
    first, later = ([{**one, "name": name} for one in CHAT["messages"]] for name in (None, "x"))
    clash = find_retyped_column([{"messages": first}], [{"messages": later}])
    assert clash is not None
    assert clash.path == "messages[].name"
    (tmp_path / "0.jsonl").write_text(json.dumps({"messages": first}) + "\n")
    (tmp_path / "1.jsonl").write_text(json.dumps({"messages": later}) + "\n")
    with pytest.raises(PipelineError, match="Couldn't cast"):
        maxtext_pipeline.rows(ARGV, {"hf_train_files": f"{tmp_path}/*.jsonl"})
