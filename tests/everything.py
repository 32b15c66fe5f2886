"""A workload with every field set to something that is not its default, and another value for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_origin

from xsft.spec.base import Section
from xsft.spec.model import WorkloadSpec

Tree = dict[str, Any]

EVERYTHING: Mapping[str, Any] = {
    "name": "everything",
    "run_name_suffix": "date",
    "mode": "mcjax",
    "target": "xpk",
    "trainer": "sft",
    "place": {
        "project": "my-project",
        "zone": "us-east5-b",
        "cluster": "my-cluster",
        "context": "my-context",
        "namespace": "team-a",
        "queue": "place-queue",
        "output": "gs://my-bucket/place-runs",
        "registry": "us-docker.pkg.dev/my-project/xsft",
        "chip_hour_price": 2.7,
        "pathways": {
            "proxy_image": "my.dev/place-proxy:1",
            "server_image": "my.dev/place-server:1",
            "scratch": "gs://my-bucket/place-scratch",
        },
    },
    "tpu": {"type": "v6e-16", "num_slices": 2, "capacity": "reservation", "reservation": "my-reservation"},
    "model": {
        "name": "qwen3-8b",
        "tokenizer": "Qwen/Qwen3-8B",
        "tokenizer_revision": "v3",
        "pad_token": "<|fim_pad|>",
        "bos_token": "<|fim_prefix|>",
        "checkpoint": "gs://my-bucket/model/0/items",
        "hf": {"repo": "Qwen/Qwen3-8B", "revision": "v1", "converted": "gs://my-bucket/converted"},
        "scan_layers": True,
    },
    "data": {
        "pipeline": "hf",
        "hf_path": "openai/gsm8k",
        "hf_name": "main",
        "hf_data_dir": "folder",
        "hf_train_files": "gs://my-bucket/train-*.json",
        "hf_eval_files": "gs://my-bucket/eval-*.json",
        "train_split": "train[:50%]",
        "hf_eval_split": "test",
        "columns": ["question", "answer"],
        "eval_columns": ["prompt", "completion"],
        "chat_template": "template.jinja",
        "formatting_func": "my_package.chat",
        "packing": False,
        "completion_only": False,
        "shuffle": False,
        "shuffle_seed": 7,
        "num_epoch": 2,
        "rows": 7473,
    },
    "train": {
        "steps": 500,
        "per_device_batch_size": 2.0,
        "max_target_length": 1024,
        "learning_rate": 3e-6,
        "gradient_accumulation_steps": 2,
        "weight_dtype": "bfloat16",
        "checkpoint_period": 25,
        "profiler": "xplane",
    },
    "eval": {"interval": 50, "steps": 4, "per_device_batch_size": 1.0},
    "lora": {
        "rank": 16,
        "alpha": 32.0,
        "module_path": "decoder/.*",
        "weight_qtype": "nf4",
        "restore_path": "gs://my-bucket/adapter",
    },
    "parallelism": {"ici": {"fsdp": 16}, "dcn": {"data": 2}},
    "image": {"name": "mine", "ref": "my.dev/image:1", "maxtext": "0.2.5", "pull_secret": "my-pull-secret"},
    "output": "gs://my-bucket/runs",
    "secrets": {
        "hf_token": {"secret": "my-secret", "key": "my-key"},
        "env": {
            "WANDB_API_KEY": {"secret": "wandb", "key": "api"},
            "NETRC": {"secret": "netrc", "key": "file", "as_file": True},
        },
    },
    "pods": {
        "service_account": "trainer",
        "labels": {"team": "nlp"},
        "annotations": {"example.com/owner": "nlp"},
    },
    "restarts": {"max": 3, "on_exit_codes": [1, 17], "grace_period_s": 120, "data": "repeat"},
    "pathways": {
        "proxy_image": "my.dev/proxy:1",
        "server_image": "my.dev/server:1",
        "scratch": "gs://my-bucket/scratch",
        "server_args": ["--server=1"],
        "proxy_args": ["--proxy=1"],
        "worker_args": ["--worker=1"],
    },
    "queue": "my-queue",
    "namespace": "team-c",
    "priority": "high",
    "ttl_seconds_after_finished": 60,
    "env": {"NAME": "a $(value) with: \"env:\" and 'quotes'"},
    "xla_flags": ["--xla_tpu_enable_async_collective_fusion=true", "--xla_tpu_scoped_vmem_limit_kib=2"],
    "overrides": {"maxtext": {"mu_dtype": "bfloat16"}},
    "stages": {
        "evaluate": {
            "prompts": ["Which day?"],
            "max_new_tokens": 16,
            "split": "test",
            "rows": 20,
            "require": [{"prompt": 0, "matches": "Sun"}],
            "max_eval_loss": 2.5,
            "limit_s": 3600,
        },
        "export": {"to": "gs://my-bucket/exports", "what": "full", "verify": "logits"},
        "serve": {
            "image": "my.dev/vllm:1",
            "type": "gpu",
            "max_model_len": 512,
            "weights": "fuse",
            "expose": "vpc",
            "service_account": "my-account",
        },
    },
    "checks": {"bf16-weights": "measured"},
}

ONE_CHOICE = frozenset({"trainer", "place.fit"})
"""Keys for which there is one value so far: there is no other to change them to (tests/trainer/second.py is one)."""

OTHER: Mapping[str, Any] = {
    "name": "other-name",
    "run_name_suffix": "none",
    "mode": "pathways",
    "target": "local",
    "place.project": "other-project",
    "place.zone": "us-east1-d",
    "place.cluster": "other-cluster",
    "place.context": "other-context",
    "place.namespace": "team-b",
    "place.queue": "other-queue",
    "place.output": "gs://my-bucket/other",
    "place.registry": "us-docker.pkg.dev/my-project/other",
    "place.chip_hour_price": 2.5,
    "place.pathways.proxy_image": "my.dev/place-proxy:2",
    "place.pathways.server_image": "my.dev/place-server:2",
    "place.pathways.scratch": "gs://my-bucket/place-scratch2",
    "tpu.type": "v6e-32",
    "tpu.num_slices": 3,
    "tpu.capacity": "spot",
    "tpu.reservation": "other-reservation",
    "model.name": "qwen3-4b",
    "model.tokenizer": "Qwen/Qwen3-4B",
    "model.tokenizer_revision": "v4",
    "model.pad_token": "<|box_end|>",
    "model.bos_token": "<|box_start|>",
    "model.checkpoint": "gs://my-bucket/other/0/items",
    "model.hf.repo": "Qwen/Qwen3-4B",
    "model.hf.revision": "v2",
    "model.hf.converted": "gs://my-bucket/converted2",
    "model.scan_layers": False,
    "data.pipeline": "grain",
    "data.hf_path": "json",
    "data.hf_name": "socratic",
    "data.hf_data_dir": "folder2",
    "data.hf_train_files": "gs://my-bucket/train2-*.json",
    "data.hf_eval_files": "gs://my-bucket/eval2-*.json",
    "data.train_split": "train",
    "data.hf_eval_split": "test2",
    "data.columns": ["messages"],
    "data.eval_columns": ["question", "answer"],
    "data.chat_template": "template2.jinja",
    "data.formatting_func": "my_package.chat2",
    "data.packing": True,
    "data.completion_only": True,
    "data.shuffle": True,
    "data.shuffle_seed": 8,
    "data.num_epoch": 3,
    "data.rows": 7474,
    "train.steps": 501,
    "train.per_device_batch_size": 2.5,
    "train.max_target_length": 1025,
    "train.learning_rate": 3e-5,
    "train.gradient_accumulation_steps": 3,
    "train.weight_dtype": "float32",
    "train.checkpoint_period": 26,
    "train.profiler": None,
    "eval.interval": 51,
    "eval.steps": 5,
    "eval.per_device_batch_size": 1.5,
    "lora.rank": 17,
    "lora.alpha": 33.0,
    "lora.module_path": "decoder/a.*",
    "lora.weight_qtype": "int8",
    "lora.restore_path": "gs://my-bucket/adapter2",
    "parallelism.ici": {"fsdp": 8, "tensor": 2},
    "parallelism.dcn": {"fsdp": 2},
    "image.name": "another",
    "image.ref": "my.dev/image:2",
    "image.maxtext": "0.2.0",
    "image.pull_secret": "other-pull-secret",
    "output": "gs://my-bucket/runs2",
    "secrets.hf_token.secret": "other-secret",
    "secrets.hf_token.key": "other-key",
    "secrets.env": {"WANDB_API_KEY": {"secret": "other-wandb", "key": "api", "as_file": True}},
    "pods.service_account": "other-trainer",
    "pods.labels": {"team": "other"},
    "pods.annotations": {"example.com/owner": "other"},
    "restarts.max": 4,
    "restarts.on_exit_codes": [1],
    "restarts.grace_period_s": 121,
    "restarts.data": "reshuffle",
    "pathways.proxy_image": "my.dev/proxy:2",
    "pathways.server_image": "my.dev/server:2",
    "pathways.scratch": "gs://my-bucket/scratch2",
    "pathways.server_args": ["--server=2"],
    "pathways.proxy_args": ["--proxy=2"],
    "pathways.worker_args": ["--worker=2"],
    "queue": "my-queue2",
    "namespace": "team-d",
    "priority": "low",
    "ttl_seconds_after_finished": 61,
    "env": {"NAME": "other"},
    "xla_flags": ["--xla_tpu_enable_async_collective_fusion=false"],
    "overrides.maxtext": {"mu_dtype": "float32"},
    "stages.evaluate.prompts": "prompts.jsonl",
    "stages.evaluate.max_new_tokens": 17,
    "stages.evaluate.split": "test2",
    "stages.evaluate.rows": 21,
    "stages.evaluate.require": [{"prompt": 0, "matches": "Mon"}],
    "stages.evaluate.max_eval_loss": 3.5,
    "stages.evaluate.limit_s": 3601,
    "stages.export.to": "gs://my-bucket/exports2",
    "stages.export.what": "merged",
    "stages.export.verify": "tensors",
    "stages.serve.image": "my.dev/vllm:2",
    "stages.serve.type": "v6e-8",
    "stages.serve.weights": "copy",
    "stages.serve.expose": "cluster",
    "stages.serve.service_account": "other-account",
    "stages.serve.max_model_len": 513,
    "checks": {"bf16-weights": "still measured"},
}
"""Every leaf with a value that differs from the one above."""


def leaves(model: type[Section] = WorkloadSpec, prefix: str = "") -> Iterator[str]:
    """Dotted path of every field that holds a value; mappings and lists count as one."""
    for name, field in model.model_fields.items():
        section = _section(field.annotation)
        if section is None and prefix + name in ONE_CHOICE:
            continue
        if section is None:
            yield prefix + name
        else:
            yield from leaves(section, f"{prefix}{name}.")


def sections_of(path: str, model: type[Section] = WorkloadSpec) -> tuple[type[Section], ...]:
    """The sections around a leaf, the outermost first."""
    first, _, remaining = path.partition(".")
    inner = _section(model.model_fields[first].annotation)
    return (model, *sections_of(remaining, inner)) if inner and remaining else (model,)


def value_at(path: str) -> Any:
    """Return the value of EVERYTHING at the path."""
    value: Any = EVERYTHING
    for name in path.split("."):
        value = value[name]
    return value


def tree(**changes: Any) -> Tree:
    """EVERYTHING with dotted leaves changed (`__` for the dot)."""
    return changed(EVERYTHING, {path.replace("__", "."): value for path, value in changes.items()})


def changed(base: Mapping[str, Any], changes: Mapping[str, Any]) -> Tree:
    """A copy of `base` with values at dotted paths; None removes the leaf or the section."""
    copy: Tree = {k: changed(v, {}) if isinstance(v, Mapping) else v for k, v in base.items()}
    for path, value in changes.items():
        *parents, last = path.split(".")
        node = copy
        for parent in parents:
            node = node[parent]
        if value is None:
            node.pop(last, None)
        else:
            node[last] = value
    return copy


def everything(**changes: Any) -> WorkloadSpec:
    return WorkloadSpec.model_validate(tree(**changes))


def other(path: str, base: Mapping[str, Any] = EVERYTHING) -> WorkloadSpec:
    """`base` with one leaf changed."""
    return WorkloadSpec.model_validate(changed(base, {path: OTHER[path]}))


def _section(annotation: Any) -> type[Section] | None:
    if get_origin(annotation) in (list, dict):  # of sections: one value
        return None
    candidates = (annotation, *get_args(annotation))
    return next((c for c in candidates if isinstance(c, type) and issubclass(c, Section)), None)
