from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.catalog import models, releases, tokenizers, tpu
from xsft.catalog.sizes import sizes

NAMES = models.names()


@given(st.sampled_from(NAMES))
def test_model_row_is_consistent(name: str) -> None:
    row = models.model(name)
    assert row.q_heads % row.kv_heads == 0
    assert row.moe == (row.experts_per_token > 0)
    assert row.active_b is None or row.params_b is None or row.active_b <= row.params_b
    assert row.hf_id is None or tokenizers.tokenizer_fits(family=row.tokenizer_family, repo=row.hf_id)


@given(st.sampled_from([name for name in NAMES if models.model(name).params_b and not models.model(name).moe]))
def test_parameters_of_a_dense_model_follow_from_its_dimensions(name: str) -> None:
    row = models.model(name)
    model_sizes = sizes(name, {})
    assert model_sizes is not None
    attention = 2 * row.emb * model_sizes["head_dim"] * (row.q_heads + row.kv_heads)
    mlp = (2 if name.startswith("gpt3") else 3) * row.emb * model_sizes["base_mlp_dim"]
    embedding = row.vocab * row.emb * (1 if row.tied else 2)
    estimate = (row.layers * (attention + mlp) + embedding) / 1e9
    tolerance = 0.10 if name.startswith("gemma4") else 0.03  # key-value sharing, per-layer tables
    assert estimate == pytest.approx(row.params_b, rel=tolerance)


def test_flagship_row_has_its_dimensions() -> None:
    row = models.model("deepseek3-671b")
    assert (row.params_b, row.layers, row.experts, row.experts_per_token) == (671.03, 61, 256, 8)
    assert (row.hf_id, row.tokenizer_family) == ("deepseek-ai/DeepSeek-V3", "deepseek-v3")
    assert not row.lora_verified
    assert row.lora_module_path.startswith("decoder/(dense_layers|moe_layers)/self_attention/")


def test_models_with_unusual_layers_have_their_flags() -> None:
    assert models.model("gemma2-2b").layers == 26, "13 pairs"
    assert models.model("gemma4-e2b").unscanned
    assert models.model("qwen3-vl-2b").unscanned
    assert not models.model("qwen3-8b").unscanned
    assert models.model("gemma3-4b").converts_tuned_weights
    assert not models.model("llama3.1-8b-Instruct").converts_tuned_weights
    assert not models.model("qwen3.5-35b-fp8").built_in
    assert models.model("llama3.1-8b-Instruct").emb == models.model("llama3.1-8b").emb


def test_pins_hold_the_configuration_of_the_model() -> None:
    assert models.pins("qwen3-0.6b")["vocab_size"] == 151936
    assert models.pins("qwen3-0.6b")["normalization_layer_epsilon"] == 1e-6
    assert models.pins("maxtext-omni-gemma3-qwen3") == {}
    assert "model" not in models.pins("qwen3-0.6b")


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ("deepseek-671b", "deepseek3-671b"),
        ("llama3.1_8b", "llama3.1-8b"),
        ("Qwen/Qwen3-8B", "Did you mean qwen3-8b?"),
        ("meta-llama/Llama-3.1-8B", "Did you mean llama3.1-8b?"),
        ("", "Known: "),
        ("zzz", "Known: "),
    ],
)
def test_unknown_model_error_suggests_close_names(wrong: str, hint: str) -> None:
    with pytest.raises(ValueError, match="is not a model of MaxText") as caught:
        models.model(wrong)
    assert hint in str(caught.value)


def test_model_names_equal_those_of_the_release() -> None:
    assert set(NAMES) | {"default"} == releases.models_of(releases.DEFAULT)


@pytest.mark.contract
def test_pins_equal_those_of_the_installed_maxtext(maxtext_facts: dict[str, Any]) -> None:
    ours = {name: dict(models.pins(name)) for name in maxtext_facts["model_ymls"]}
    assert ours == maxtext_facts["model_ymls"]


@pytest.mark.contract
def test_hf_ids_and_lora_patterns_equal_those_of_the_installed_maxtext(maxtext_facts: dict[str, Any]) -> None:
    rows = {name: models.model(name) for name in NAMES}
    assert {name: row.hf_id for name, row in rows.items() if row.hf_id} == maxtext_facts["hf_ids"]
    assert {*models.LORA_VERIFIED, "default"} == set(maxtext_facts["lora_patterns"])
    assert {name for name, row in rows.items() if not row.built_in} == _without_yml(maxtext_facts)


def _without_yml(facts: dict[str, Any]) -> set[str]:
    return {name for name in NAMES if name.replace("-Instruct", "") not in facts["model_ymls"]}


@pytest.mark.contract
def test_unknown_dimensions_are_the_defaults_of_the_installed_maxtext(maxtext_facts: dict[str, Any]) -> None:
    base, unknown = maxtext_facts["base"], models.model("maxtext-omni-gemma3-qwen3")
    assert (unknown.emb, unknown.layers) == (base["base_emb_dim"], base["base_num_decoder_layers"])
    assert (unknown.q_heads, unknown.vocab) == (base["base_num_query_heads"], base["vocab_size"])


@pytest.mark.contract
def test_device_counts_equal_those_of_the_installed_maxtext(maxtext_facts: dict[str, Any]) -> None:
    counts = {name: count for name, count in maxtext_facts["devices"].items() if not name.startswith("v5e-")}
    assert len(counts) > 100
    assert {name: tpu.parse_tpu_type(name).devices for name in counts} == counts
