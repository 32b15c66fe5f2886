"""Another trainer's word for a key is answered with ours."""

from __future__ import annotations

import pytest

from xsft.errors import SpecError
from xsft.spec.complaints import _SYNONYMS
from xsft.spec.model import WorkloadSpec
from xsft.spec.modelkeys import paths_to
from xsft.spec.reader import read_spec

WORKLOAD = """\
name: a
target: local
model: {name: default}
data: {hf_path: json, hf_train_files: a.json, columns: [messages]}
train: {steps: 10, per_device_batch_size: 1}
"""


@pytest.mark.parametrize(
    ("setting", "ours"),
    [
        ("train.lr=1", "learning_rate"),
        ("data.epochs=3", "num_epoch"),
        ("epochs=3", "data.num_epoch"),
        ("train.epochs=3", "data.num_epoch"),
        ("train.max_seq_length=1024", "max_target_length"),
        ("batch_size=8", "train.per_device_batch_size"),
        ("train.stpes=8", "steps"),
    ],
)
def test_the_fix_names_our_key(setting: str, ours: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_spec(WORKLOAD, settings=(setting,))
    (problem,) = caught.value.problems
    assert problem.id == "unknown-key"
    assert problem.fix.startswith(f"Did you mean {ours}")


def test_every_word_of_ours_is_a_key() -> None:
    assert [word for word in _SYNONYMS.values() if not paths_to(WorkloadSpec, word)] == []
    assert [word for word in _SYNONYMS if paths_to(WorkloadSpec, word)] == []


def test_an_error_of_pydantics_own_has_an_id_of_ours() -> None:
    """`int_parsing_size` became the undocumented id int-parsing-size."""
    with pytest.raises(SpecError) as caught:
        read_spec(WORKLOAD, settings=("train.steps='1" + "0" * 5000 + "'",))
    assert {p.id for p in caught.value.problems} <= {"not-allowed", "wrong-type", "out-of-range"}
