"""Turn `key=value` arguments of the trainer into workload fields, and into overrides where there is no field. Pure."""

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
from xsft.importing.values import leaves, read_value
from xsft.spec.base import Value
from xsft.spec.modes import is_mode_key, mode_rules
from xsft.spec.sections import Axis, Data, Eval, Lora, Model, Train

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

_MESH = re.compile(r"(ici|dcn)_([a-z_]+)_parallelism")
_LORA_KEYS = ("lora.enable_lora", "lora.lora_rank", "lora.lora_alpha")


def read_pairs(pairs: Iterable[tuple[str, str]], notes: Notes) -> dict[str, Value]:
    """Return typed values by key, in order, without tokens; the last value of a key wins."""
    by_key: dict[str, Value] = {}
    for key, text in chain.from_iterable(starmap(leaves, pairs)):
        if key == "hf_access_token":
            notes.remember_secret(text)
        elif notes.is_secret(key, text):
            why = "it looks like a secret; everyone who can read the JobSet could read it"
            notes.differ(key, given="a secret (not shown)", why=why)
        elif (value := _read_key_value(key, text, notes)) is not _UNREADABLE:
            if key in by_key:
                notes.differ(key, why="it is given twice; the last one wins, as in MaxText")
            by_key[key] = value  # type: ignore[assignment]
    return by_key


_UNREADABLE = object()


def _read_key_value(key: str, text: str, notes: Notes) -> object:
    if notes.holes.holes_in(text):
        return text
    try:
        return read_value(text)
    except ValueError as unfit:
        message = f"{notes.printable_text(key)} was removed: {unfit}."
        notes.problems.append(error("import-argument", "", message, "Correct the command, or write it as an override."))
        return _UNREADABLE


def token_secret(pairs: Iterable[tuple[str, str]], notes: Notes) -> Tree:
    """Return the Secret reference that replaces a token on the command line; MaxText's value `none` is not a token."""
    given = [text for key, text in pairs if key == "hf_access_token"]
    if not given or given[-1].strip("'\"").lower() in ("none", "null", ""):
        return {}
    notes.differ("hf_access_token", given="a token (not shown)", now="secrets.hf_token", why=WHY_REFERENCE)
    return {"hf_token": dict(STAND_IN_SECRET)}


def trainer_fields(given: Mapping[str, Value], *, mode: ModeName, tail: bool, exact: bool) -> Tree:
    """Return sections and overrides. With `tail`, keys after the mode's keys stay overrides, as xsft writes them; with
    `exact`, so do values that a field accepts only in another form, such as 0 for False.
    """
    tree: Tree = {}
    overrides: dict[str, Value] = {}
    last = max((i for i, key in enumerate(given) if key in mode_rules(mode).trainer_keys), default=len(given))
    has_eval = _is_positive(given.get("eval_interval"))
    has_lora = given.get("lora.enable_lora") is True and all(key in given for key in _LORA_KEYS)
    for index, (key, value) in enumerate(given.items()):
        if is_mode_key(key) or key == "run_name":
            continue
        if (tail and index > last) or not _put_key(tree, key, value, has_eval=has_eval, has_lora=has_lora, exact=exact):
            overrides[key] = value
    _tidy(tree)
    return {**tree, **({"overrides": {"maxtext": overrides}} if overrides else {})}


def removed_keys(given: Iterable[str], version: str) -> tuple[str, ...]:
    """Return keys that other releases take and this one refuses."""
    return tuple(key for key in given if _was_removed(key, version))


def _was_removed(key: str, version: str) -> bool:
    return not releases.key_ok(key, version=version) and bool(releases.releases_with(key))


def with_defaults(tree: Tree, notes: Notes) -> None:
    """Add values that a workload must state and the command did not."""
    for path, (value, why) in DEFAULTS.items():
        section, _, key = path.partition(".")
        inside = tree.setdefault(section, {})
        if isinstance(inside, dict) and key not in inside:
            inside[key] = value
            notes.differ(path, now=str(value), why=why)


def _put_key(tree: Tree, key: str, value: Value, *, has_eval: bool, has_lora: bool, exact: bool) -> bool:
    """Set the field for a key; return False if no field takes the value."""
    if mesh := _MESH.fullmatch(key):
        return _put_axis(tree, mesh[1], mesh[2], value)
    path = FIELD_OF.get(key, "")
    section, _, field = path.rpartition(".")
    if path == "output" and isinstance(value, str):
        tree["output"] = value
        return True
    if key == "lora.enable_lora":
        return has_lora
    if section not in SECTIONS or (section == "lora" and not has_lora):
        return False
    if not has_eval and (section == "eval" or field in ("hf_eval_split", "hf_eval_files", "eval_columns")):
        return False
    return _put_field(tree, section, field, value, exact=exact)


def _put_axis(tree: Tree, group: str, axis: str, value: Value) -> bool:
    if axis not in get_args(Axis) or not isinstance(value, int) or isinstance(value, bool) or value < -1:
        return False
    mesh = tree.setdefault("parallelism", {})
    if isinstance(mesh, dict):
        mesh.setdefault(group, {})[axis] = value
    return True


def _put_field(tree: Tree, section: str, field: str, value: Value, *, exact: bool) -> bool:
    path = f"{section}.{field}"
    if isinstance(value, str) and "\0" in value:  # a hole: validation of its later value is the workload's
        tree.setdefault(section, {})[field] = value  # type: ignore[index]
        return True
    spellings = (value,) if exact else (value, *_equal_values(field, value))
    fitting = next((v for v in spellings if v is not None and fits(section, field, v)), None)
    if fitting is None and path not in REQUIRED:
        return False
    inside = tree.setdefault(section, {})
    if isinstance(inside, dict):
        inside[field] = value if fitting is None else fitting
    return True


def _equal_values(field: str, value: Value) -> Iterable[Value]:
    """Yield values that MaxText treats as equal: 0 and 1 for switches, one name for a list of one."""
    if value in (0, 1) and not isinstance(value, bool):
        yield bool(value)
    if isinstance(value, str) and field.endswith("columns"):
        yield [value]


def fits(section: str, field: str, value: Value) -> bool:
    try:
        SECTIONS[section].model_validate({field: value})
    except ValidationError as refused:
        return not any(e["loc"][:1] == (field,) for e in refused.errors())
    return True


def _tidy(tree: Tree) -> None:
    """Remove what xsft renders anyway."""
    data, evaluation, mesh = tree.get("data"), tree.get("eval"), tree.get("parallelism")
    if isinstance(data, dict) and data.get("eval_columns") == data.get("columns"):
        data.pop("eval_columns", None)
    if isinstance(evaluation, dict) and evaluation.get("steps") == -1:
        del evaluation["steps"]
    if isinstance(mesh, dict) and len(dcn := mesh.get("dcn", {})) > 1 and next(iter(dcn.items())) == ("data", 1):
        del dcn["data"]


def _is_positive(value: Value | object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
