"""Checks of the model, its initial weights and its tokenizer."""

from __future__ import annotations

import pytest

from tests.checks.factory import DROP, ids, problems, spec
from xsft.catalog.models import model as catalogue_model
from xsft.checks.facts import Facts
from xsft.checks.model import check
from xsft.data.facts import TokenizerFacts
from xsft.spec.facts import TemplateFacts
from xsft.spec.model import WorkloadSpec

INSTRUCT = "meta-llama/Llama-3.1-8B-Instruct"


def model(**fields: object) -> WorkloadSpec:
    return spec(model=fields)


def test_unknown_model_suggests_close_names():
    (problem,) = problems(check, model(name="qwen3-06b"))
    assert (problem.id, problem.severity, problem.where) == ("model-unknown", "error", "model.name")
    assert "qwen3-0.6b" in problem.fix


def test_hugging_face_id_suggests_the_name_of_maxtext():
    unknown = [p for p in problems(check, model(name="deepseek-ai/DeepSeek-V3")) if p.id == "model-unknown"]
    assert "deepseek3-671b" in unknown[0].fix


def test_model_that_the_release_lacks_is_refused():
    younger = spec(model={"name": "gemma4-31b", "tokenizer": "google/gemma-4-31b-it"}, image={"maxtext": "0.2.0"})
    assert "model-unknown" in ids(check, younger)
    assert "model-unknown" not in ids(check, model(name="gemma4-31b", tokenizer="google/gemma-4-31b-it"))


def test_checkpoint_and_hf_weights_together_are_refused():
    hf = {"repo": "Qwen/Qwen3-0.6B"}
    assert ids(check, model(hf=hf)) == {"checkpoint-and-hf"}
    assert ids(check, model(hf=hf, checkpoint=DROP)) == set()


def test_missing_initial_weights_are_a_warning_on_a_cluster_and_a_local_note():
    (remote,) = problems(check, model(checkpoint=DROP))
    (local,) = problems(check, spec(target="local", model={"checkpoint": DROP}))
    assert (remote.id, remote.severity, local.id, local.severity) == (
        "no-initial-checkpoint",
        "warning",
        "no-initial-checkpoint",
        "note",
    )


def test_model_that_maxtext_does_not_convert_is_refused():
    hf = {"repo": "Qwen/Qwen3-1.7B"}
    assert ids(check, model(name="qwen3-1.7b", hf=hf, checkpoint=DROP)) == {"model-not-convertible"}
    assert ids(check, model(name="qwen3-1.7b")) == set()


def test_model_that_the_converter_of_the_release_fails_on_is_refused():
    repo = "deepseek-ai/DeepSeek-V3"
    deepseek = {"name": "deepseek3-671b", "tokenizer": repo, "checkpoint": DROP, "hf": {"repo": repo}}
    (problem,) = problems(check, model(**deepseek))
    assert (problem.id, problem.severity, problem.where) == ("model-not-convertible", "error", "model.hf")
    assert "Convert with MaxText 0.2.4, and set model.checkpoint to the result" in problem.fix
    assert ids(check, spec(model=deepseek, image={"maxtext": "0.2.4"})) == set()
    assert ids(check, model(**{**deepseek, "hf": DROP, "checkpoint": "gs://my-bucket/0/items"})) == set()
    repo = "Qwen/Qwen3-Coder-480B-A35B-Instruct"
    coder = {"name": "qwen3-480b-a35b", "tokenizer": repo, "checkpoint": DROP, "hf": {"repo": repo}}
    (problem,) = problems(check, spec(model=coder, image={"maxtext": "0.2.2"}))
    assert problem.id == "model-not-convertible"
    assert problem.fix.endswith("or use another model.")


@pytest.mark.parametrize("name", ["mixtral-8x7b", "mixtral-8x22b", "deepseek2-16b"])
def test_model_that_converts_only_without_scanned_layers_says_so(name: str) -> None:
    repo = catalogue_model(name).hf_id
    model_section = {"name": name, "tokenizer": repo, "checkpoint": DROP, "hf": {"repo": repo}}
    (problem,) = problems(check, model(**model_section))
    assert (problem.id, problem.fix) == ("model-not-convertible", "Set model.scan_layers: false.")
    assert "model-not-convertible" not in ids(check, model(**model_section, scan_layers=False))


def test_weights_that_do_not_match_the_model_name_are_reported():
    gemma = {"name": "gemma3-4b", "tokenizer": "google/gemma-3-4b-it", "checkpoint": DROP}
    assert ids(check, model(**gemma, hf={"repo": "google/gemma-3-4b-it"})) == {"hf-tuned-weights"}
    assert ids(check, model(**gemma, hf={"repo": "google/gemma-3-4b-pt"})) == {"hf-other-weights"}


def test_repository_or_revision_that_the_converter_ignores_is_reported():
    pinned = {"name": "gemma2-2b", "tokenizer": "google/gemma-2-2b-it", "checkpoint": DROP}
    revision = {"repo": "google/gemma-2-2b", "revision": "a1b2c3"}
    other = {"repo": "somebody/gemma"}
    for version, hf, expected in (
        ("0.2.4", revision, {"hf-revision-release"}),
        ("0.2.5", revision, set()),
        ("0.1.0", other, {"hf-repo-legacy"}),
        ("0.2.5", other, {"hf-other-weights"}),
    ):
        assert ids(check, spec(image={"maxtext": version}, model={**pinned, "hf": hf})) == expected


def test_local_folder_of_weights_is_refused_on_a_cluster_or_with_a_revision():
    folder = {"checkpoint": DROP, "hf": {"repo": "./mine"}}
    assert "hf-folder-on-cluster" in ids(check, model(**folder))
    assert "hf-folder-on-cluster" not in ids(check, spec(target="local", tpu=DROP, place=DROP, model=folder))
    revised = {**folder, "hf": {"repo": "./mine", "revision": "v1"}}
    assert "hf-folder-revision" in ids(check, spec(target="local", tpu=DROP, place=DROP, model=revised))


def test_model_without_a_configuration_is_refused():
    assert "model-not-built-in" in ids(check, model(name="qwen3.5-35b-fp8", tokenizer="Qwen/Qwen3.5-35B-A3B"))


def test_tokenizer_of_another_family_is_refused():
    (problem,) = problems(check, model(tokenizer="deepseek-ai/DeepSeek-V3"))
    assert (problem.id, problem.severity) == ("tokenizer-family", "error")
    assert "Qwen/Qwen3-0.6B" in problem.fix
    assert ids(check, model(tokenizer="Qwen/Qwen3-8B")) == set()
    assert ids(check, model(tokenizer="my-org/my-tokenizer")) == set(), "unknown is not wrong"


@pytest.mark.parametrize("file", ["gs://my-bucket/spm.model", "assets/tokenizer.llama2", "/models/qwen/tokenizer.json"])
def test_tokenizer_file_instead_of_a_folder_is_refused(file: str):
    assert ids(check, model(tokenizer=file)) == {"tokenizer-unreadable"}


def test_tokenizer_is_required_if_release_and_model_have_no_default():
    legacy = spec(model={"tokenizer": DROP}, image={"maxtext": "tutorial-v1.5.0"})
    assert ids(check, legacy) == {"tokenizer-missing"}
    assert ids(check, model(tokenizer=DROP)) == set()
    assert ids(check, model(name="llama3.3-70b", tokenizer=DROP)) == {"tokenizer-missing"}


def test_a_base_tokenizer_needs_a_chat_template():
    base = model(name="llama3.1-8b", tokenizer="meta-llama/Llama-3.1-8B")
    assert ids(check, base) == {"chat-template-missing"}
    assert ids(check, model(name="llama3.1-8b", tokenizer=DROP)) == {"chat-template-missing"}, "MaxText's own choice"
    assert ids(check, model(name="llama3.1-8b", tokenizer=INSTRUCT)) == set()
    bare, with_template = (
        Facts(tokenizer=TokenizerFacts(folder="/t", template=text)) for text in (None, "{{ messages }}")
    )
    assert ids(check, model(tokenizer="my-org/my-tokenizer"), bare) == {"chat-template-missing"}, "its own files say so"
    assert ids(check, base, with_template) == set()
    templated = spec(model={"name": "llama3.1-8b", "tokenizer": DROP}, data={"chat_template": "chat.jinja"})
    assert ids(check, templated, Facts(template=TemplateFacts(text="{{ messages }}"))) == set()


def test_template_that_maxtext_drops_counts_as_missing():
    """Texts for questions are no chat template, and neither is a path that is not in the image."""
    base = {"model": {"name": "llama3.1-8b", "tokenizer": DROP}}
    questions = Facts(template=TemplateFacts(text='{"PROMPT_TEMPLATE": "{question}"}'))
    assert ids(check, spec(**base, data={"chat_template": "qa.json"}), questions) == {"chat-template-missing"}
    for path, found in (("gs://my-bucket/chat.jinja", {"chat-template-missing"}), ("/templates/chat.jinja", set())):
        assert ids(check, spec(**base, overrides={"maxtext": {"chat_template_path": path}})) == found


def test_scanned_layers_are_refused_for_models_that_cannot_scan():
    gemma = {"name": "gemma4-e2b", "tokenizer": "google/gemma-4-E2B-it"}
    assert ids(check, model(**gemma)) == {"scan-layers-model"}
    assert ids(check, model(**gemma, scan_layers=False)) == set()


def test_vision_models_are_checked_for_scanned_layers():
    vision = {"name": "qwen3-vl-30b-a3b", "tokenizer": "Qwen/Qwen3-VL-30B-A3B-Instruct"}
    assert ids(check, model(**vision)) == set()
    assert ids(check, model(**{**vision, "name": "qwen3-vl-4b"})) == {"scan-layers-model"}


def test_sparse_indexer_needs_a_supported_attention():
    base = {"model": {"name": "deepseek4-284b", "tokenizer": "deepseek-ai/DeepSeek-V4-Flash"}}
    assert ids(check, spec(**base)) == {"indexer-attention"}
    splash = {"maxtext": {"attention": "flash", "use_tokamax_splash": True}}
    assert ids(check, spec(**base, overrides=splash)) == set()
    assert ids(check, spec(**base, overrides={"maxtext": {"attention": "dot_product"}})) == set()


def test_tokenizer_with_more_tokens_than_embedding_rows_is_reported() -> None:
    added = Facts(tokenizer=TokenizerFacts(folder="/t", vocabulary=151_937))
    assert "tokenizer-vocabulary" in ids(check, spec(), added)
    assert "tokenizer-vocabulary" not in ids(
        check, spec(), Facts(tokenizer=TokenizerFacts(folder="/t", vocabulary=151_936))
    )
    image_token = Facts(tokenizer=TokenizerFacts(folder="/t", vocabulary=262_145))
    gemma = spec(model={"name": "gemma3-4b", "tokenizer": "google/gemma-3-4b-it"})
    assert "tokenizer-vocabulary" not in ids(check, gemma, image_token)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("sliding_window_size", 128, {"architecture-changed"}),
        ("attn_logits_soft_cap", 50.0, {"architecture-changed"}),
        ("attn_logits_soft_cap", 0, set()),
        ("attn_logits_soft_cap", None, set()),
        ("rope_linear_scaling_factor", 8, {"architecture-changed"}),
        ("rope_max_timescale", 10_000, set()),  # the model sets it: trainer_keys
    ],
)
def test_key_that_changes_only_the_computation_is_reported(key: str, value: object, expected: set[str]) -> None:
    assert ids(check, spec(overrides={"maxtext": {key: value}})) == expected


def test_changed_computation_is_allowed_for_long_contexts_and_random_weights() -> None:
    longer = {"train": {"max_target_length": 65_536}, "overrides": {"maxtext": {"rope_linear_scaling_factor": 8}}}
    assert ids(check, spec(**longer)) == set()
    random = spec(model={"checkpoint": DROP}, overrides={"maxtext": {"sliding_window_size": 128}})
    assert "architecture-changed" not in ids(check, random)
    forced = {"override_model_config": True, "rope_max_timescale": 1000}
    assert ids(check, spec(overrides={"maxtext": forced})) == {"architecture-changed"}
    assert ids(check, spec(overrides={"maxtext": {**forced, "rope_max_timescale": 1_000_000}})) == set()
