"""Keys without effect in SFT, and features that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.factory import DROP, ids, problems, spec
from tests.maxtext import answer
from xsft.catalog.releases import DEFAULT, key_ok, keys
from xsft.checks.unsupported import COMPUTED, NO_OPS, REFUSALS, check, unread_keys
from xsft.spec.model import WorkloadSpec

UNREAD = Path(__file__).parents[1] / "catalog" / "dumps" / "maxtext_unread.py"


def overriding(**keys: object) -> WorkloadSpec:
    return spec(overrides={"maxtext": keys})


@pytest.mark.parametrize("key", sorted(NO_OPS))
def test_a_key_without_effect_warns_unless_it_is_the_default(key: str):
    default, why = NO_OPS[key]
    (problem,) = problems(check, overriding(**{key: 7 if default is None else not default}))
    assert (problem.id, problem.severity) == ("no-op-key", "warning")
    assert why in problem.message
    assert ids(check, overriding(**{key: default})) == set()


def test_bos_and_eos_keys_have_no_effect_in_hf_and_an_effect_in_grain():
    grain: dict[str, object] = {"dataset_type": "grain"}
    assert ids(check, overriding(add_bos=False, add_eos="false")) == {"no-op-key"}
    assert ids(check, overriding(add_bos=True, add_eos=True)) == set()
    off = {"add_bos": False, "add_eos": "false"}
    assert ids(check, overriding(**grain, **off)) == {"dataset-type"}
    by_id = {p.id: p for p in problems(check, overriding(**grain))}
    assert by_id.keys() == {"dataset-type", "grain-marks"}
    assert "adds BOS and EOS around" in by_id["grain-marks"].message
    assert by_id["grain-marks"].fix == "Set overrides.maxtext: {add_bos: false, add_eos: false}."
    half = {p.id: p for p in problems(check, overriding(**grain, add_bos=False))}
    assert half["grain-marks"].fix == "Set overrides.maxtext: {add_eos: false}."


@pytest.mark.parametrize(
    ("version", "keys", "model", "severity"),
    [
        ("0.2.3", {"ragged_buffer_factor": 2.0}, {}, "error"),
        ("0.2.4", {"ragged_buffer_factor": 2.0}, {}, None),
        ("0.2.4", {"num_vocab_tiling": 4}, {}, "error"),
        ("0.2.5", {"num_vocab_tiling": 4}, {}, None),
        ("0.2.2", {"enable_tensorboard": False}, {}, "error"),
        ("0.2.2", {"enable_tensorboard": True}, {}, None),
        ("0.2.2", {}, {"name": "qwen3-30b-a3b", "checkpoint": DROP, "hf": {"repo": "Qwen/Qwen3-30B-A3B"}}, "error"),
        ("0.2.2", {}, {"name": "qwen3-30b-a3b"}, None),
        ("0.2.3", {"attention": "flash"}, {"name": "gemma2-2b"}, "note"),
        ("0.2.3", {"attention": "dot_product"}, {"name": "gemma2-2b"}, None),
        ("0.2.3", {}, {"name": "qwen3.5-35b-a3b"}, "error"),
        ("0.2.2", {}, {"name": "qwen3.5-397b-a17b"}, None),
        ("0.2.5", {}, {"name": "qwen3.5-35b-a3b"}, None),
    ],
)
def test_a_defect_of_the_images_release_is_reported_where_the_workload_meets_it(
    version: str, keys: dict[str, object], model: dict[str, object], severity: str | None
) -> None:
    parallelism = {"ici": {"fsdp": 16, "expert": 16}}
    workload = spec(image={"maxtext": version}, overrides={"maxtext": keys}, model=model, parallelism=parallelism)
    defects = [p for p in problems(check, workload) if p.id == "release-defect"]
    assert [p.severity for p in defects] == ([severity] if severity else [])
    assert all(p.message.startswith(f"MaxText {version}: ") and "Use MaxText 0.2." in p.fix for p in defects)


def test_images_are_not_trained_on_after_a_conversion_for_text_alone() -> None:
    data = {"packing": False}
    converted = {"name": "gemma3-4b", "checkpoint": DROP, "hf": {"repo": "google/gemma-3-4b-it"}}
    overrides = {"maxtext": {"use_multimodal": True}}
    assert "multimodal-converted" in ids(check, spec(model=converted, data=data, overrides=overrides))
    model_section = {"name": "gemma3-4b"}
    assert "multimodal-converted" not in ids(check, spec(model=model_section, data=data, overrides=overrides))


def test_grain_field_adds_no_marks_and_accepts_several_workers():
    data = {
        "pipeline": "grain",
        "hf_path": "parquet",
        "hf_train_files": "gs://my-bucket/*.parquet",
        "train_split": DROP,
    }
    assert ids(check, spec(data=data)) == set()
    assert ids(check, spec(data=data, overrides={"maxtext": {"grain_worker_count": 4}})) == set()


def test_grain_by_an_override_suggests_the_field():
    (problem,) = problems(check, overriding(dataset_type="grain", add_bos=False, add_eos=False))
    assert "data.pipeline: grain" in problem.fix


def test_gradient_clipping_has_no_effect_before_maxtext_0_2_0():
    keys = {"maxtext": {"gradient_clipping_threshold": 0.5}}
    assert ids(check, spec(image={"maxtext": "tutorial-v1.5.0"}, overrides=keys)) == {"no-op-key"}
    assert ids(check, spec(overrides=keys)) == set()


@pytest.mark.parametrize(
    ("id", "keys", "harmless"),
    [
        ("refused-elastic", {"elastic_enabled": True}, {"elastic_enabled": False}),
        ("refused-colocated-python", {"colocated_python_data_input": True}, {"colocated_python_data_input": False}),
        (
            "refused-colocated-python",
            {"colocated_python_checkpointing": "true"},
            {"colocated_python_checkpointing": False},
        ),
        ("optimizer-offload", {"optimizer_memory_host_offload": True}, {"optimizer_memory_host_offload": False}),
        ("load-full-state", {"load_full_state_path": "gs://my-bucket/x"}, {"load_full_state_path": ""}),
        ("not-sft", {"use_sft": False}, {"use_sft": True}),
        ("not-sft", {"use_dpo": True}, {"use_dpo": False}),
        ("not-sft", {"tokenize_train_data": False}, {"tokenize_train_data": True}),
        ("not-sft", {"training_objective": "block_diffusion"}, {"training_objective": "causal_lm"}),
        ("key-for-tests", {"reuse_example_batch": 1}, {"reuse_example_batch": 0}),
        ("key-for-tests", {"use_random_routing": True}, {"use_random_routing": False}),
        ("no-op-key", {"system_prompt": "Be kind."}, {"system_prompt": ""}),
        ("no-op-key", {"global_batch_size_to_train_on": 64}, {"per_device_batch_size": 8}),
        ("no-op-key", {"dataset_name": "c4/en"}, {"dataset_name": ""}),
        ("multimodal-packing", {"use_multimodal": True}, {"use_multimodal": False}),
        ("grain-workers", {"grain_worker_count": 2}, {"grain_worker_count": 1}),
        ("hardware-not-tpu", {"attention": "cudnn_flash_te"}, {"attention": "flash"}),
        ("hardware-not-tpu", {"quantization": "te_fp8_delayedscaling"}, {"quantization": "int8"}),
        ("dataset-type", {"dataset_type": "tfds"}, {"dataset_type": "hf"}),
        ("conversion-in-trainer", {"convert_checkpoint_if_possible": True}, {"convert_checkpoint_if_possible": False}),
    ],
)
def test_unsupported_keys_are_refused_and_harmless_values_pass(
    id: str, keys: dict[str, object], harmless: dict[str, object]
):
    assert ids(check, overriding(**keys)) == {id}
    assert ids(check, overriding(**harmless)) == set()


def test_refusals_depend_on_mode_release_and_other_fields():
    safetensors = {"maxtext": {"source_checkpoint_layout": "safetensors_dynamic"}}
    assert ids(check, spec(mode="pathways", overrides=safetensors)) == {"safetensors-pathways"}
    assert ids(check, spec(overrides=safetensors)) == set()
    offload = {"maxtext": {"optimizer_memory_host_offload": True}}
    assert ids(check, spec(image={"maxtext": "0.2.2"}, overrides=offload)) == set()
    unpacked = spec(data={"packing": False}, overrides={"maxtext": {"use_multimodal": True}})
    assert ids(check, unpacked) == set()


@pytest.mark.maxtext
def test_unread_keys_equal_those_of_the_installed_maxtext(maxtext_python: Path) -> None:
    assert unread_keys() == set(answer(maxtext_python, UNREAD)) & keys(DEFAULT)


def test_every_listed_key_is_a_key_of_some_release():
    releases = ("tutorial-v1.5.0", "0.2.2", "0.2.5")
    for key in (*NO_OPS, *COMPUTED, *(refusal.key for refusal in REFUSALS)):
        assert any(key_ok(key, version=version) for version in releases), key


def test_vision_models_are_multimodal_by_themselves():
    vision = {"name": "qwen3-vl-4b", "tokenizer": "Qwen/Qwen3-VL-4B-Instruct"}
    (problem,) = problems(check, spec(model=vision))
    assert (problem.id, problem.where) == ("multimodal-packing", "model.name")
    assert ids(check, spec(model=vision, data={"packing": False})) == set()
    assert ids(check, spec(model=vision, overrides={"maxtext": {"use_multimodal": False}})) == set()
