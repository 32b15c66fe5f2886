from __future__ import annotations

import pytest

from tests.everything import EVERYTHING, changed
from xsft.base.errors import SpecError
from xsft.checks.facts import Facts
from xsft.spec.digest import spec_digest
from xsft.spec.explain import read_spec
from xsft.spec.model import WorkloadSpec
from xsft.spec.resolve import resolve

WORKLOAD = """
name: tiny
target: local
model: {name: default, tokenizer: xsft://tiny/tokenizer}
data: {hf_path: json, hf_train_files: xsft://tiny/chat.jsonl, columns: [messages]}
train: {steps: 4, per_device_batch_size: 1}
"""


def test_stages_do_not_change_the_digest_of_the_training() -> None:
    without = WorkloadSpec.model_validate(changed(EVERYTHING, {"stages": None}))
    after = WorkloadSpec.model_validate(EVERYTHING)
    assert spec_digest(resolve(without, Facts())[0]) == spec_digest(resolve(after, Facts())[0])


def test_empty_section_selects_the_stage() -> None:
    stages = read_spec(f"{WORKLOAD}stages: {{export: {{}}}}\n").stages
    assert stages.export is not None
    assert stages.export.verify == "tensors"
    assert stages.serve is None


@pytest.mark.parametrize(
    ("section", "where", "message"),
    [
        ('evaluate: {require: [{prompt: 0, matches: "("}]}', "stages.evaluate.require.0.matches", "regular expression"),
        ("evaluate: {rows: 0}", "stages.evaluate.rows", "0"),
        ("export: {what: lora}", "stages.export.what", "merged"),
        ("exprot: {}", "stages.exprot", "export"),
    ],
)
def test_wrong_stage_value_is_refused_at_its_key(section: str, where: str, message: str) -> None:
    with pytest.raises(SpecError) as refused:
        read_spec(f"{WORKLOAD}stages: {{{section}}}\n")
    (problem,) = refused.value.problems
    assert problem.where == where
    assert message in f"{problem.message} {problem.fix}"
