"""config.json and the tokenizer's files of an exported model: the source's, with what the training changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.hfmodels import CONFIG, write_model
from xsft.workers.model_files import (
    readable_by_transformers_4,
    source_configs,
    with_both_spellings,
    with_changes,
    with_ends,
    with_ids,
    write_tokenizer,
)

JOB: dict[str, Any] = {
    "tokenizer_revision": None,
    "pad_token": "",
    "bos_token": "",
    "template": None,
    "source": None,
    "dtype": "bfloat16",
    "computed": {"rope_theta": 1e6, "rms_norm_eps": 1e-6, "final_logit_softcapping": 30.0},
    "changed": [],
    "own_rope": False,
}
MAXTEXTS = {"rope_parameters": {"rope_type": "yarn", "rope_theta": 7.0}, "layer_types": ["a"] * 9}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An export as MaxText writes it."""
    exported = tmp_path / "exported"
    exported.mkdir()
    (exported / "config.json").write_text(json.dumps({**MAXTEXTS, "num_hidden_layers": 2}))
    (exported / "tokenizer_config.json").write_text('{"tokenizer_class": "TokenizersBackend"}')
    (exported / "added_tokens.json").write_text("{}")
    return exported


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_model(tmp_path / "source", config={"rope_theta": 1e6, "max_position_embeddings": 32768})


def test_config_json_is_the_sources(folder: Path, source: Path) -> None:
    job = {**JOB, "source": {"repo": str(source), "revision": None, "guessed": False}}
    assert source_configs(folder, job) == (json.loads((source / "config.json").read_text()), {}, "")
    config, _, _ = source_configs(folder, {**job, "own_rope": True})
    assert (config["rope_parameters"], "rope_theta" in config) == (MAXTEXTS["rope_parameters"], False)


def test_config_json_of_a_training_from_elsewhere_is_maxtexts_and_says_so(folder: Path, tmp_path: Path) -> None:
    config, _, why = source_configs(folder, JOB)
    assert (config["layer_types"], why) == (["a", "a"], "the training started from no Hugging Face model")


def test_what_maxtext_computed_otherwise_is_changed_and_nothing_else() -> None:
    assert with_changes({**CONFIG, "rope_theta": 1e6, "rms_norm_eps": 1e-6}, JOB) == {
        **CONFIG, "rope_theta": 1e6, "rms_norm_eps": 1e-6,
    }  # fmt: skip
    assert with_changes({"rope_theta": 1e4, "torch_dtype": "float32"}, JOB) == {
        "rope_theta": 1e6, "torch_dtype": "bfloat16",
    }  # fmt: skip
    five = with_changes({"text_config": {"rope_parameters": {"rope_theta": 1e4, "rope_type": "default"}}}, JOB)
    assert five["text_config"]["rope_parameters"] == {"rope_theta": 1e6, "rope_type": "default"}
    assert with_changes({}, {**JOB, "changed": ["rms_norm_eps"]}) == {"rms_norm_eps": 1e-6}


def test_tokens_of_the_training_replace_others() -> None:
    assert with_ids({"eos_token_id": [1, 2], "pad_token_id": 5}, {"eos_token_id": 2, "pad_token_id": 3}) == {
        "eos_token_id": [1, 2],
        "pad_token_id": 3,
    }
    assert with_ends({"temperature": 0.6, "eos_token_id": 1}, [1, 4]) == {"temperature": 0.6, "eos_token_id": [1, 4]}


def test_tokenizer_is_a_copy_with_the_trainings_tokens_and_template(folder: Path, source: Path) -> None:
    job = {**JOB, "tokenizer": str(source), "pad_token": "<|system|>", "template": "{{ messages }}"}
    write_tokenizer(folder, job)
    settings = json.loads((source / "tokenizer_config.json").read_text())
    changed = {"pad_token": "<|system|>", "chat_template": "{{ messages }}"}
    assert json.loads((folder / "tokenizer_config.json").read_text()) == {**settings, **changed}
    assert (folder / "chat_template.jinja").read_text() == "{{ messages }}"
    assert (folder / "tokenizer.json").read_bytes() == (source / "tokenizer.json").read_bytes()
    assert not (folder / "added_tokens.json").exists()


def test_words_of_transformers_5_are_written_as_transformers_4_knows_them() -> None:
    five = {"tokenizer_class": "TokenizersBackend", "extra_special_tokens": ["<a>"]}
    four = {"tokenizer_class": "PreTrainedTokenizerFast", "additional_special_tokens": ["<a>"]}
    assert readable_by_transformers_4(five) == four
    assert readable_by_transformers_4({**four, "extra_special_tokens": {"a": "<a>"}})["extra_special_tokens"]


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LOCAL = {"rope_type": "default", "rope_theta": 1e4}


@pytest.mark.parametrize(
    ("four", "five"),
    [
        ({"rope_theta": 5e5, "rope_scaling": LLAMA3}, {**LLAMA3, "rope_theta": 5e5}),
        ({"rope_theta": 1e6, "rope_scaling": None}, {"rope_type": "default", "rope_theta": 1e6}),
        (
            {"rope_theta": 1e4, "partial_rotary_factor": 0.25, "rope_scaling": None},
            {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.25},
        ),
        (
            {"rope_theta": 1e6, "rope_local_base_freq": 1e4, "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
            {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                "sliding_attention": LOCAL,
            },
        ),
    ],
    ids=["scaled as Llama 3", "plain", "partial", "Gemma 3, a kind for each layer"],
)
def test_each_spelling_is_completed_by_the_other(four: dict[str, Any], five: dict[str, Any]) -> None:
    both = {**four, "rope_parameters": five}
    assert with_both_spellings(four) == both
    assert with_both_spellings({"rope_parameters": five}) == both
    assert with_both_spellings(both) == both
    assert with_both_spellings({"text_config": four}) == {"text_config": both}


def test_older_word_for_the_type_is_understood() -> None:
    found = with_both_spellings({"rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 2.0}})
    assert found["rope_parameters"] == {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}


def test_configuration_without_rope_stays_as_it_is() -> None:
    assert with_both_spellings({"model_type": "gpt2"}) == {"model_type": "gpt2"}
