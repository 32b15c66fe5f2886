"""The trainer `sft`: MaxText's SFT module, a loop of Tunix's, with every key xsft decides. Pure.

Keys have the order of the multi-host tutorial, so that a plan can be compared with it.
"""

from __future__ import annotations

from xsft.catalog.releases import Release, key_ok
from xsft.spec.base import Keys
from xsft.spec.modes import mode_rules
from xsft.spec.resolve import Run
from xsft.spec.sections import Data
from xsft.spec.template import Template
from xsft.trainer.arguments import argument, template_keys
from xsft.trainer.arguments import conversion_argv as conversion_argv  # noqa: PLC0414 -- its answer as a trainer
from xsft.trainer.local import local_env
from xsft.trainer.shuffling import SEED, first_seed
from xsft.trainer.tokenizer_copy import copy_arguments, copy_of
from xsft.trainer.trainer import HF_TOKEN_DIRECTORY

MODULES = frozenset({"MaxText.sft.sft_trainer", "maxtext.trainers.post_train.sft.train_sft"})
"""Modules of SFT in the layouts legacy and current. Another module of MaxText (RL, pre-training) reads other keys."""

STEP: str | None = "sft"

WEIGHTS = "model_params"
"""Folder of the weights in a checkpoint. source: google-tunix@0.1.7 sft/checkpoint_manager.py."""

LOCAL_KEYS: Keys = {
    "hardware": "cpu",
    "skip_jax_distributed_system": True,
    "enable_goodput_recording": False,
    "grain_worker_count": 0,
    "tokenizer_type": "huggingface",
    "log_config": False,
    "jax_cache_dir": "",
}
"""Keys that MaxText needs to run on a CPU, offline: no distributed service, no worker process that imports everything
again; JAX's own variable names the folder of compiled programs. source: measured with maxtext@0.2.5
(grain_worker_count=0: first step 1 s instead of 40 s)."""

OVERRIDABLE = frozenset(LOCAL_KEYS)
"""Keys that an override may replace: `jax_cache_dir=""` turns the cache of compiled programs off."""


def module(release: Release) -> str:
    return release.trainer


def takes(key: str, *, version: str) -> bool:
    return key_ok(key, version=version)


def trainer_argv(run: Run) -> tuple[str, ...]:
    """Return `python3 -m MODULE [yml] key=value …`: the arguments that the process receives, byte for byte.

    Before `-m` stands the code that copies the tokenizer, at a revision or with another token, if one is named.
    """
    release = run.release
    config = (release.sft_config,) if release.positional_yml else ()
    arguments = (argument(key, value) for key, value in trainer_keys(run).items())
    return ("python3", *copy_arguments(run), "-m", module(release), *config, *arguments)


def trainer_env(run: Run) -> dict[str, str]:
    """Return the variables that the trainer must see in its environment."""
    local = local_env(run) if run.spec.on_this_machine else {}
    return {**dict(command_env(run)), **local, **container_env(run)}


def container_env(run: Run) -> dict[str, str]:
    """Return the part of the environment that belongs to the container; the mode's part is passed with the command."""
    env = dict(run.spec.env)
    if run.spec.xla_flags and not run.mode.single_controller and run.spec.on_cluster:
        env["LIBTPU_INIT_ARGS"] = " ".join(run.spec.xla_flags)
    if run.spec.secrets.hf_token and run.spec.on_cluster:
        env["HF_TOKEN_PATH"] = f"{HF_TOKEN_DIRECTORY}/{run.spec.secrets.hf_token.key}"
    return env


def command_env(run: Run) -> tuple[tuple[str, str], ...]:
    """Return the assignments in front of the command, as the tutorial writes them."""
    return mode_rules(run.mode.value).trainer_env


def trainer_keys(run: Run) -> Keys:
    """Return every key on the command line, in order; a workload's overrides come last and win."""
    train = run.spec.train
    keys = {
        **_run_keys(run),
        "per_device_batch_size": train.per_device_batch_size,
        "steps": train.steps,
        "profiler": train.profiler,
        **_data_keys(run),
        "max_target_length": train.max_target_length,
        "learning_rate": train.learning_rate,
        "gradient_accumulation_steps": train.gradient_accumulation_steps,
        "weight_dtype": train.weight_dtype,
        "checkpoint_period": run.checkpoint_period,
        **_eval_keys(run),
        **_lora_keys(run),
        **_mesh_keys(run),
        **_cache_keys(run),
        **mode_rules(run.mode.value).trainer_keys,
        **template_keys(run.template or Template()),  # after the mode's keys, where `xsft import` finds overrides
        **(LOCAL_KEYS if run.spec.on_this_machine else {}),
        **run.spec.overrides.maxtext,
    }
    set_keys = {key: value for key, value in keys.items() if value is not None or key in run.spec.overrides.maxtext}
    return run.located_keys(set_keys) if run.spec.on_this_machine else set_keys


def _run_keys(run: Run) -> Keys:
    return {
        "run_name": run.run_name,
        "base_output_directory": run.output,
        "model_name": run.spec.model.name,
        "load_parameters_path": run.checkpoint,
        # The legacy layout turns an omitted token into an empty `Bearer ` header; its pyconfig maps the word to None.
        "hf_access_token": "none" if run.release.hf_access_token_none else None,
        "tokenizer_path": copy_of(run) or run.spec.model.tokenizer,
        "scan_layers": run.spec.model.scan_layers,
    }


def _data_keys(run: Run) -> Keys:
    """Return the data keys, always all of them: without them sft.yml's UltraChat is used silently (the tutorial's
    Pathways command forgets them)."""
    data = run.spec.data
    source: Keys
    if data.pipeline == "grain":
        source = {
            "dataset_type": "grain",
            "grain_file_type": data.hf_path,
            "grain_train_files": data.hf_train_files,
            # no BOS and EOS around each prompt and answer: the chat template has its own (checks.unsupported.MARKS)
            "add_bos": False,
            "add_eos": False,
            "grain_worker_count_eval": 0 if run.spec.on_this_machine and run.spec.eval else None,
        }
    else:
        source = {
            "dataset_type": data.pipeline,
            "hf_path": data.hf_path,
            "hf_name": data.hf_name,
            "hf_data_dir": data.hf_data_dir,
            "hf_train_files": data.hf_train_files,
            "train_split": data.train_split,
        }
    return {
        **source,
        "train_data_columns": list(data.columns),
        "formatting_func_path": data.formatting_func,
        "packing": data.packing,
        "sft_train_on_completion_only": data.completion_only,
        "enable_data_shuffling": data.shuffle,
        SEED: first_seed(run),
        "num_epoch": data.num_epoch,
    }


def _eval_keys(run: Run) -> Keys:
    evaluation, data = run.spec.eval, run.spec.data
    interval = evaluation.interval if evaluation else run.spec.overrides.maxtext.get("eval_interval")
    if not isinstance(interval, int | float) or interval <= 0:
        return {}
    return {
        "eval_interval": interval,
        "eval_steps": evaluation.steps if evaluation else None,
        "eval_per_device_batch_size": evaluation.per_device_batch_size if evaluation else None,
        **_eval_files(data),
        "eval_data_columns": list(data.eval_columns or data.columns),
    }


def _eval_files(data: Data) -> Keys:
    if data.pipeline == "grain":
        return {"grain_eval_files": data.hf_eval_files}
    return {"hf_eval_split": data.hf_eval_split, "hf_eval_files": data.hf_eval_files}


def _lora_keys(run: Run) -> Keys:
    lora = run.spec.lora
    if lora is None:
        return {}
    return {
        "lora.enable_lora": True,
        "lora.lora_rank": lora.rank,
        "lora.lora_alpha": lora.alpha,
        "lora.lora_module_path": lora.module_path,
        "lora.lora_weight_qtype": lora.weight_qtype,
        "lora.lora_restore_path": run.adapters,
    }


def _mesh_keys(run: Run) -> Keys:
    mesh = run.spec.parallelism
    if run.spec.on_this_machine:
        return {}
    return {
        **{f"ici_{axis}_parallelism": size for axis, size in mesh.ici.items()},
        **{f"dcn_{axis}_parallelism": size for axis, size in _dcn(run).items()},
    }


def _cache_keys(run: Run) -> Keys:
    """Return the folder of compiled programs, shared by all runs with this output, so that a restart does not compile
    again. MaxText's default is the pod's home, which a restart loses (maxtext@0.2.5 configs/base.yml `jax_cache_dir`).
    A local run gets xsft's cache folder (`launch.local_machine`). Pathways compiles on its servers, and
    pathwaysutils@0.1.13 turns JAX's cache off.
    """
    if run.spec.on_this_machine or run.mode.single_controller:
        return {}
    return {"jax_cache_dir": f"{(run.output or '').rstrip('/')}/jax_cache"}


def _dcn(run: Run) -> dict[str, int]:
    """Return the DCN axes. MaxText's default dcn_data_parallelism is -1; if another axis is named, data gets 1, or the
    product would be ambiguous."""
    dcn: dict[str, int] = {axis: size for axis, size in run.spec.parallelism.dcn.items()}  # noqa: C416 - widens the keys
    if dcn and "data" not in dcn:
        return {"data": 1, **dcn}
    return dcn
