from __future__ import annotations

from typing import Any

from tests.localruns import local_plan
from xsft.stages.export import intended_training


def test_a_training_that_has_not_begun_has_the_names_of_its_plan(tmp_path: Any) -> None:
    plan = local_plan(tmp_path / "out/")
    trained = intended_training(plan)
    assert (trained.run_name, trained.spec_digest) == (plan.run_name, plan.spec_digest)
    assert trained.output == str(tmp_path / "out")
