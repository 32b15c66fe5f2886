from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.evaluation.factory import INPUTS
from xsft.evaluation.inputs import EvaluationInputs, directory_of


@pytest.mark.parametrize("field", EvaluationInputs.__struct_fields__)
def test_each_field_changes_the_digest(field: str) -> None:
    assert replace(INPUTS, **{field: "another"}).digest != INPUTS.digest


def test_folder_name_contains_the_digest() -> None:
    found = directory_of(INPUTS, output="/out/", run_name="tiny-evaluate")
    assert found == f"/out/tiny-evaluate/{INPUTS.digest[:12]}"
