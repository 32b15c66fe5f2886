from __future__ import annotations

import json

import yaml

from tests.localruns import WORKLOADS
from xsft.trainers.size import default_parameters, saved_parameters


def test_the_tiny_model_is_what_orbax_writes() -> None:
    """545.4 KiB in float32: printed by orbax-checkpoint 0.12.8 for a run of the tiny workload."""
    keys = yaml.safe_load((WORKLOADS / "tiny_local.yaml").read_text())["overrides"]["maxtext"] | {
        "model_name": "default"
    }
    parameters = default_parameters(keys)
    assert parameters == 139_584
    assert abs(parameters * 4 / 1024 - 545.4) < 0.2


def test_another_model_is_not_guessed() -> None:
    assert default_parameters({"model_name": "gemma2-2b"}) is None
    assert default_parameters({"model_name": "default", "decoder_block": "llama2"}) is None


def test_numbers_of_an_adapter_from_its_shapes() -> None:
    leaf = {"value_metadata": {"value_type": "jax.Array", "write_shape": [64, 2, 4]}}
    assert saved_parameters(json.dumps({"tree_metadata": {"a": leaf, "b": leaf}, "use_ocdbt": True})) == 1024


def test_an_unfamiliar_metadata_file_is_no_number() -> None:
    assert [saved_parameters(t) for t in ("", "{}", '{"tree_metadata": {"a": {}}}', "[]")] == [None] * 4
