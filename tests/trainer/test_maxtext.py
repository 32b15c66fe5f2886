from __future__ import annotations

from typing import Any

import pytest

from tests.everything import EVERYTHING, everything
from xsft.catalog.releases import versions
from xsft.checks.facts import Facts
from xsft.spec.resolve import Run, resolve
from xsft.trainer.maxtext import LOCAL_KEYS, command_env, trainer_argv, trainer_env, trainer_keys
from xsft.trainer.tokenizer_copy import split_copying
from xsft.trainer.trainer import HF_TOKEN_DIRECTORY


def _run(**fields: Any) -> Run:
    return resolve(everything(**fields), Facts())[0]


def _words(run: Run) -> tuple[str, ...]:
    """The trainer's own line, without what copies the tokenizer in front of it."""
    return ("python3", *split_copying(trainer_argv(run)[1:])[1])


def _argument(key: str, **fields: Any) -> str | None:
    return next((a.partition("=")[2] for a in trainer_argv(_run(**fields)) if a.startswith(f"{key}=")), None)


# The head of the line


@pytest.mark.parametrize("version", versions())
def test_the_release_decides_module_and_configuration_file(version: str) -> None:
    run = _run(image__maxtext=version)
    argv = _words(run)
    assert argv[:3] == ("python3", "-m", run.release.trainer)
    assert argv[3] == (run.release.sft_config if run.release.positional_yml else "run_name=everything-19700101")
    assert all("=" in a for a in argv[3 + run.release.positional_yml :])


def test_legacy_and_current_releases_have_their_module_paths() -> None:
    assert _words(_run(image__maxtext="tutorial-v1.5.0"))[2:4] == (
        "MaxText.sft.sft_trainer",
        "src/MaxText/configs/sft.yml",
    )
    assert _words(_run(image__maxtext="0.2.0"))[2:4] == (
        "maxtext.trainers.post_train.sft.train_sft",
        "src/maxtext/configs/post_train/sft.yml",
    )
    assert _words(_run())[3].startswith("run_name=")


def test_no_key_is_given_twice() -> None:
    names = [a.partition("=")[0] for a in _words(_run())[3:]]
    assert len(names) == len(set(names))


# Keys


@pytest.mark.parametrize(
    ("field", "key"),
    [
        ("data.hf_path", "hf_path"),
        ("data.formatting_func", "formatting_func_path"),
        ("data.completion_only", "sft_train_on_completion_only"),
        ("data.shuffle", "enable_data_shuffling"),
        ("train.learning_rate", "learning_rate"),
        ("model.checkpoint", "load_parameters_path"),
        ("eval.interval", "eval_interval"),
        ("lora.restore_path", "lora.lora_restore_path"),
    ],
)
def test_a_field_becomes_its_key(field: str, key: str) -> None:
    section, name = field.split(".")
    assert trainer_keys(_run())[key] == EVERYTHING[section][name]


def test_unset_values_are_left_to_maxtext() -> None:
    keys = trainer_keys(_run(eval=None, lora=None, parallelism=None, overrides=None, data__packing=None))
    assert not any(key.startswith(("lora.", "eval_", "ici_", "dcn_")) for key in keys)
    assert "packing" not in keys


def test_columns_are_always_passed() -> None:
    assert _argument("train_data_columns") == "[question,answer]"
    assert _argument("eval_data_columns") == "[prompt,completion]"
    assert _argument("eval_data_columns", data__eval_columns=None) == "[question,answer]"


def test_an_override_wins_and_keeps_its_place() -> None:
    keys = trainer_keys(_run(overrides__maxtext={"steps": 7, "new_key": None}))
    assert keys["steps"] == 7
    assert list(keys).index("steps") < list(keys).index("hf_path")
    # Null is a value that the user asked for.
    assert keys["new_key"] is None
    assert trainer_argv(_run(overrides__maxtext={"new_key": None}))[-1] == "new_key=null"


@pytest.mark.parametrize(
    ("dcn", "keys"),
    [
        ({"fsdp": 2}, {"dcn_data_parallelism": 1, "dcn_fsdp_parallelism": 2}),
        ({"data": 2}, {"dcn_data_parallelism": 2}),
        ({}, {}),
    ],
)
def test_other_dcn_axis_sets_the_data_axis_to_1(dcn: dict[str, int], keys: dict[str, int]) -> None:
    """MaxText's own dcn_data_parallelism is -1: two axes would want the same slices."""
    keys_given = trainer_keys(_run(parallelism__dcn=dcn))
    assert {k: v for k, v in keys_given.items() if k.startswith("dcn_")} == keys


@pytest.mark.parametrize(("mode", "flag"), [("mcjax", "True"), ("pathways", "False")])
def test_the_mode_decides_the_storage_flags(mode: str, flag: str) -> None:
    assert _argument("checkpoint_storage_use_zarr3", mode=mode) == flag
    assert _argument("checkpoint_storage_use_ocdbt", mode=mode) == flag
    assert (_argument("enable_single_controller", mode=mode) == "True") == (mode == "pathways")


@pytest.mark.parametrize(("version", "token"), [("0.2.5", None), ("tutorial-v1.5.0", "none"), ("0.1.0", None)])
def test_hub_token_is_never_on_the_command_line(version: str, token: str | None) -> None:
    assert _argument("hf_access_token", image__maxtext=version) == token


def test_a_run_name_that_yaml_would_misread_is_quoted() -> None:
    assert _argument("run_name", name="on", run_name_suffix="none") == "'on'"


def test_local_run_has_no_mesh_and_passes_the_local_keys() -> None:
    keys = trainer_keys(_run(target="local"))
    assert LOCAL_KEYS.items() <= keys.items()
    assert not any(key.startswith(("ici_", "dcn_")) for key in keys)


def test_mcjax_on_a_cluster_keeps_compiled_programs_beside_the_output() -> None:
    assert _argument("jax_cache_dir", output="gs://bucket/runs/") == "gs://bucket/runs/jax_cache"
    assert _argument("jax_cache_dir", mode="pathways") is None
    assert trainer_keys(_run(target="local"))["jax_cache_dir"] == ""


# Environment


def test_mcjax_environment_belongs_to_the_container() -> None:
    run = _run()
    assert command_env(run) == ()
    assert trainer_env(run) == {
        **EVERYTHING["env"],
        "LIBTPU_INIT_ARGS": "--xla_tpu_enable_async_collective_fusion=true --xla_tpu_scoped_vmem_limit_kib=2",
        "HF_TOKEN_PATH": f"{HF_TOKEN_DIRECTORY}/my-key",
    }


def test_pathways_environment_is_set_by_the_command() -> None:
    run = _run(mode="pathways")
    assert dict(command_env(run)) == {
        "JAX_PLATFORMS": "proxy",
        "JAX_BACKEND_TARGET": "grpc://127.0.0.1:29000",
        "ENABLE_PATHWAYS_PERSISTENCE": "1",
    }
    assert dict(command_env(run)).items() <= trainer_env(run).items()
    assert "LIBTPU_INIT_ARGS" not in trainer_env(run)


def test_environment_of_local_run_has_no_cluster_variables() -> None:
    env = trainer_env(_run(target="local"))
    assert "HF_TOKEN_PATH" not in env
    assert "LIBTPU_INIT_ARGS" not in env
    assert env["JAX_PLATFORMS"] == "cpu"
