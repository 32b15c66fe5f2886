"""Messages for unknown keys: another trainer's word for a key is answered with xsft's."""

from __future__ import annotations

import pytest

from xsft.base.errors import SpecError
from xsft.spec.complaints import _SYNONYMS, paths_to
from xsft.spec.explain import read_spec
from xsft.spec.model import WorkloadSpec

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
def test_fix_of_unknown_key_suggests_the_key_of_xsft(setting: str, ours: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_spec(WORKLOAD, settings=(setting,))
    (problem,) = caught.value.problems
    assert problem.id == "unknown-key"
    assert problem.fix.startswith(f"Did you mean {ours}")


def test_every_suggested_synonym_is_a_key_and_no_source_is() -> None:
    assert [word for word in _SYNONYMS.values() if not paths_to(WorkloadSpec, word)] == []
    assert [word for word in _SYNONYMS if paths_to(WorkloadSpec, word)] == []


def test_pydantic_error_gets_a_documented_id() -> None:
    """`int_parsing_size` became the undocumented id int-parsing-size."""
    with pytest.raises(SpecError) as caught:
        read_spec(WORKLOAD, settings=("train.steps='1" + "0" * 5000 + "'",))
    assert {p.id for p in caught.value.problems} <= {"not-allowed", "wrong-type", "out-of-range"}


def test_variable_beside_env_is_sent_there() -> None:
    with pytest.raises(SpecError) as caught:
        read_spec(WORKLOAD, settings=("secrets.WANDB_API_KEY.secret=wandb",))
    (problem,) = caught.value.problems
    assert (problem.id, problem.fix) == ("unknown-key", "Write it under secrets.env.")


@pytest.mark.parametrize(
    ("setting", "fix"),
    [
        ("name=My-Run", "Write my-run."),
        ("name=my_run", "Give lower-case letters, digits and dashes, starting with a letter"),
        ("queue=Team-A", "Write team-a."),
    ],
)
def test_fix_of_a_wrong_form_names_the_value_to_give(setting: str, fix: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_spec(WORKLOAD, settings=(setting,))
    (problem,) = caught.value.problems
    assert problem.id == "wrong-form"
    assert problem.fix.startswith(fix)


def test_token_in_the_place_of_a_secrets_name_is_to_be_revoked() -> None:
    token = f"hf_{'A1b2' * 6}"
    with pytest.raises(SpecError) as caught:
        read_spec(WORKLOAD, settings=(f"secrets.hf_token.secret={token}",))
    (problem,) = caught.value.problems
    assert problem.fix.startswith("Revoke it")
    assert token not in repr(problem)
