from __future__ import annotations

from pathlib import Path

import pytest

from tests.localruns import local_plan
from xsft.base.errors import SpecError
from xsft.evaluation.inputs import turn
from xsft.stages.evaluate_plan import plan_evaluate, read_prompts


def written(folder: Path, text: str) -> Path:
    file = folder / "prompts.jsonl"
    file.write_text(text)
    return file


def test_prompts_are_read_relative_to_the_workload(tmp_path: Path) -> None:
    written(tmp_path, '{"prompt": "What is 1 plus 1?"}\n\n{"messages": [{"role": "user", "content": "Hello"}]}\n')
    stages = {"evaluate": {"prompts": "prompts.jsonl"}}
    run = local_plan(tmp_path, stages=stages).run
    plan = plan_evaluate(run, digest="0" * 64, file=tmp_path / "workload.yaml")
    assert plan.inputs.prompts == (turn("What is 1 plus 1?"), turn("Hello"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no prompt"),
        ("hello\n", ":1 is not a prompt"),
        ('{"prompt": "a"}\n{"text": "b"}\n', ":2 is not a prompt"),
        ('{"messages": [{"role": "user"}]}\n', ":1 is not a prompt"),
        ('{"messages": [{"role": "assistant", "content": "b"}]}\n', "must be the user's"),
        ("[" * 100_000, ":1 is not a prompt"),
    ],
)
def test_an_invalid_prompt_is_refused_with_its_line_number(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message) as refused:
        read_prompts(written(tmp_path, text))
    assert refused.value.problems[0].id == "evaluate-prompts"


def test_a_missing_prompts_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"absent\.jsonl cannot be read: No such file"):
        read_prompts(tmp_path / "absent.jsonl")
