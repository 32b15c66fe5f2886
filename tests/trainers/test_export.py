"""Exports planned from the command line of their training."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.exports import LORA, trainer_argv
from xsft.catalog.releases import key_ok
from xsft.errors import Refused, UsageError
from xsft.export.inputs import ExportInputs, LoraScale
from xsft.trainers.export import ExportRequest, TrainedRun, export_argv, export_inputs
from xsft.trainers.lora_exporter import PROGRAM
from xsft.trainers.tokenizer_copy import PROGRAM as COPY

OUT = Path("/out")
FULL = TrainedRun(
    run_name="tiny",
    spec_digest="d" * 64,
    argv=trainer_argv(OUT, "tiny", model="/model", base="/base/0/items", chat_template="{{ m }}"),
    output="/out",
    release="0.2.5",
)
ADAPTED = replace(FULL, argv=trainer_argv(OUT, "tiny", model="/model", base="/base/0/items", **LORA))


def inputs(trained: TrainedRun, asked: ExportRequest | None = None) -> ExportInputs:
    return export_inputs(trained, asked or ExportRequest(), step=2, content="c" * 64)


def test_a_full_export_takes_its_arrays_tokenizer_and_template_from_the_training() -> None:
    found = inputs(FULL)
    assert (found.form, found.template, found.tokenizer, found.lora) == ("full", "{{ m }}", "/model", None)
    assert export_argv(found, directory="/out/tiny-export/x") == (
        *("python3", "-m", "maxtext.checkpoint_conversion.to_huggingface", "model_name=qwen3-0.6b", "scan_layers=True"),
        *("override_model_config=True", "base_emb_dim=64", "base_num_query_heads=4", "base_num_kv_heads=2"),
        *("head_dim=16", "base_mlp_dim=128", "vocab_size=512"),
        "load_parameters_path=/out/tiny/checkpoints/2/model_params",
        "base_output_directory=/out/tiny-export/x",
        *("hardware=cpu", "skip_jax_distributed_system=True", "weight_dtype=bfloat16", "use_multimodal=False"),
        *("--override_model_architecture=True", "--hf_model_path=/model"),
    )


def test_lora_is_merged_unless_adapters_are_requested() -> None:
    found = inputs(ADAPTED)
    assert (found.form, found.lora) == ("merged", LoraScale(rank=4, alpha=8))
    argv = export_argv(found, directory="/x")
    assert argv[1:3] == ("-c", PROGRAM)
    weights = "lora.lora_restore_path=/out/tiny/checkpoints/2/model_params"
    assert {weights, "load_parameters_path=/base/0/items", "lora.lora_rank=4", "lora.lora_alpha=8"} <= set(argv)
    alone = export_argv(inputs(ADAPTED, ExportRequest(form="adapters")), directory="/x")
    assert weights in alone
    assert not any(word.startswith("load_parameters_path=") for word in alone)


def test_export_passes_only_keys_of_the_release() -> None:
    words = (*export_argv(inputs(FULL), directory="/x")[3:], *export_argv(inputs(ADAPTED), directory="/x")[3:])
    keys = {word.partition("=")[0] for word in words if not word.startswith("-")}
    assert {key for key in keys if not key_ok(key)} == set()


def test_export_copies_a_tokenizer_with_changed_tokens() -> None:
    copied = ("python3", "-c", COPY, "org/tok", "<pad>", "", "/tmp/t", *FULL.argv[1:])
    found = inputs(replace(FULL, argv=copied))
    assert (found.tokenizer, found.pad_token, found.bos_token) == ("org/tok", "<pad>", "")
    argv = export_argv(found, directory="/x")
    assert argv[1:7] == ("-c", COPY, "org/tok", "<pad>", "", "/x/xsft/tokenizer")
    assert argv[-1] == "--hf_model_path=/x/xsft/tokenizer"


@pytest.mark.parametrize(
    ("trained", "asked", "id"),
    [
        (replace(FULL, release="0.1.0"), ExportRequest(), "export-legacy"),
        (FULL, ExportRequest(form="merged"), "export-form"),
        (ADAPTED, ExportRequest(form="full"), "export-form"),
        (
            replace(FULL, argv=trainer_argv(OUT, "tiny", model="/model", base=None, **LORA)),
            ExportRequest(),
            "export-no-base",
        ),
        (
            replace(FULL, argv=trainer_argv(OUT, "tiny", model="/model", base=None, model_name="default")),
            ExportRequest(),
            "export-model",
        ),
    ],
    ids=[
        "legacy release",
        "full weights as merged",
        "adapters as full weights",
        "adapters without base",
        "unknown model",
    ],
)
def test_export_that_maxtext_cannot_do_is_refused(trained: TrainedRun, asked: ExportRequest, id: str) -> None:
    with pytest.raises((UsageError, Refused)) as raised:
        inputs(trained, asked)
    assert raised.value.problem_id == id
