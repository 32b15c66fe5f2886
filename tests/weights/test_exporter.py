"""Exports planned from the command line of their training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.exports import LORA, trainer_argv
from tests.hfmodels import SIZES
from xsft.base.errors import Refused, UsageError
from xsft.catalog.models import pins
from xsft.catalog.releases import key_ok
from xsft.records.record import Attempt, Record
from xsft.spec.export_inputs import ExportInputs, ExportSource, LoraScale
from xsft.trainer.tokenizer_copy import PROGRAM as COPY
from xsft.trainer.tokenizer_copy import TokenizerCopy, copying_words
from xsft.weights.export_record import ExportPlan
from xsft.weights.exporter import ExportRequest, TrainedRun, export_argv, export_inputs, model_files_job, trained_run
from xsft.workers.delivery import text_of

OUT = Path("/out")
FULL = TrainedRun(
    run_name="tiny",
    spec_digest="d" * 64,
    argv=trainer_argv(OUT, "tiny", model="/model", base="/base/0/items", chat_template="{{ m }}"),
    output="/out",
    release="0.2.5",
)
ADAPTED = replace(FULL, argv=trainer_argv(OUT, "tiny", model="/model", base="/base/0/items", **LORA))


def inputs(trained: TrainedRun, export_request: ExportRequest | None = None) -> ExportInputs:
    return export_inputs(trained, export_request or ExportRequest(), step=2, content="c" * 64)


def test_a_full_export_takes_its_arrays_tokenizer_and_template_from_the_training() -> None:
    planned = inputs(FULL)
    assert (planned.form, planned.template, planned.tokenizer, planned.lora) == ("full", "{{ m }}", "/model", None)
    assert export_argv(planned, directory="/out/tiny-export/x") == (
        *("python3", "-m", "maxtext.checkpoint_conversion.to_huggingface", "model_name=qwen3-0.6b", "scan_layers=True"),
        *("override_model_config=True", "base_emb_dim=64", "base_num_query_heads=4", "base_num_kv_heads=2"),
        *("head_dim=16", "base_mlp_dim=128", "vocab_size=512"),
        "load_parameters_path=/out/tiny/checkpoints/2/model_params",
        "base_output_directory=/out/tiny-export/x",
        *("hardware=cpu", "skip_jax_distributed_system=True", "weight_dtype=bfloat16", "use_multimodal=False"),
        *("--override_model_architecture=True", "--hf_model_path=/model"),
    )


def test_lora_is_merged_unless_adapters_are_requested() -> None:
    planned = inputs(ADAPTED)
    assert (planned.form, planned.lora) == ("merged", LoraScale(rank=4, alpha=8))
    argv = export_argv(planned, directory="/x")
    assert argv[1:3] == ("-c", text_of("xsft.workers.export_lora"))
    weights = "lora.lora_restore_path=/out/tiny/checkpoints/2/model_params"
    assert {weights, "load_parameters_path=/base/0/items", "lora.lora_rank=4", "lora.lora_alpha=8"} <= set(argv)
    alone = export_argv(inputs(ADAPTED, ExportRequest(form="adapters")), directory="/x")
    assert weights in alone
    assert not any(word.startswith("load_parameters_path=") for word in alone)


def test_export_passes_only_keys_of_the_release() -> None:
    words = (*export_argv(inputs(FULL), directory="/x")[3:], *export_argv(inputs(ADAPTED), directory="/x")[3:])
    keys = {word.partition("=")[0] for word in words if not word.startswith("-")}
    assert {key for key in keys if not key_ok(key)} == set()


def test_export_knows_the_tokenizer_and_its_changed_tokens() -> None:
    copied = ("python3", "-c", COPY, "org/tok", "<pad>", "", "/tmp/t", *FULL.argv[1:])
    planned = inputs(replace(FULL, argv=copied))
    assert (planned.tokenizer, planned.pad_token, planned.bos_token) == ("org/tok", "<pad>", "")
    assert export_argv(planned, directory="/x")[-1] == "--hf_model_path=org/tok"


@pytest.mark.parametrize(
    ("trained", "refused_request", "id"),
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
def test_export_that_maxtext_cannot_do_is_refused(trained: TrainedRun, refused_request: ExportRequest, id: str) -> None:
    with pytest.raises((UsageError, Refused)) as raised:
        inputs(trained, refused_request)
    assert raised.value.problem_id == id


BASE = ExportSource(repo="me/tuned", revision="c" * 40)


def test_the_source_is_what_the_conversion_recorded_then_what_the_workload_names() -> None:
    named = replace(FULL, source=ExportSource(repo="me/tuned"))
    converted = export_inputs(named, ExportRequest(), step=2, content="c" * 64, converted=BASE)
    assert converted.source == BASE
    assert inputs(named).source == named.source
    assert converted.digest == inputs(FULL).digest


FOLDER = {"conversion_argv": ["python3", "-m", "to_maxtext", "--hf_model_path=/home/ada/model"]}


@pytest.mark.parametrize(
    ("repo", "resolved", "source"),
    [
        ("me/tuned", {}, "me/tuned"),
        ("/home/ada/model", {}, "/home/ada/model"),
        ("./model", FOLDER, "/home/ada/model"),
        ("c" * 64, FOLDER, "/home/ada/model"),
        ("../model", {}, None),
        ("c" * 64, {}, None),
    ],
)
def test_a_folder_in_a_record_is_the_one_that_was_converted(
    repo: str, resolved: dict[str, Any], source: str | None
) -> None:
    attempt = Attempt(number=1, spec_digest="d" * 64, started_at="", argv=FULL.argv, resolved=resolved)
    spec = {"model": {"hf": {"repo": repo}}}
    record = Record(run_name="tiny", spec_digest="d" * 64, spec=spec, attempts=(attempt,))
    assert trained_run(record, output="/out").source == (ExportSource(repo=source) if source else None)


@pytest.mark.parametrize(
    ("keys", "guessed"),
    [
        ({"model": "Qwen/Qwen3-0.6B", "base": "/b/0/items"}, True),
        ({"model": "Qwen/Qwen3-0.6B", "base": "/b/0/items", "base_emb_dim": 64}, False),
        ({"model": "/folder", "base": "/b/0/items"}, False),
        ({"model": "Qwen/Qwen3-0.6B", "base": None}, False),
    ],
    ids=["MaxText's model", "own sizes", "tokenizer on the machine", "random weights"],
)
def test_maxtexts_repository_is_taken_for_weights_of_unknown_origin(keys: dict[str, Any], guessed: bool) -> None:
    plain = {key: pins("qwen3-0.6b").get(key) for key in SIZES if key != "override_model_config"}
    planned = inputs(replace(FULL, argv=trainer_argv(OUT, "tiny", **{**plain, **keys})))
    assert planned.source == (ExportSource(repo="Qwen/Qwen3-0.6B", guessed=True) if guessed else None)


@pytest.mark.parametrize(
    ("copied", "repo", "revision"),
    [(True, "org/model", "v3"), (True, "org/tok", "v3"), (False, "org/tok", "v1"), (False, "org/model", None)],
)
def test_the_tokenizer_of_an_export_is_read_at_the_revision_of_its_training(
    copied: bool, repo: str, revision: str | None
) -> None:
    copying = copying_words(TokenizerCopy(tokenizer="org/tok", revision="v3"), folder="/tmp/t") if copied else ()
    argv = ("python3", *copying, *FULL.argv[1:], *(() if copied else ("tokenizer_path=org/tok",)))
    planned = inputs(replace(FULL, argv=argv, source=ExportSource(repo=repo, revision="v1")))
    assert plan_files_job(planned)["tokenizer_revision"] == revision


def test_the_question_for_the_models_files_says_what_the_workload_changed() -> None:
    argv = (*FULL.argv, "rope_max_timescale=5000", "lora.lora_rank=4")
    job = plan_files_job(inputs(replace(FULL, argv=argv)), *argv)
    assert (job["computed"]["rope_theta"], job["computed"]["rms_norm_eps"]) == (5000, 1e-6)
    assert (job["changed"], job["own_rope"]) == (["rope_theta"], False)


def plan_files_job(planned: ExportInputs, *argv: str) -> dict[str, Any]:
    plan = ExportPlan(
        run_name="e", output="/o", inputs=planned, first="/f", directory="/f", folder="/f", argv=(), trainer_argv=argv
    )
    return model_files_job(plan, folder="/f")
