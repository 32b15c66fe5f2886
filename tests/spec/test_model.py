"""The workload as a type: every part of a workload survives a round trip through YAML."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.everything import EVERYTHING, OTHER, changed, leaves
from xsft.spec.explain import read_spec
from xsft.spec.model import WorkloadSpec
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
def test_any_workload_survives_a_round_trip_through_yaml(left_out: set[str], other: set[str]) -> None:
    values = {path: OTHER[path] for path in other} | dict.fromkeys(left_out)
    spec = WorkloadSpec.model_validate(changed(EVERYTHING, values))
    text = yaml.safe_dump(spec.model_dump(mode="json", exclude_unset=True), allow_unicode=True)
    assert read_spec(text) == spec
    assert WorkloadSpec.model_validate_json(spec.model_dump_json()) == spec


def test_everything_sets_every_field() -> None:
    """The fixture has every field; one that is added to the model must be added there."""
    spec = WorkloadSpec.model_validate(EVERYTHING)
    unset = [path for path in leaves() if _value(spec, path) is None]
    assert unset == []
    assert set(leaves()) == set(OTHER)


def test_other_values_differ_from_those_of_everything() -> None:
    spec = WorkloadSpec.model_validate(EVERYTHING)
    assert [path for path in OTHER if _value(spec, path) == OTHER[path]] == []


@pytest.mark.parametrize("path", [p for p in sorted(leaves()) if p not in OPTIONAL])
def test_required_field_set_to_none_is_refused(path: str) -> None:
    with pytest.raises(ValidationError):
        WorkloadSpec.model_validate(changed(EVERYTHING, {path: None}))


def test_workload_spec_is_frozen() -> None:
    spec = WorkloadSpec.model_validate(EVERYTHING)
    with pytest.raises(ValidationError):
        spec.name = "other"


def _value(spec: WorkloadSpec, path: str) -> Any:
    value: Any = spec
    for part in path.split("."):
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("written", ["mine", "projects/other-project/reservations/mine"])
def test_reservation_accepts_a_name_or_a_full_path(written: str) -> None:
    tpu = {"type": "v6e-8", "capacity": "reservation", "reservation": written}
    assert Tpu.model_validate(tpu).reservation == written


@pytest.mark.parametrize(
    "written", ["mine/reservationBlocks/b1", "reservations/mine", "projects/p/mine", "mine/", "a" * 64]
)
def test_reservation_refuses_values_that_no_node_label_can_hold(written: str) -> None:
    with pytest.raises(ValidationError):
        Tpu.model_validate({"type": "v6e-8", "capacity": "reservation", "reservation": written})
