from __future__ import annotations

from typing import Any

import pytest

from tests.checks.factory import DROP, ids, problems, spec
from xsft.base.problems import error
from xsft.catalog.hf_config import source_fields
from xsft.checks.conversion import check
from xsft.checks.facts import Facts
from xsft.data.facts import TokenizerFacts
from xsft.spec.facts import SourceFacts

HF = {"checkpoint": DROP, "hf": {"repo": "./mine"}}
HERE = spec(target="local", tpu=DROP, place=DROP, model=HF)
PROBLEM = error("hf-folder-missing", "model.hf.repo", "There is no folder.", "Correct the path.")


@pytest.mark.parametrize(
    ("source", "tokens", "expected"),
    [
        (None, None, set()),
        (SourceFacts(vocabulary=512), 512, set()),
        (SourceFacts(vocabulary=512), 513, {"tokenizer-vocabulary"}),
        (SourceFacts(), 513, set()),
        (SourceFacts(vocabulary=151_938), None, {"weights-vocabulary"}),
        (SourceFacts(quantized="config.json has quantization_config (fp8)"), None, {"weights-quantized"}),
        (SourceFacts(problems=(PROBLEM,)), None, {"hf-folder-missing"}),
    ],
    ids=[
        "nothing known",
        "vocabulary fits",
        "tokenizer larger than vocabulary",
        "vocabulary unknown",
        "vocabulary of another size",
        "quantized",
        "folder missing",
    ],
)
def test_unsuitable_source_weights_are_reported(
    source: SourceFacts | None, tokens: int | None, expected: set[str]
) -> None:
    tokenizer = TokenizerFacts(folder="/t", vocabulary=tokens)
    assert ids(check, HERE, Facts(source=source, tokenizer=tokenizer)) == expected


OWN = {
    "hidden_size": 1024,
    "num_hidden_layers": 28,
    "rope_theta": 1e6,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
}


@pytest.mark.parametrize(
    ("fields", "severity"),
    [
        (OWN, None),
        ({**OWN, "hidden_size": 2048}, "warning"),
        ({**OWN, "rope_theta": 10_000.0}, "warning"),
        ({**OWN, "tie_word_embeddings": False}, "warning"),
        ({**OWN, "sliding_window": 32768, "use_sliding_window": False}, None),
        ({**OWN, "sliding_window": 32768}, "warning"),
        ({**OWN, "model_type": "llama"}, "warning"),
        ({**OWN, "rope_scaling": {"type": "linear", "factor": 2.0}}, "warning"),
        ({**OWN, "attention_bias": True}, "warning"),
        ({**OWN, "hidden_act": "gelu"}, "warning"),
        ({**OWN, "head_dim": 64}, "warning"),
    ],
    ids=[
        "same",
        "other size",
        "other rope_theta",
        "embeddings not tied",
        "window that is off",
        "sliding window",
        "another architecture",
        "scaled RoPE",
        "biases",
        "activation",
        "head size",
    ],
)
def test_config_json_that_differs_from_the_model_is_reported(fields: dict[str, Any], severity: str | None) -> None:
    reported = problems(check, HERE, Facts(source=SourceFacts(fields=source_fields(fields))))
    assert [(p.id, p.severity) for p in reported] == ([("weights-config", severity)] if severity else [])


def test_run_from_a_checkpoint_has_no_conversion_problems() -> None:
    facts = Facts(source=SourceFacts(quantized="config.json has quantization_config"))
    assert ids(check, spec(), facts) == set()


def test_own_sizes_are_refused_where_the_converter_cannot_be_given_them() -> None:
    small = {"model": {**HF, "name": "llama3.1-8b"}, "overrides": {"maxtext": {"head_dim": 64}}}
    assert ids(check, spec(**small, image={"maxtext": "0.1.0"})) == {"weights-sizes-legacy"}
    assert ids(check, spec(**small)) == set()


LLAMA3 = {
    "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 500000.0, "rms_norm_eps": 1e-5,
}  # fmt: skip
SCALING = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}


def test_llama_3_weights_are_not_llama_3_1() -> None:
    llama = spec(target="local", tpu=DROP, place=DROP, model={**HF, "name": "llama3.1-8b"})
    (problem,) = problems(check, llama, Facts(source=SourceFacts(fields=source_fields(LLAMA3))))
    assert "its rope.rope_type is default, and the model's llama3" in problem.message
    scaled = {**LLAMA3, "rope_scaling": {**SCALING, "rope_type": "llama3"}}
    assert ids(check, llama, Facts(source=SourceFacts(fields=source_fields(scaled)))) == set()


def test_values_are_those_of_the_images_release() -> None:
    base = spec(model={**HF, "name": "qwen3-30b-a3b-base"}, image={"maxtext": "0.2.3"})
    facts = Facts(source=SourceFacts(fields=source_fields({"model_type": "qwen3_moe", "rope_theta": 1e7})))
    assert "weights-config" not in ids(check, base, facts)
    assert "weights-config" in ids(check, spec(model={**HF, "name": "qwen3-30b-a3b-base"}), facts)
