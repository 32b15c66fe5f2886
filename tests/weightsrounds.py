"""A tiny model of each family, from Hugging Face's format to MaxText's checkpoint and back: the questions to
tests/contract/weights_round.py, by xsft's own command lines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tests.exports import MODULE
from xsft.catalog.data import located
from xsft.checks.facts import Facts
from xsft.planning.planner import conversion_plan
from xsft.spec.export_inputs import ExportSource
from xsft.spec.facts import SourceFacts
from xsft.spec.model import WorkloadSpec
from xsft.spec.resolve import resolve
from xsft.stages.verify import LENGTH, PROMPTS
from xsft.trainer.arguments import argument
from xsft.weights.export_record import ExportPlan
from xsft.weights.exporter import ExportRequest, TrainedRun, export_argv, export_inputs, logits_argv, model_files_job

SMALL: Mapping[str, Any] = {
    "override_model_config": True,
    "base_emb_dim": 64,
    "base_num_query_heads": 4,
    "base_num_kv_heads": 2,
    "head_dim": 16,
    "base_mlp_dim": 128,
    "vocab_size": 512,
    "base_num_decoder_layers": 2,
    "attention": "dot_product",
}
MOE = {"base_moe_mlp_dim": 32, "num_experts": 16, "sparse_matmul": False}


class Family(Struct, frozen=True, kw_only=True):
    model: str
    sizes: Mapping[str, Any]
    scan_layers: bool = True

    @property
    def folder(self) -> str:
        return self.model if self.scan_layers else f"{self.model}-unscanned"


FAMILIES = (
    Family(model="llama3.1-8b", sizes=SMALL),
    Family(model="qwen2.5-1.5b", sizes=SMALL),
    Family(model="qwen3-0.6b", sizes=SMALL),
    Family(model="gemma2-2b", sizes=SMALL),
    Family(model="gemma3-4b", sizes={**SMALL, "base_num_decoder_layers": 6}),
    Family(model="gpt-oss-20b", sizes={**SMALL, **MOE}),
)

MLA = {"base_num_kv_heads": 4, "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16}
KINDS = (
    *(
        Family(model="mixtral-8x7b", sizes={**SMALL, **MOE, "base_moe_mlp_dim": 128}, scan_layers=scan)
        for scan in (True, False)
    ),
    *(
        Family(model="deepseek2-16b", sizes={**SMALL, **MOE, **MLA, "shared_experts": 1}, scan_layers=scan)
        for scan in (True, False)
    ),
    *(
        Family(
            model="deepseek3-671b",
            sizes={**SMALL, **MOE, **MLA, "q_lora_rank": 32, "first_num_dense_layers": 1},
            scan_layers=scan,
        )
        for scan in (True, False)
    ),
    Family(model="qwen3-30b-a3b", sizes={**SMALL, **MOE, "base_mlp_dim": 32}),
)
"""A model of each further decoder kind whose sizes can be small; those that fail in one layout, in both."""


def question(family: Family, folder: Path) -> dict[str, Any]:
    """Return the job of one family, with its files in `folder`."""
    source, output = folder / "source", folder / "out"
    keys = dict(family.sizes)
    spec = WorkloadSpec.model_validate(
        {
            "name": "tiny",
            "target": "local",
            "model": {
                "name": family.model,
                "tokenizer": "xsft://tiny/tokenizer",
                "hf": {"repo": str(source)},
                "scan_layers": family.scan_layers,
            },
            "data": {"hf_path": "json", "hf_train_files": "xsft://tiny/chat.jsonl", "columns": ["messages"]},
            "train": {"steps": 2, "per_device_batch_size": 1, "max_target_length": 64},
            "output": str(output),
            "overrides": {"maxtext": keys},
        }
    )
    run, _ = resolve(spec, Facts(source=SourceFacts(content="0" * 64)))
    converted = conversion_plan(run)
    assert converted is not None
    job = {
        "run_name": "tiny",
        "base_output_directory": str(output),
        "model_name": family.model,
        "load_parameters_path": converted.checkpoint,
        "tokenizer_path": located("xsft://tiny/tokenizer"),
        "scan_layers": family.scan_layers,
        "max_target_length": 64,
        **keys,
    }
    argv = ("python3", "-m", MODULE, *(argument(key, value) for key, value in job.items()))
    trained = TrainedRun(
        run_name="tiny",
        spec_digest="d" * 64,
        argv=argv,
        output=str(output),
        release=run.release.version,
        source=ExportSource(repo=str(source)),
    )
    inputs = export_inputs(trained, ExportRequest(), step=0, content="c")
    inputs = replace(inputs, weights=converted.checkpoint)
    exported = str(folder / "exported")
    plan = ExportPlan(
        run_name="tiny-export",
        output=str(output),
        inputs=inputs,
        first=exported,
        directory=exported,
        folder=exported,
        argv=export_argv(inputs, directory=exported),
        trainer_argv=argv,
    )
    tokens = {"tokenizer": located("xsft://tiny/tokenizer"), "prompts": list(PROMPTS), "length": LENGTH}
    sizes = [
        argument(key, value)
        for key, value in {"model_name": family.model, **keys, "scan_layers": family.scan_layers}.items()
    ]
    return {
        "model": family.model,
        "source": str(source),
        "sizes": [*sizes, "hardware=cpu", "skip_jax_distributed_system=True"],
        "convert": list(converted.argv),
        "export": list(plan.argv),
        "files": model_files_job(plan, folder=exported),
        "logits": {"argv": list(logits_argv(plan)), "merged": None, "file": str(folder / "logits.npz"), **tokens},
    }
