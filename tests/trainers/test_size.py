from __future__ import annotations

import yaml

from tests.localruns import WORKLOADS
from xsft.trainers.size import default_parameters


def test_default_parameters_of_tiny_model_match_its_checkpoint() -> None:
    """545.4 KiB in float32: printed by orbax-checkpoint 0.12.8 for a run of the tiny workload."""
    keys = yaml.safe_load((WORKLOADS / "tiny_local.yaml").read_text())["overrides"]["maxtext"] | {
        "model_name": "default"
    }
    parameters = default_parameters(keys)
    assert parameters == 139_584
    assert abs(parameters * 4 / 1024 - 545.4) < 0.2


def test_default_parameters_of_other_models_are_unknown() -> None:
    assert default_parameters({"model_name": "gemma2-2b"}) is None
    assert default_parameters({"model_name": "default", "decoder_block": "llama2"}) is None
