"""Check MaxText's keys: known to the release, not owned by a field, of the right type, and possible on the command
line. Pure.

A value is read as MaxText would read it. The types of overrides are pydantic's: a number may be written as text, 1 and
`yes` are true, and a number is never a text. tests/contract/test_key_values.py compares with the parser.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from xsft.base.problems import Problem, error, note, warning
from xsft.base.secrets import looks_secret
from xsft.catalog.releases import DEFAULT, KeyType, at_least, key_hint, key_types, new_name
from xsft.checks.facts import Facts
from xsft.spec.base import Keys, Value
from xsft.spec.resolve import Run
from xsft.spec.template import WHERE as TEMPLATE
from xsft.trainer.arguments import argument, template_keys
from xsft.trainer.trainer import trainer_of

LARGEST = 1e15
"""Largest number accepted: products of a few such numbers are still finite, and whole ones exact in a double."""
FIELD_OF: Mapping[str, str] = MappingProxyType(
    {
        "run_name": "name",
        "base_output_directory": "output",
        "model_name": "model.name",
        "load_parameters_path": "model.checkpoint",
        "tokenizer_path": "model.tokenizer",
        "scan_layers": "model.scan_layers",
        "steps": "train.steps",
        "num_slices": "tpu.num_slices",
        "per_device_batch_size": "train.per_device_batch_size",
        "max_target_length": "train.max_target_length",
        "learning_rate": "train.learning_rate",
        "gradient_accumulation_steps": "train.gradient_accumulation_steps",
        "weight_dtype": "train.weight_dtype",
        "checkpoint_period": "train.checkpoint_period",
        "profiler": "train.profiler",
        "train_data_columns": "data.columns",
        "eval_data_columns": "data.eval_columns",
        "formatting_func_path": "data.formatting_func",
        "sft_train_on_completion_only": "data.completion_only",
        "enable_data_shuffling": "data.shuffle",
        "data_shuffle_seed": "data.shuffle_seed",
        "eval_interval": "eval.interval",
        "eval_steps": "eval.steps",
        "eval_per_device_batch_size": "eval.per_device_batch_size",
        "checkpoint_storage_use_zarr3": "mode",
        "checkpoint_storage_use_ocdbt": "mode",
        "enable_single_controller": "mode",
        **{key: f"data.{key}" for key in ("hf_path", "hf_name", "hf_data_dir", "hf_train_files", "hf_eval_files")},
        **{key: f"data.{key}" for key in ("train_split", "hf_eval_split", "packing", "num_epoch")},
        **{
            f"lora.lora_{key}": f"lora.{key}"
            for key in ("rank", "alpha", "module_path", "weight_qtype", "restore_path")
        },
        "lora.enable_lora": "lora",
    }
)
"""The field that becomes this key. Mesh axes follow a rule: `ici_fsdp_parallelism` is `parallelism.ici.fsdp`."""

GRAIN_FIELD_OF: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("dataset_type", "add_bos", "add_eos"), "data.pipeline"),
        "grain_file_type": "data.hf_path",
        "grain_train_files": "data.hf_train_files",
        "grain_eval_files": "data.hf_eval_files",
    }
)
"""The field that becomes this key with `data.pipeline: grain`, as in FIELD_OF."""

IDENTITY = frozenset(
    {
        "run_name",
        "base_output_directory",
        "model_name",
        "load_parameters_path",
        "tokenizer_path",
        "scan_layers",
        "steps",
        "num_slices",
        "checkpoint_period",
        "checkpoint_storage_use_zarr3",
        "checkpoint_storage_use_ocdbt",
        "enable_single_controller",
    }
)
"""Keys for the run's name, weights and mode. Only their field sets them, because other checks and stages use the
field."""


ARGUMENT_LIMIT = 131_071
"""Maximum bytes of one argument: Linux, MAX_ARG_STRLEN (include/uapi/linux/binfmts.h), without the NUL at its end."""
SWITCHES = frozenset({"0", "1", "on", "off", "t", "f", "true", "false", "y", "n", "yes", "no"})
"""source: pydantic@2.14 docs, conversion table: str to bool."""
HOLDS = {"gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le}
SPLIT = frozenset({"adamw_mask", "trainable_parameters_mask", "train_data_columns", "eval_data_columns"})
"""Lists that MaxText also takes as a text. source: maxtext@0.2.5 configs/pyconfig.py [_coerce_to_list]."""
SIGNS = {"gt": "more than", "ge": "at least", "lt": "less than", "le": "at most"}


def number(value: Value) -> float | None:
    """Return the number that YAML reads from the value, LARGEST at most; None if MaxText's types refuse it."""
    if isinstance(value, bool) or value is None or isinstance(value, list):
        return None
    try:
        amount = float(value)
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(amount) else max(-LARGEST, min(amount, LARGEST))


def is_on(value: Value) -> bool:
    """Return whether a switch is on, written as a boolean, `true` or 1."""
    return value is True or str(value).lower() in ("true", "1", "on", "yes")


def same(left: Value, right: object) -> bool:
    """Return whether two values are equal after MaxText's command line: `True`, `true` and True are one value, and so
    are 1 and 1.0."""
    return left == right or str(left).lower() == str(right).lower()


def texts(value: Value) -> Iterator[str]:
    """Yield every string in a value."""
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str):
            yield item


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    yield from check_trainer_keys(run, keys, facts)
    yield from check_key_values(run, keys, facts)


def check_trainer_keys(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check for keys that MaxText would refuse after the slice is taken, or that would silently replace a field."""
    del facts
    yield from _check_trainer_release(run)
    yield from _check_keys_known(run, keys)
    if "hf_access_token" in run.spec.overrides.maxtext:
        message = "hf_access_token would put the token into the pod, the manifest and TensorBoard's files."
        fix = "Remove it and use a Kubernetes Secret: secrets.hf_token."
        yield error("hf-access-token", where_of("hf_access_token", run), message, fix, kind="secret")
    yield from _check_pinned_keys(run, keys)
    yield from _check_secret_values(run, keys)
    yield from _check_env_keys(run, keys)


def where_of(key: str, run: Run) -> str:
    """Return the key path in the workload that set this trainer key."""
    if key in run.spec.overrides.maxtext:
        return f"overrides.maxtext.{key}"
    if run.template and template_keys(run.template).get(key) is not None:
        return TEMPLATE
    for group in ("ici", "dcn"):
        if key.startswith(f"{group}_") and key.endswith("_parallelism"):
            return f"parallelism.{group}.{key.removeprefix(f'{group}_').removesuffix('_parallelism')}"
    return FIELD_OF.get(key) or GRAIN_FIELD_OF.get(key, "")


def _check_trainer_release(run: Run) -> Iterator[Problem]:
    version = run.release.version
    if run.spec.on_this_machine and run.spec.image.ref is None and version != DEFAULT:
        message = f"image.maxtext is {version}, but this machine trains with MaxText {DEFAULT}."
        yield error("local-release", "image.maxtext", message, f"Set {DEFAULT}, or use an image with {version}.")
    trainer = trainer_of(run)
    name = run.spec.trainer
    module = trainer.module(run.release)
    if module not in trainer.MODULES:
        message = f"MaxText {version} starts {module}, whose keys the trainer {name} does not know."
        fix = f"Use a release that starts {' or '.join(sorted(trainer.MODULES))}."
        yield error("trainer-module", "image.maxtext", message, fix)
    if run.release.layout == "legacy":
        message = f"MaxText {version} has the legacy layout: {module}, {run.release.to_maxtext}."
        yield note("legacy-layout", "image.maxtext", message)


def _check_keys_known(run: Run, keys: Keys) -> Iterator[Problem]:
    version = run.release.version
    for key in keys:
        if trainer_of(run).takes(key, version=version):
            continue
        if key in run.spec.overrides.maxtext:
            message = (
                f"MaxText {version} has no key {key!r} for {run.spec.trainer.upper()}; it would fail at its start."
            )
            yield error("maxtext-key-unknown", where_of(key, run), message, _key_hint(key, version))
        elif where_of(key, run) == TEMPLATE:
            continue  # checks.template reports it once for all keys of the file
        elif not key.startswith(("lora.", "ici_", "dcn_")) or (key.startswith("lora.") and at_least(version, "0.2.3")):
            message = f"This field becomes MaxText's {key!r}, which {version} does not have."
            fix = f"Remove the field, or use an image with another release. {key_hint(key, version=version)}"
            yield error("field-needs-release", where_of(key, run), message, fix)


def _key_hint(key: str, version: str) -> str:
    new = new_name(key, version=version)
    field = FIELD_OF.get(new or "")
    return f"{key_hint(key, version=version)}{f' It is the field {field}.' if field else ''}"


def _check_pinned_keys(run: Run, keys: Keys) -> Iterator[Problem]:
    """Check for keys that the model's configuration sets. source: maxtext@0.2.5 configs/pyconfig.py, "overridden by
    both model config and CLI"."""
    if is_on(keys.get("override_model_config")):
        return
    for key, setting in keys.items():
        if key in run.pins and not same(setting, run.pins[key]):
            message = f"{run.spec.model.name} sets {key} to {run.pins[key]!r} itself; MaxText refuses {setting!r}."
            fix = "Remove it, or add override_model_config: true to overrides.maxtext if you mean another architecture."
            yield error("override-model-key", where_of(key, run), message, fix)


def _check_secret_values(run: Run, keys: Keys) -> Iterator[Problem]:
    for key, value in keys.items():
        for text in texts(value):
            if looks_secret(text):
                message = f"{key} looks like a token; it would be in the manifest and in TensorBoard's files."
                fix = "Remove it, revoke the token, and use a Kubernetes Secret: secrets.hf_token."
                yield error("override-secret", where_of(key, run), message, fix, kind="secret")
            elif "${" in text:
                message = (
                    f"{key} contains '${{', which MaxText's command line resolves as a reference to another key "
                    "and then fails."
                )
                fix = "In Jinja write {{ '$' }}{ instead." if key == "chat_template" else "Write the value itself."
                yield error("override-interpolation", where_of(key, run), message, fix)
    for key, value in keys.items():
        size = len(argument(key, value).encode(errors="surrogatepass"))
        if size > ARGUMENT_LIMIT:
            message = (
                f"{key} has {size:,} bytes on the command line; the limit of Linux for one argument is "
                f"{ARGUMENT_LIMIT:,}."
            )
            yield error("argument-too-long", where_of(key, run), message, "Shorten it.")


def _check_env_keys(run: Run, keys: Keys) -> Iterator[Problem]:
    """Check the environment: MaxText reads `M_<KEY>` as a key, and refuses one given both ways. source: maxtext@0.2.5
    configs/pyconfig.py."""
    for name in run.spec.env:
        if not name.startswith("M_"):
            continue
        key = name.removeprefix("M_").lower()
        if key in keys:
            message = (
                f"{name} sets MaxText's {key}, which is also on its command line; MaxText refuses a key given both "
                "ways."
            )
            yield error("env-maxtext-key", f"env.{name}", message, f"Remove {name}.")
        else:
            message = f"{name} sets MaxText's {key}, which xsft then cannot check."
            yield warning("env-maxtext-key", f"env.{name}", message, f"Set it as overrides.maxtext.{key}.")


def check_key_values(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check the overrides of the release whose types are known; the workload's fields have types of their own."""
    del keys, facts
    if run.release.version != DEFAULT:
        return
    for key, value in run.spec.overrides.maxtext.items():
        key_type = key_types().get(key) if key not in SPLIT else None
        allowed = misfit(value, key_type) if key_type else None
        if allowed:
            message = (
                f"MaxText {DEFAULT} takes {allowed} for {key}, and {value!r} is given; it would fail at its start."
            )
            yield error("maxtext-value", where_of(key, run), message, f"Give {allowed}.", kind="disputable")


def misfit(value: Value, key_type: KeyType) -> str | None:
    """Return a description of the values that the key takes, if this value is not one of them."""
    if value is None:
        return None  # MaxText reads null as its default, or as a text
    if key_type.values is not None and not isinstance(value, list) and _as_text(value) in key_type.values:
        return None
    kinds = tuple(kind for kind in key_type.kinds if kind != "null" and not (kind == "str" and key_type.values))
    if not any(_value_fits(value, kind) for kind in kinds):
        return _in_words(key_type, kinds)
    amount = number(value)
    broken = [(sort, limit) for sort, limit in key_type.bounds if amount is not None and not HOLDS[sort](amount, limit)]
    return " and ".join(f"{SIGNS[sort]} {limit:g}" for sort, limit in broken) or None


def _as_text(value: str | float) -> str:
    """Return the value as lists of allowed values write it, where True is 1."""
    return str(int(value)) if isinstance(value, bool) else str(value)


def _value_fits(value: Value, kind: str) -> bool:
    match kind:
        case "bool":
            return isinstance(value, bool) or str(value).lower() in SWITCHES or value in (0.0, 1.0)
        case "int":
            return isinstance(value, bool) or ((amount := number(value)) is not None and amount.is_integer())
        case "float":
            return isinstance(value, bool) or number(value) is not None
        case "str":
            return isinstance(value, str)
        case _:
            return isinstance(value, list)


WORDS = {"bool": "true or false", "int": "a whole number", "float": "a number", "str": "a text", "list": "a list"}


def _in_words(key_type: KeyType, kinds: tuple[str, ...]) -> str:
    values = (f"one of {', '.join(value or repr('') for value in key_type.values)}",) if key_type.values else ()
    return " or ".join((*values, *(WORDS[kind] for kind in kinds)))
