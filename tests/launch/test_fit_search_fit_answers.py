from __future__ import annotations

import pytest

from tests.localruns import WORKLOADS
from xsft.base.errors import SpecError
from xsft.fit.trainer_step import needed_step
from xsft.planning import api


def test_a_topology_that_only_libtpu_knows_has_no_step() -> None:
    file = str(WORKLOADS / "qwen3_gsm8k.yaml")
    (intent,) = api.intend((api.load(file, settings=("tpu.type=v6e-16x32",)),))
    with pytest.raises(SpecError) as refused:
        needed_step(file, intent.run)
    (problem,) = refused.value.problems
    assert (problem.id, problem.where, problem.file) == ("fit-no-step", "tpu", file)
    assert problem.message.startswith("'v6e-16x32' is not a TPU type that xpk accepts")
