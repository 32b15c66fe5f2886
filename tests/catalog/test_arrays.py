"""Names and shapes of the arrays of every model."""

from __future__ import annotations

import json
import math

import pytest
import yaml

from tests.localruns import WORKLOADS
from tests.maxtext import Worker, ask
from xsft.catalog.arrays import ArrayLayout, exact_parameters, required
from xsft.catalog.models import model, names

BUILT = (
    "qwen3-0.6b",
    "gemma2-2b,param_scan_axis=0",
    "deepseek3-tiny",
    "deepseek3-tiny,scan_layers=False,base_num_decoder_layers=4",
    "qwen2.5-1.5b",
    "qwen3-30b-a3b",
    "mixtral-8x7b,param_scan_axis=0",
    "gpt-oss-20b",
    "qwen3-next-80b-a3b",
    "gemma4-31b",
    "gemma4-26b,scan_layers=False,base_num_decoder_layers=6",
    "llama4-17b-128e,base_num_decoder_layers=4",
    "gemma3-4b,base_num_decoder_layers=8",
    "llama2-7b,vocab_size=512,base_emb_dim=64,base_mlp_dim=96,head_dim=8,base_num_kv_heads=4",
)
"""One model of each kind of decoder, in one layout or another, with sizes changed."""


def test_arrays_add_up_to_the_parameters_of_each_model() -> None:
    """Within 3 %, as models.toml says; the two layouts hold the same number."""
    for name in names():
        scanned, each = (required(name, {}, layout=ArrayLayout(scan=scan)) for scan in (True, False))
        assert scanned is not None
        assert each is not None
        assert scanned.complete == each.complete, name
        totals = [sum(math.prod(shape) for shape in one.arrays.values()) for one in (scanned, each)]
        assert totals[0] == totals[1], name
        params_b = model(name).params_b
        if scanned.complete and params_b is not None and not name.startswith(("qwen3-next", "qwen3.5", "gemma4")):
            assert totals[0] == pytest.approx(params_b * 1e9, rel=0.03), name


def test_parameters_of_tiny_model_match_its_checkpoint() -> None:
    """545.4 KiB in float32: printed by orbax-checkpoint 0.12.8 for a run of the tiny workload."""
    keys = yaml.safe_load((WORKLOADS / "tiny_local.yaml").read_text())["overrides"]["maxtext"]
    parameters = exact_parameters("default", keys)
    assert parameters == 139_584
    assert abs(parameters * 4 / 1024 - 545.4) < 0.2


def test_parameters_are_unknown_without_all_arrays() -> None:
    assert exact_parameters("no-model", {}) is None
    assert exact_parameters("gemma2-2b", {}, release="0.1.0") is None


def test_unknown_decoders_give_incomplete_arrays_or_none() -> None:
    partial = (("deepseek4-284b", {}), ("qwen3-0.6b", {"fused_mlp": True}), ("gpt3-6b", {}))
    for name, given in partial:
        arrays = required(name, given, layout=ArrayLayout())
        assert arrays is not None
        assert (arrays.complete, list(arrays.arrays)) == (False, ["token_embedder.embedding"])
    for given in ({"base_emb_dim": "wide"}, {"global_parameter_scale": 2}):
        assert required("qwen3-0.6b", given, layout=ArrayLayout()) is None
    huge = required("qwen3-0.6b", {"base_num_decoder_layers": 10**9}, layout=ArrayLayout(scan=False))
    assert huge is not None
    assert not huge.complete


@pytest.mark.contract
@pytest.mark.parametrize("question", BUILT)
def test_arrays_equal_those_that_maxtext_builds(question: str, maxtext: Worker) -> None:
    name, *pairs = question.split(",")
    (answer,) = ask([{"arrays": [name, *pairs]}], of=maxtext)
    given = {key: json.loads(value.lower()) for key, value in (pair.split("=") for pair in pairs)}
    layout = ArrayLayout(scan=given.pop("scan_layers", True), axis=given.pop("param_scan_axis", 1))
    expected = required(name, given, layout=layout)
    assert expected is not None
    assert {key: list(shape) for key, shape in expected.arrays.items()} == answer.get("arrays"), answer.get("error")
