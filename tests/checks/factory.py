"""Workloads for the tests of checks: one that nothing is wrong with, and changes to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from xsft.base.problems import Problem
from xsft.checks.facts import Facts
from xsft.checks.subjects import Check
from xsft.spec.model import WorkloadSpec
from xsft.spec.resolve import Run, resolve
from xsft.trainer.maxtext import trainer_keys

Tree = dict[str, Any]

DROP = msgspec.UNSET
"""As a value of `changes`: remove this key."""

GOOD: Tree = {
    "name": "qwen-chat",
    "mode": "mcjax",
    "target": "xpk",
    "place": {"project": "my-project", "zone": "us-east5-b", "cluster": "my-cluster", "output": "gs://my-bucket/runs"},
    "tpu": {"type": "v6e-8"},
    "model": {"name": "qwen3-0.6b", "tokenizer": "Qwen/Qwen3-0.6B", "checkpoint": "gs://my-bucket/qwen3-0.6b/0/items"},
    "data": {"hf_path": "HuggingFaceH4/ultrachat_200k", "train_split": "train_sft", "columns": ["messages"]},
    "train": {"steps": 500, "per_device_batch_size": 1, "max_target_length": 1024},
    "image": {"ref": "us-docker.pkg.dev/my-project/xsft/post-training@sha256:" + "0" * 64, "maxtext": "0.2.5"},
}

FLAGSHIP: Tree = {
    "name": "deepseek-ultrachat",
    "mode": "pathways",
    "place": {
        **GOOD["place"],
        "pathways": {
            "proxy_image": "us-docker.pkg.dev/cloud-tpu-v2-images/pathways/proxy_server:20250819-jax_0.7.0",
            "server_image": "us-docker.pkg.dev/cloud-tpu-v2-images/pathways/server:20250819-jax_0.7.0",
            "scratch": "gs://my-bucket/pathways",
        },
    },
    "tpu": {"type": "v6e-256", "num_slices": 2},
    "model": {
        "name": "deepseek3-671b",
        "tokenizer": "deepseek-ai/DeepSeek-V3",
        "pad_token": "<｜▁pad▁｜>",
        "checkpoint": "gs://my-bucket/deepseek3-671b/0/items",
    },
    "data": {**GOOD["data"], "num_epoch": 5},
    "train": {"steps": 1000, "per_device_batch_size": 1, "max_target_length": 1024},
    "parallelism": {"ici": {"fsdp": 16, "expert": 16}, "dcn": {"fsdp": 2}},
    "image": GOOD["image"],
    "overrides": {
        "maxtext": {
            "mu_dtype": "bfloat16",
            "ragged_buffer_factor": 2.0,
            "param_scan_axis": 0,
            "use_iota_embed": True,
            "attention": "flash",
            "eval_interval": -1,
        }
    },
}
"""Row A of the measured fits: deepseek3-671b on two slices of v6e-256. UltraChat once is 405 steps."""


def spec(base: Mapping[str, Any] = GOOD, /, **changes: Any) -> WorkloadSpec:
    """`base` with `changes` merged into it, e.g. `spec(train={"steps": 10}, tpu=DROP)`."""
    return WorkloadSpec.model_validate(merged(base, changes))


def run_of(workload: WorkloadSpec, facts: Facts | None = None) -> Run:
    return resolve(workload, facts or Facts())[0]


def problems(check: Check, workload: WorkloadSpec, facts: Facts | None = None) -> tuple[Problem, ...]:
    """Return the problems that one subject finds in a workload."""
    all_facts = facts or Facts()
    run = run_of(workload, all_facts)
    return tuple(check(run, trainer_keys(run), all_facts))


def ids(check: Check, workload: WorkloadSpec, facts: Facts | None = None) -> set[str]:
    return {p.id for p in problems(check, workload, facts)}


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> Tree:
    """Mappings are merged, everything else replaces; `DROP` removes. A dotted key stays one key."""
    tree = dict(base)
    for key, value in changes.items():
        if value is DROP:
            tree.pop(key, None)
        elif isinstance(value, Mapping):
            before = tree.get(key)
            tree[key] = merged(before if isinstance(before, Mapping) else {}, value)
        else:
            tree[key] = value
    return tree
