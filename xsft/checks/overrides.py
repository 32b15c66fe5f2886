"""Rules for trainer keys under overrides that belong to a field of the workload. Pure.

An override of a key counts as its field: the rules of the section hold for it, and every check sees it there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace as altered
from types import MappingProxyType
from typing import Any, get_args

from msgspec import Struct
from msgspec.structs import replace
from pydantic import ValidationError

from xsft.base.problems import Problem, error
from xsft.checks.trainer_keys import FIELD_OF, IDENTITY, is_on, number, where_of
from xsft.spec.base import Keys, Value
from xsft.spec.explain import explain_validation
from xsft.spec.model import Overrides, WorkloadSpec
from xsft.spec.resolve import Run
from xsft.spec.sections import Axis
from xsft.spec.yamltext import ParsedYaml
from xsft.trainer.shuffling import SEED, seeds
from xsft.trainer.trainer import trainer_of

Fields = Keys
"""Key path in the workload -> value."""

_EVAL = "eval_interval"
_LORA = "lora.enable_lora"
"""The keys that enable a section. source: maxtext@0.2.5 configs/base.yml, configs/post_train/sft.yml"""

PATHS: Mapping[str, str] = MappingProxyType(
    {
        **{key: path for key, path in FIELD_OF.items() if key not in IDENTITY and key != _LORA},
        **{f"{g}_{axis}_parallelism": f"parallelism.{g}.{axis}" for g in ("ici", "dcn") for axis in get_args(Axis)},
    }
)
"""Trainer key -> path of its field."""


class AppliedOverrides(Struct, frozen=True, kw_only=True):
    run: Run
    """The run with the fields that its overrides set, as the checks see it. Its trainer's keys are unchanged."""
    problems: tuple[Problem, ...]
    set_by: Mapping[str, str]
    """Path of a field that is set by an override -> the override's own path."""

    def name_as_in_file(self, problem: Problem) -> Problem:
        """Return the problem with the key path that the file uses."""
        return altered(problem, where=self.set_by.get(problem.where, problem.where))


def apply_overrides(run: Run) -> AppliedOverrides:
    owned = dict(_check_owned_keys(run))
    fields = _section_values(run, without=owned)
    spec, problems = _set_fields(run.spec, fields)
    set_by = {path: f"overrides.maxtext.{key}" for key, path in PATHS.items() if path in fields}
    reported = (*owned.values(), *_check_lora_is_on(run), *problems)
    return AppliedOverrides(run=replace(run, spec=spec), problems=reported, set_by=set_by)


def _check_owned_keys(run: Run) -> Iterator[tuple[str, Problem]]:
    """Yield problems of overrides that would replace a value set elsewhere."""
    bare = replace(run, spec=run.spec.model_copy(update={"overrides": Overrides()}))
    trainer = trainer_of(run)
    refused_anyway = {"hf_access_token"}
    rendered = trainer.trainer_keys(bare).keys() - trainer.OVERRIDABLE - refused_anyway
    rendered |= {SEED} if seeds(run) else set()  # needed by the next attempt, if not by this one
    for key in run.spec.overrides.maxtext:
        if key in IDENTITY or key in rendered:
            field = where_of(key, bare) or "a field of the workload"
            message = f"{key} is already set by {field}; an override would silently replace it."
            fix = f"Remove the override and set {field}."
            yield key, error("override-has-field", where_of(key, run), message, fix)


def _section_values(run: Run, *, without: Mapping[str, object]) -> dict[str, Value]:
    """Return the values that enabled sections would hold. MaxText writes none as empty text."""
    keys = {key: value for key, value in run.spec.overrides.maxtext.items() if value not in (None, "")}
    off = {
        "eval": run.spec.eval is None and (number(keys.get(_EVAL)) or 0) <= 0,
        "lora": run.spec.lora is None and not is_on(keys.get(_LORA)),
    }
    paths = {key: PATHS[key] for key in keys if key in PATHS and key not in without}
    return {path: keys[key] for key, path in paths.items() if not off.get(path.partition(".")[0])}


def _set_fields(spec: WorkloadSpec, fields: Fields) -> tuple[WorkloadSpec, tuple[Problem, ...]]:
    """Return the workload with these fields set; unchanged, with the problems, if their rules do not allow them."""
    sections = {path.partition(".")[0] for path in fields}
    if is_on(spec.overrides.maxtext.get(_LORA)):
        sections.add("lora")
    tree = spec.model_dump(mode="json", exclude_none=True)
    for section in sections:
        tree.setdefault(section, {})
    for path, value in fields.items():
        _set(tree, path, value)
    try:
        valid = WorkloadSpec.model_validate(tree, strict=False)  # MaxText reads '16' as 16, too
    except ValidationError as invalid:
        problems = explain_validation(invalid, ParsedYaml(data=tree, lines={}, raw={}), model_cls=WorkloadSpec)
        return spec, tuple(map(_as_override, problems))
    return spec.model_copy(update={section: getattr(valid, section) for section in sections}), ()


def _set(tree: dict[str, Any], path: str, value: Value) -> None:
    *parents, last = path.split(".")
    for parent in parents:
        tree = tree.setdefault(parent, {})
    tree[last] = value


def _as_override(problem: Problem) -> Problem:
    """Return a field's problem, reported for its key."""
    key = next((key for key, path in PATHS.items() if path == problem.where), None)
    if key is None:
        return problem
    where = f"overrides.maxtext.{key}"
    texts = {name: getattr(problem, name).replace(problem.where, where) for name in ("message", "fix")}
    return altered(problem, where=where, **texts)


def _check_lora_is_on(run: Run) -> Iterator[Problem]:
    """Check for LoRA keys without effect. source: maxtext@0.2.5 utils/lora_utils.py apply_lora_to_model: adapters are
    made only if enable_lora is on."""
    keys = run.spec.overrides.maxtext
    if run.spec.lora is not None or is_on(keys.get(_LORA)):
        return
    for key, value in keys.items():
        if key.startswith("lora.") and key != _LORA and value not in (None, "", 0):
            message = f"{key} has no effect, because LoRA is not on: the whole model would be trained."
            fix = "Add the section lora: {rank: …, alpha: …}, or remove the key."
            yield error("lora-off", where_of(key, run), message, fix)
