"""Workloads for the law: every field that an xpk line can carry, with odd text where text is free."""

from __future__ import annotations

from typing import Any, get_args

from hypothesis import strategies as st

from xsft.catalog import releases
from xsft.launcher.encoding import BASH_KEEPS
from xsft.spec.sections import Axis

Tree = dict[str, Any]

ODD_TEXTS = (
    "$HOME¦${A:-b}¦$(date)¦$$¦$$(X)¦`id`¦a b¦ a ¦it's¦\"¦\\¦\\n¦#x¦a\nb¦"
    "'¦''¦env:¦x env: y¦null¦none¦true¦0x1¦0123¦1e5¦1_0¦.inf¦~¦-¦"
    "=¦[a¦a: b¦{x}¦{{ y }}¦*¦&x¦!t¦%d¦@¦12:30:00¦2026-01-01¦é¦\u2028¦\x85¦\ufeff"
)
"""With ¦ between them."""
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20) | (
    st.sampled_from(ODD_TEXTS.split("¦"))
)
PATH = st.sampled_from(
    ["gs://my-bucket/a/b", "gs://b0b/x y", "/tmp/x'y", "HuggingFaceH4/ultrachat_200k", "a=b", "123", "no"]
)
STORAGE = PATH | TEXT.filter(lambda text: text.isprintable())
LABEL = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
IMAGE = st.sampled_from(
    ["gcr.io/p/x", "us-docker.pkg.dev/p/r/i:maxtext-0.2.4", "a.b/c:0.2.5", "a.b/c@sha256:" + "0" * 64, "x:1"]
)
NUMBER = st.integers(1, 10**6) | st.floats(1e-9, 1e6, allow_nan=False)
SCALAR = st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e12, 1e12, allow_nan=False) | TEXT
VALUE = SCALAR | st.none() | st.lists(SCALAR, max_size=3)
AXES = st.dictionaries(st.sampled_from(get_args(Axis)), st.integers(-1, 64), max_size=3)
FLAG = st.from_regex(r"--(xla_)?[a-z_]{1,8}=[A-Za-z0-9_./,]{1,8}", fullmatch=True)
RESERVED = frozenset(
    {"PATHWAYS_HEAD", "JAX_PLATFORMS", "XCLOUD_ENVIRONMENT", "JAX_BACKEND_TARGET", "ENABLE_PATHWAYS_PERSISTENCE"}
)
ENV_NAME: st.SearchStrategy[str] = st.from_regex(r"[A-Z][A-Z0-9_]{0,10}", fullmatch=True).filter(
    lambda name: name not in BASH_KEEPS and name not in RESERVED
)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def section(required: Tree, optional: Tree) -> st.SearchStrategy[Tree]:
    return st.fixed_dictionaries(required, optional=optional)


MODEL = section(
    {"name": st.sampled_from(["qwen3-0.6b", "deepseek3-671b"]) | TEXT},
    {
        "tokenizer": STORAGE,
        **dict.fromkeys(("pad_token", "bos_token"), st.sampled_from(["<｜▁pad▁｜>", "[PAD]", "it's", "$PAD", "123"])),
        "checkpoint": STORAGE,
        "scan_layers": st.booleans(),
    },
)
DATA = section(
    {"hf_path": STORAGE, "columns": st.lists(TEXT, min_size=1, max_size=3)},
    {
        **dict.fromkeys(("hf_name", "hf_data_dir", "train_split", "formatting_func", "hf_eval_split"), TEXT),
        **dict.fromkeys(("hf_train_files", "hf_eval_files"), STORAGE),
        **dict.fromkeys(("packing", "completion_only", "shuffle"), st.booleans()),
        "eval_columns": st.lists(TEXT, min_size=1, max_size=2),
        "shuffle_seed": st.integers(0, 10**9),
        "num_epoch": st.integers(1, 9),
    },
)
TRAIN = section(
    {"steps": st.integers(1, 10**6), "per_device_batch_size": NUMBER},
    {
        "max_target_length": st.integers(1, 10**6),
        "learning_rate": NUMBER,
        "gradient_accumulation_steps": st.integers(1, 99),
        "weight_dtype": st.sampled_from(["float32", "bfloat16"]),
        "checkpoint_period": st.integers(1, 10**6),
        "profiler": st.just("xplane"),
    },
)
EVAL = section({"interval": st.integers(1, 99)}, {"steps": st.integers(-1, 9), "per_device_batch_size": NUMBER})
LORA = section(
    {"rank": st.integers(1, 256), "alpha": NUMBER},
    {"module_path": TEXT, "weight_qtype": st.sampled_from(["nf4", "int8", "int4"]), "restore_path": STORAGE},
)
PATHWAYS = section(
    {},
    {
        "proxy_image": IMAGE,
        "server_image": IMAGE,
        "scratch": st.just("gs://my-bucket/tmp"),
        **dict.fromkeys(("server_args", "proxy_args", "worker_args"), st.lists(FLAG, max_size=3)),
    },
)
PLACE = st.fixed_dictionaries(
    {"project": st.just("my-project"), "zone": st.just("us-east5-b"), "cluster": LABEL}, optional={"namespace": LABEL}
) | st.just({"context": "kind-test"})
OVERRIDE_KEYS = (
    *("mu_dtype", "attention", "eval_interval", "eval_steps", "hf_eval_split", "enable_nnx", "packing", "hf_name"),
    *("learning_rate", "lora.lora_rank", "ici_fsdp_parallelism", "dcn_data_parallelism", "adam_b1", "num_epoch"),
    *(
        "scan_layers",
        "profiler",
        "no_such_key",
        "lora.enable_lora",
        "remat_policy",
        "weight_dtype",
        "chat_template_path",
        "chat_template",
        "formatting_func_kwargs.template_config.PROMPT_TEMPLATE",
    ),
)


@st.composite
def workloads(draw: st.DrawFn) -> Tree:
    mode = draw(st.sampled_from(["mcjax", "pathways"]))
    optional = {
        "eval": EVAL,
        "lora": LORA,
        "parallelism": st.fixed_dictionaries({}, optional={"ici": AXES, "dcn": AXES}),
        "output": STORAGE,
        "namespace": LABEL,
        "priority": st.sampled_from(["very-low", "low", "medium", "high", "very-high"]),
        "ttl_seconds_after_finished": st.integers(0, 10**6),
        "env": st.dictionaries(ENV_NAME, TEXT | st.just(""), max_size=3),
        "xla_flags": st.lists(FLAG, max_size=3),
        "secrets": st.just({"hf_token": {"secret": "other", "key": "my.key"}}),
        "restarts": section(
            {},
            {
                "max": st.integers(0, 1000),
                "on_exit_codes": st.lists(st.integers(1, 255), max_size=3),
                "grace_period_s": st.integers(0, 86400),
                "data": st.sampled_from(["reshuffle", "repeat"]),
            },
        ),
        "overrides": st.fixed_dictionaries(
            {"maxtext": st.dictionaries(st.sampled_from(OVERRIDE_KEYS), VALUE, max_size=5)}
        ),
        **({"pathways": PATHWAYS} if mode == "pathways" else {}),
    }
    required = {
        "name": LABEL,
        "mode": st.just(mode),
        "place": PLACE,
        "tpu": section({"type": st.sampled_from(["v6e-8", "v6e-256", "v5p-8"])}, {"num_slices": st.integers(1, 99)}),
        "image": section({"ref": IMAGE, "maxtext": st.sampled_from(releases.versions())}, {"pull_secret": LABEL}),
        "model": MODEL,
        "data": DATA,
        "train": TRAIN,
    }
    tree: Tree = draw(st.fixed_dictionaries(required, optional=optional))
    return tree
