"""Features of xpk that xsft refuses: each has an id and a reason."""

from __future__ import annotations

import pytest
import yaml

from tests.checks.factory import GOOD
from xsft.base.errors import SpecError
from xsft.spec.explain import read_spec
from xsft.spec.model import WorkloadSpec
from xsft.spec.refused import REFUSALS


def workload(path: str, value: object) -> str:
    """The good workload with `value` at the path."""
    tree = yaml.safe_load(yaml.safe_dump(GOOD))
    *sections, last = path.split(".")
    inner = tree
    for section in sections:
        inner = inner.setdefault(section, {})
    inner[last] = value
    return yaml.safe_dump(tree)


@pytest.mark.parametrize("key", REFUSALS)
def test_each_refused_key_gives_one_problem_with_its_id_and_reason(key: str):
    path, _, value = key.partition("=")
    with pytest.raises(SpecError) as caught:
        read_spec(workload(path, value or True))
    (problem,) = caught.value.problems
    assert (problem.id, problem.where, problem.severity) == (REFUSALS[key].id, path, "error")
    assert problem.message.startswith(REFUSALS[key].reason)


def test_refused_keys_are_no_fields():
    assert {key for key in REFUSALS if "." not in key} & set(WorkloadSpec.model_fields) == set()
    assert read_spec(workload("tpu.capacity", "spot")).tpu is not None


def test_every_refused_feature_has_an_id():
    named = {"headless", "elastic", "colocated-python", "storage", "flex", "super-slicing", "sub-slicing", "ramdisk"}
    assert {f"refused-{name}" for name in (*named, "debug-dump")} <= {refusal.id for refusal in REFUSALS.values()}
