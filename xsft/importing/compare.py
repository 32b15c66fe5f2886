"""Compare the workload's trainer arguments with the pasted ones. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xsft.catalog.releases import key_hint
from xsft.checks.trainer_keys import FIELD_OF
from xsft.importing.keys import removed_keys
from xsft.importing.notes import Notes
from xsft.importing.values import is_same_value
from xsft.spec.base import Value
from xsft.spec.modes import is_mode_key, mode_rules
from xsft.spec.resolve import Run
from xsft.trainer.arguments import yaml_value
from xsft.trainer.trainer import trainer_of

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


def say_differences(given: Mapping[str, Value], run: Run, notes: Notes) -> None:
    """Note each key that differs, unless a note mentions it already."""
    rendered = trainer_of(run).trainer_keys(run)
    for key in (key for key in removed_keys(given, run.release.version) if key not in rendered):
        why = f"MaxText {run.release.version} refuses it. {key_hint(key, version=run.release.version)}"
        notes.differ(key, given=yaml_value(given[key]), why=why)
    for key, value in rendered.items():
        if notes.has_noted(key) or notes.has_noted(FIELD_OF.get(key, key)) or _is_open(given.get(key)):
            continue
        if key not in given:
            is_known = not (key == "checkpoint_period" and _is_open(given.get("steps")))
            notes.differ(key, now=yaml_value(value) if is_known else "a tenth of the steps", why=_why_added(key, run))
        elif not is_same_value(given[key], value):
            notes.differ(key, given=yaml_value(given[key]), now=yaml_value(value), why=_why_other(key, run))
    for key, value in given.items():
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
