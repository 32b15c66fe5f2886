"""The tutorials' commands and ours, argument for argument; docs/tutorial-differences.md says where they differ and why.

source: MaxText docs tutorials/posttraining/{sft,lora}_on_multi_host.md, late 2025 (legacy) and August 2026 (current).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.launcher.decoding import decode_command
from xsft.checks.facts import Facts
from xsft.planning.planner import make_intent
from xsft.planning.steps import Intent
from xsft.spec.model import WorkloadSpec

DOC = Path(__file__).parent.parent / "docs" / "tutorial-differences.md"

TOKEN = "$HF_TOKEN"
ENVIRONMENT = (
    "JAX_PLATFORMS=proxy",
    "JAX_BACKEND_TARGET=grpc://127.0.0.1:29000",
    "ENABLE_PATHWAYS_PERSISTENCE=1",
)
LEGACY = ("python3", "-m", "MaxText.sft.sft_trainer", "src/MaxText/configs/sft.yml")
CURRENT = ("python3", "-m", "maxtext.trainers.post_train.sft.train_sft")
RUN = (
    "run_name=sft-1763700000",
    "base_output_directory=gs://my-bucket/my-output-directory",
    "model_name=deepseek3-671b",
    "load_parameters_path=gs://my-bucket/my-model-checkpoint/0/items",
    f"hf_access_token={TOKEN}",
)
TOKENIZER = ("tokenizer_path=deepseek-ai/DeepSeek-V3",)
SCHEDULE = ("per_device_batch_size=1", "steps=1000", "profiler=xplane")
DATA = ("hf_path=HuggingFaceH4/ultrachat_200k", "train_split=train_sft", "train_data_columns=['messages']")
PATHWAYS = (
    "checkpoint_storage_use_zarr3=False",
    "checkpoint_storage_use_ocdbt=False",
    "enable_single_controller=True",
)
GSM8K = ("hf_path=openai/gsm8k", "train_split=train", "hf_data_dir=main", "train_data_columns=['question','answer']")
LORA = (
    *("steps=1000", "per_device_batch_size=1", "max_target_length=1024", "learning_rate=3e-6"),
    *("chat_template_path=gs://my-bucket/math_qa.json", "enable_nnx=True", "pure_nnx_decoder=True"),
    *("lora.enable_lora=True", "lora.lora_rank=16", "lora.lora_alpha=32.0"),
    "lora.lora_restore_path=gs://my-bucket/run-1/checkpoints/0/items",
)


@dataclass(frozen=True, kw_only=True)
class Tutorial:
    """One command of a tutorial, and what in a workload says the same."""

    argv: tuple[str, ...]
    says: Mapping[str, Any]
    environment: tuple[str, ...] = ()
    ordered: bool = True
    """Whether its keys come in the SFT tutorials' order."""


LEGACY_SAYS = {"image": {"ref": "gcr.io/my-project/sft", "maxtext": "tutorial-v1.5.0"}}
WITH_TOKENIZER = {"model": {"tokenizer": "deepseek-ai/DeepSeek-V3"}}
LORA_SAYS = {
    "mode": "pathways",
    "data": {
        "hf_path": "openai/gsm8k",
        "train_split": "train",
        "hf_data_dir": "main",
        "columns": ["question", "answer"],
    },
    "overrides": {"maxtext": {"chat_template_path": "gs://my-bucket/math_qa.json"}},
    "train": {"profiler": None, "max_target_length": 1024, "learning_rate": 3e-6},
    "lora": {"rank": 16, "alpha": 32.0, "restore_path": "gs://my-bucket/run-1/checkpoints/0/items"},
}

TRAINERS = {
    "legacy McJAX": Tutorial(
        argv=(*LEGACY, *RUN, *TOKENIZER, *SCHEDULE, *DATA), says={**LEGACY_SAYS, **WITH_TOKENIZER, "mode": "mcjax"}
    ),
    "legacy Pathways": Tutorial(
        argv=(*LEGACY, *RUN, *TOKENIZER, *SCHEDULE, *PATHWAYS),
        says={**LEGACY_SAYS, **WITH_TOKENIZER, "mode": "pathways"},
        environment=ENVIRONMENT,
    ),
    "current McJAX": Tutorial(argv=(*CURRENT, *RUN, *SCHEDULE, *DATA), says={"mode": "mcjax"}),
    "current Pathways": Tutorial(
        argv=(*CURRENT, *RUN, *SCHEDULE, *PATHWAYS), says={"mode": "pathways"}, environment=ENVIRONMENT
    ),
    "LoRA": Tutorial(
        argv=(*CURRENT, *RUN, *GSM8K, *LORA, *PATHWAYS), says=LORA_SAYS, environment=ENVIRONMENT, ordered=False
    ),
}


def _conversion(*, storage: bool) -> tuple[str, ...]:
    return (
        *("python3", "-m", "MaxText.utils.ckpt_conversion.to_maxtext", "src/MaxText/configs/base.yml"),
        *("model_name=deepseek3-671b", f"hf_access_token={TOKEN}"),
        *("base_output_directory=gs://my-bucket/my-model-checkpoint", "scan_layers=True"),
        *(f"checkpoint_storage_use_zarr3={storage}", f"checkpoint_storage_use_ocdbt={storage}"),
        *("skip_jax_distributed_system=True", "--lazy_load_tensors=True"),
    )


CONVERTED = {
    "checkpoint": None,
    "hf": {"repo": "deepseek-ai/DeepSeek-V3", "converted": "gs://my-bucket/my-model-checkpoint"},
}
CONVERSIONS = {
    f"legacy conversion for {name}": Tutorial(
        argv=_conversion(storage=mode == "mcjax"), says={**LEGACY_SAYS, "mode": mode, "model": CONVERTED}
    )
    for name, mode in (("McJAX", "mcjax"), ("Pathways", "pathways"))
}
ALL = {**TRAINERS, **CONVERSIONS}

BASE: Mapping[str, Any] = {
    "name": "sft-1763700000",
    "place": {
        "project": "my-project",
        "zone": "us-east5-b",
        "cluster": "my-cluster",
        "pathways": {
            "proxy_image": "my.dev/proxy:1",
            "server_image": "my.dev/server:1",
            "scratch": "gs://my-bucket/tmp",
        },
    },
    "output": "gs://my-bucket/my-output-directory",
    "tpu": {"type": "v6e-256", "num_slices": 2},
    "image": {"ref": "gcr.io/my-project/sft", "maxtext": "0.2.5"},
    "model": {"name": "deepseek3-671b", "checkpoint": "gs://my-bucket/my-model-checkpoint/0/items"},
    "data": {"hf_path": "HuggingFaceH4/ultrachat_200k", "train_split": "train_sft", "columns": ["messages"]},
    "train": {"steps": 1000, "per_device_batch_size": 1, "profiler": "xplane"},
}

XPK_FLAGS = (
    "--cluster=my-cluster",
    "--project=my-project",
    "--zone=us-east5-b",
    "--docker-image=gcr.io/my-project/sft",
    "--workload=sft-1763700000",
    "--tpu-type=v6e-256",
    "--num-slices=2",
)


@pytest.mark.parametrize("name", ALL)
def test_the_command_differs_from_the_tutorial_only_as_documented(name: str) -> None:
    assert set(_differences(name)) == documented(name)


@pytest.mark.parametrize("name", [name for name in ALL if ALL[name].ordered])
def test_arguments_shared_with_the_tutorial_keep_their_order(name: str) -> None:
    common = _common(ALL[name].argv, _argv(name))
    assert len(common) >= 10
    assert common == _common(_argv(name), ALL[name].argv)


@pytest.mark.parametrize("name", TRAINERS)
def test_the_xpk_command_equals_that_of_the_tutorial(name: str) -> None:
    argv = _intent(name).xpk_argv or ()
    verb = "create-pathways" if TRAINERS[name].environment else "create"
    extra = {flag.partition("=")[0] for flag in argv[3 + len(XPK_FLAGS) : -1]}
    assert argv[: 3 + len(XPK_FLAGS)] == ("xpk", "workload", verb, *XPK_FLAGS)
    assert argv[-1].startswith("--command=")
    assert extra == {argument for argument in documented(name) if argument.startswith("--")}


@pytest.mark.parametrize("name", TRAINERS)
def test_the_trainer_command_is_that_of_the_tutorial_behind_exec(name: str) -> None:
    """Decoding refuses a line without exec; the assignments in front of it are the tutorial's."""
    line = (_intent(name).xpk_argv or ())[-1].removeprefix("--command=")
    environment, argv = decode_command(line)
    assert tuple(f"{variable}={value}" for variable, value in environment) == TRAINERS[name].environment
    assert argv == _intent(name).trainer_argv


def test_every_id_is_listed_once_with_its_reason() -> None:
    rows = list(_rows())
    ids = [row[0] for row in rows]
    assert len(ids) >= 10
    assert sorted(ids) == sorted(set(ids))
    assert [row[0] for row in rows if not all(row)] == []


def documented(name: str) -> set[str]:
    """Arguments that the table lists for this command."""
    documented_rows = [(arguments, commands.split(", ")) for _, arguments, commands, *_ in _rows()]
    named = {command for _, commands in documented_rows for command in commands}
    assert named <= set(ALL), f"the table names commands that nobody tests: {named - set(ALL)}"
    return {
        argument
        for arguments, commands in documented_rows
        if name in commands
        for argument in re.findall(r"`([^`]+)`", arguments)
    }


def _rows() -> Iterator[list[str]]:
    for line in DOC.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("| `"):
            yield cells


def _differences(name: str) -> Iterator[str]:
    """Names of the arguments that only one side has, or that differ in value; and what surrounds the trainer."""
    theirs, ours = _named(ALL[name].argv), _named(_argv(name))
    yield from (key for key in {**theirs, **ours} if theirs.get(key) != ours.get(key))
    if name in TRAINERS:
        line = _intent(name).xpk_argv or ()
        yield from (flag.partition("=")[0] for flag in line[3 + len(XPK_FLAGS) : -1])
        yield from ["exec"] if "exec python3 -m " in line[-1] else []


def _named(argv: tuple[str, ...]) -> dict[str, str]:
    """Arguments by name; what has none (python3, -m, the module, the file) by its place."""
    named = {a.partition("=")[0] if "=" in a else f"argument {i}": a.partition("=")[2] or a for i, a in enumerate(argv)}
    assert len(named) == len(argv), "an argument is there twice"
    return named


def _common(argv: tuple[str, ...], other: tuple[str, ...]) -> list[str]:
    return [name for name in _named(argv) if name in _named(other)]


def _argv(name: str) -> tuple[str, ...]:
    intent = _intent(name)
    return intent.trainer_argv if name in TRAINERS else intent.conversion_argv or ()


def _intent(name: str) -> Intent:
    return make_intent(WorkloadSpec.model_validate(_merged(BASE, ALL[name].says)), Facts())


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    nested = {k: _merged(base[k], v) for k, v in changes.items() if isinstance(v, Mapping) and k in base}
    return {**base, **changes, **nested}
