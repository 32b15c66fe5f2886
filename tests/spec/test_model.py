"""The workload as a type: whatever part of it is written, it comes back from YAML as it was."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.everything import EVERYTHING, OTHER, changed, leaves
from xsft.spec.model import WorkloadSpec
from xsft.spec.reader import read_spec
from xsft.spec.sections import Tpu

REQUIRED = {
    "name",
    "model.name",
    "data.hf_path",
    "data.columns",
    "train.steps",
    "train.per_device_batch_size",
    *("tpu.type", "model.hf.repo", "eval.interval", "lora.rank", "lora.alpha", "secrets.hf_token.secret"),
}
OPTIONAL = sorted(set(leaves()) - REQUIRED)


@given(left_out=st.sets(st.sampled_from(OPTIONAL)), other=st.sets(st.sampled_from(sorted(OTHER))))
def test_any_workload_survives_yaml(left_out: set[str], other: set[str]) -> None:
    values = {path: OTHER[path] for path in other} | dict.fromkeys(left_out)
    spec = WorkloadSpec.model_validate(changed(EVERYTHING, values))
    text = yaml.safe_dump(spec.model_dump(mode="json", exclude_unset=True), allow_unicode=True)
    assert read_spec(text) == spec
    assert WorkloadSpec.model_validate_json(spec.model_dump_json()) == spec


def test_everything_is_everything() -> None:
    """The fixture has every field; one that is added to the model must be added there."""
    spec = WorkloadSpec.model_validate(EVERYTHING)
    unset = [path for path in leaves() if _value(spec, path) is None]
    assert unset == []
    assert set(leaves()) == set(OTHER)


def test_the_other_value_is_another() -> None:
    spec = WorkloadSpec.model_validate(EVERYTHING)
    assert [path for path in OTHER if _value(spec, path) == OTHER[path]] == []


@pytest.mark.parametrize("path", [p for p in sorted(leaves()) if p not in OPTIONAL])
def test_what_is_required_is_requested(path: str) -> None:
    with pytest.raises(ValidationError):
        WorkloadSpec.model_validate(changed(EVERYTHING, {path: None}))


def test_nothing_can_be_changed_afterwards() -> None:
    spec = WorkloadSpec.model_validate(EVERYTHING)
    with pytest.raises(ValidationError):
        spec.name = "other"


def _value(spec: WorkloadSpec, path: str) -> Any:
    value: Any = spec
    for part in path.split("."):
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("written", ["mine", "projects/other-project/reservations/mine"])
def test_a_reservation_is_a_name_or_a_path_that_ends_in_one(written: str) -> None:
    tpu = {"type": "v6e-8", "capacity": "reservation", "reservation": written}
    assert Tpu.model_validate(tpu).reservation == written


@pytest.mark.parametrize(
    "written", ["mine/reservationBlocks/b1", "reservations/mine", "projects/p/mine", "mine/", "a" * 64]
)
def test_what_no_node_label_can_say_is_no_reservation(written: str) -> None:
    with pytest.raises(ValidationError):
        Tpu.model_validate({"type": "v6e-8", "capacity": "reservation", "reservation": written})
