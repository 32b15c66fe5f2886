"""Turn `key=value` arguments of the trainer into workload fields, and into overrides where there is no field; compare
them with the workload's. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import chain, starmap
from types import MappingProxyType
from typing import get_args

from pydantic import BaseModel, ValidationError

from xsft.base.names import ModeName
from xsft.base.problems import error
from xsft.catalog import releases
from xsft.checks.trainer_keys import FIELD_OF
from xsft.importing.cluster import Tree
from xsft.importing.environment import STAND_IN_SECRET, WHY_REFERENCE
from xsft.importing.notes import Notes
from xsft.importing.values import is_same_value, leaves, read_value
from xsft.spec.base import Value
from xsft.spec.modes import is_mode_key, mode_rules
from xsft.spec.resolve import Run
from xsft.spec.sections import Axis, Data, Eval, Lora, Model, Train
from xsft.trainer.arguments import yaml_value
from xsft.trainer.trainer import trainer_of

SECTIONS: Mapping[str, type[BaseModel]] = MappingProxyType(
    {"model": Model, "data": Data, "train": Train, "eval": Eval, "lora": Lora}
)
REQUIRED = frozenset({"model.name", "data.hf_path", "data.columns", "train.steps", "train.per_device_batch_size"})
DEFAULTS: Mapping[str, tuple[Value, str]] = MappingProxyType(
    {
        "data.hf_path": ("HuggingFaceH4/ultrachat_200k", "no data key was given; this is sft.yml's data set"),
        "data.train_split": ("train_sft", "sft.yml's value; none was given"),
        "data.columns": (["messages"], "sft.yml's values; none were given"),
        "model.name": ("default", "MaxText's default without a model_name, a tiny model; write yours"),
        "train.steps": (150_001, "MaxText's default without steps, probably too many; write yours"),
        "train.per_device_batch_size": (12, "MaxText's default; none was given"),
    }
)
"""MaxText's defaults for values that a workload must state. source: maxtext@0.2.5 configs/base.yml,
configs/post_train/sft.yml.
"""
ADDED: Mapping[str, str] = MappingProxyType(
    {
        "checkpoint_period": "MaxText's default is 10,000: a shorter run would save only at its end",
        "hf_access_token": "without this key, this layout sends an empty Authorization header; the value means no "
        "token",
        "eval_steps": "MaxText's default, made explicit",
        "eval_data_columns": "the training columns, made explicit",
        "jax_cache_dir": "MaxText's default is the pod's home: each restart would compile again",
        "run_name": "without it MaxText uses the JobSet's name, which is the same",
        "dcn_data_parallelism": "MaxText's default is -1, and the product of the axes would be ambiguous",
    }
)
"""Key -> why xsft adds it to the command."""

_MESH = re.compile(r"(ici|dcn)_([a-z_]+)_parallelism")
_LORA_KEYS = ("lora.enable_lora", "lora.lora_rank", "lora.lora_alpha")


def read_pairs(pairs: Iterable[tuple[str, str]], notes: Notes) -> dict[str, Value]:
    """Return typed values by key, in order, without tokens; the last value of a key wins."""
    by_key: dict[str, Value] = {}
    for key, text in chain.from_iterable(starmap(leaves, pairs)):
        if key == "hf_access_token":
            notes.remember_secret(text)
            continue
        if notes.is_secret(key, text):
            why = "it looks like a secret; everyone who can read the JobSet could read it"
            notes.differ(key, given="a secret (not shown)", why=why)
            continue
        try:
            value = text if notes.holes.holes_in(text) else read_value(text)
        except ValueError as unfit:
            message = f"{notes.printable_text(key)} was removed: {unfit}."
            fix = "Correct the command, or write it as an override."
            notes.problems.append(error("import-argument", "", message, fix))
            continue
        if key in by_key:
            notes.differ(key, why="it is given twice; the last one wins, as in MaxText")
        by_key[key] = value
    return by_key


def token_secret(pairs: Iterable[tuple[str, str]], notes: Notes) -> Tree:
    """Return the Secret reference that replaces a token on the command line; MaxText's value `none` is not a token."""
    tokens = [text for key, text in pairs if key == "hf_access_token"]
    if not tokens or tokens[-1].strip("'\"").lower() in ("none", "null", ""):
        return {}
    notes.differ("hf_access_token", given="a token (not shown)", now="secrets.hf_token", why=WHY_REFERENCE)
    return {"hf_token": dict(STAND_IN_SECRET)}


def trainer_fields(pasted: Mapping[str, Value], *, mode: ModeName, tail: bool, exact: bool) -> Tree:
    """Return sections and overrides. With `tail`, keys after the mode's keys stay overrides, as xsft writes them; with
    `exact`, so do values that a field accepts only in another form, such as 0 for False.
    """
    tree: Tree = {}
    overrides: dict[str, Value] = {}
    last = max((i for i, key in enumerate(pasted) if key in mode_rules(mode).trainer_keys), default=len(pasted))
    interval = pasted.get("eval_interval")
    has_eval = isinstance(interval, int) and not isinstance(interval, bool) and interval >= 1
    has_lora = pasted.get("lora.enable_lora") is True and all(key in pasted for key in _LORA_KEYS)
    for index, (key, value) in enumerate(pasted.items()):
        if is_mode_key(key) or key == "run_name":
            continue
        if (tail and index > last) or not _put_key(tree, key, value, has_eval=has_eval, has_lora=has_lora, exact=exact):
            overrides[key] = value
    # What xsft renders anyway is left out.
    data, evaluation, dcn = tree.get("data", {}), tree.get("eval", {}), tree.get("parallelism", {}).get("dcn", {})
    if "eval_columns" in data and data["eval_columns"] == data.get("columns"):
        del data["eval_columns"]
    if evaluation.get("steps") == -1:
        del evaluation["steps"]
    if len(dcn) > 1 and next(iter(dcn.items())) == ("data", 1):
        del dcn["data"]
    if overrides:
        tree["overrides"] = {"maxtext": overrides}
    return tree


def removed_keys(pasted: Iterable[str], version: str) -> tuple[str, ...]:
    """Return keys that other releases take and this one refuses."""
    refused = (key for key in pasted if not releases.key_ok(key, version=version))
    return tuple(key for key in refused if releases.releases_with(key))


def with_defaults(tree: Tree, notes: Notes) -> None:
    """Add values that a workload must state and the command did not."""
    for path, (value, why) in DEFAULTS.items():
        section, _, key = path.partition(".")
        if key not in tree.setdefault(section, {}):
            tree[section][key] = value
            notes.differ(path, now=str(value), why=why)


def _put_key(tree: Tree, key: str, value: Value, *, has_eval: bool, has_lora: bool, exact: bool) -> bool:
    """Set the field for a key; return False if no field takes the value."""
    if mesh := _MESH.fullmatch(key):
        is_size = isinstance(value, int) and not isinstance(value, bool) and value >= -1
        if is_size and mesh[2] in get_args(Axis):
            tree.setdefault("parallelism", {}).setdefault(mesh[1], {})[mesh[2]] = value
        return is_size and mesh[2] in get_args(Axis)
    path = FIELD_OF.get(key, "")
    section, _, field = path.rpartition(".")
    if path == "output" and isinstance(value, str):
        tree["output"] = value
        return True
    if key == "lora.enable_lora":
        return has_lora
    is_absent = section == "lora" and not has_lora
    if not has_eval and (section == "eval" or field in ("hf_eval_split", "hf_eval_files", "eval_columns")):
        is_absent = True
    if is_absent or section not in SECTIONS:
        return False
    fitting = _fitting_form(section, field, value, exact=exact)
    if fitting is None and path not in REQUIRED:
        return False
    tree.setdefault(section, {})[field] = value if fitting is None else fitting
    return True


def _fitting_form(section: str, field: str, value: Value, *, exact: bool) -> Value:
    """Return the value in the form that the field takes; None if it takes none."""
    if _is_open(value):  # the workload validates what will fill the hole
        return value
    forms = [value]
    # MaxText takes 0 and 1 for switches, and one name for a list of one.
    if value in (0, 1) and not isinstance(value, bool) and not exact:
        forms.append(bool(value))
    if isinstance(value, str) and field.endswith("columns") and not exact:
        forms.append([value])
    return next((form for form in forms if form is not None and _fits(section, field, form)), None)


def _fits(section: str, field: str, value: Value) -> bool:
    try:
        SECTIONS[section].model_validate({field: value})
    except ValidationError as refused:
        return not any(e["loc"][:1] == (field,) for e in refused.errors())
    return True


def say_differences(pasted: Mapping[str, Value], run: Run, notes: Notes) -> None:
    """Note each key that differs from the workload's trainer arguments, unless a note mentions it already."""
    rendered = trainer_of(run).trainer_keys(run)
    for key in removed_keys(pasted, run.release.version):
        if key not in rendered:
            why = f"MaxText {run.release.version} refuses it. {releases.key_hint(key, version=run.release.version)}"
            notes.differ(key, given=yaml_value(pasted[key]), why=why)
    for key, value in rendered.items():
        if notes.has_noted(key) or notes.has_noted(FIELD_OF.get(key, key)) or _is_open(pasted.get(key)):
            continue
        if key in pasted and not is_same_value(pasted[key], value):
            notes.differ(key, given=yaml_value(pasted[key]), now=yaml_value(value), why=_why_other(key, run))
        elif key not in pasted:
            now = yaml_value(value)
            if key == "checkpoint_period" and _is_open(pasted.get("steps")):
                now = "a tenth of the steps"
            notes.differ(key, now=now, why=_why_added(key, run))
    for key, value in pasted.items():
        if key not in rendered and not notes.has_noted(key) and not _is_open(value):
            notes.differ(key, given=yaml_value(value), why=_why_other(key, run))


def _is_open(value: Value) -> bool:
    """Return whether the value contains a hole, which a problem already reports."""
    return isinstance(value, str) and "\0" in value


def _why_added(key: str, run: Run) -> str:
    if key in mode_rules(run.mode.value).trainer_keys:
        return f"{run.mode.value} mode always sets it; the tutorials rely on a default"
    return ADDED.get(key, "xsft always sets it")


def _why_other(key: str, run: Run) -> str:
    if is_mode_key(key):
        return f"{run.mode.value} mode determines it"
    return "the workload's field has this form"
