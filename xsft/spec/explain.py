"""Read a workload: YAML, then `--set`, then types; every problem of the stage that failed, each with its key path.
Pure.

Validation uses pydantic's strict JSON mode: no text becomes a number or a boolean.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from xsft.base.errors import SpecError
from xsft.base.problems import Problem, error
from xsft.spec.complaints import Complaint, complaint_of, describe, without_misspelt
from xsft.spec.keypath import key_path
from xsft.spec.model import WorkloadSpec
from xsft.spec.refused import REFUSALS
from xsft.spec.yamledit import apply_overrides
from xsft.spec.yamltext import ParsedYaml, parse_yaml

M = TypeVar("M", bound=BaseModel)
Refusals = Mapping[str, tuple[str, str]]
"""Refusals: dotted key path, or `path=value` -> (problem id, reason), for keys and values that xsft knows and does not
take."""

NO_REFUSALS: Refusals = MappingProxyType({})
MAX_PROBLEMS = 50
MAX_LOCATED = 20 * MAX_PROBLEMS
"""Maximum number of errors that are located in the model; members of a union are several for one problem."""


def validate(
    model_cls: type[M], data: Mapping[str, object], parsed: ParsedYaml, *, refusals: Refusals = NO_REFUSALS
) -> M:
    """Return the model of `data` (which may hold more than `parsed`, e.g. a place). Raises SpecError with all
    problems.
    """
    refused = _refused_keys(data, parsed, refusals)
    try:
        model = model_cls.model_validate_json(json.dumps(data), strict=True)
    except ValidationError as invalid:
        paths = [p.where for p in refused]
        problems = explain_validation(invalid, parsed, model_cls=model_cls, refused=paths)
    else:
        if not refused:
            return model
        problems = ()
    raise SpecError((*refused, *problems))  # outside the handler: pydantic's error quotes values


def explain_validation(
    invalid: ValidationError,
    parsed: ParsedYaml,
    *,
    model_cls: type[BaseModel],
    refused: Sequence[str] = (),
) -> tuple[Problem, ...]:
    """Return one problem per wrong key: the members of a union that do not fit are one problem, not one each.

    `refused`: paths of keys that are reported already, without problems of their sections or of keys below them.
    """
    errors = invalid.errors(include_url=False)
    complaints = [complaint_of(model_cls, details) for details in errors[:MAX_LOCATED]]
    groups = [group for group in _groups(without_misspelt(complaints), level=0) if not _is_refused(group[0], refused)]
    problems = tuple(_with_line(describe(group, parsed.raw), parsed) for group in groups[:MAX_PROBLEMS])
    hidden = len(groups) - len(problems) + len(errors) - len(complaints)
    if hidden == 0:
        return problems
    more = error("more-problems", "", f"{hidden} more problems are not shown", "Fix these first.")
    return (*problems, more)


def _groups(complaints: Sequence[Complaint], *, level: int) -> list[tuple[Complaint, ...]]:
    """Return the complaints, grouped by problem: those of a union are one if no member got further than the type."""
    groups: dict[tuple[object, ...], list[Complaint]] = {}
    # The complaints of one union have one key; the others have their own number.
    for index, complaint in enumerate(complaints):
        if len(complaint.unions) > level:
            groups.setdefault((*complaint.path[: complaint.unions[level][0]], "union"), []).append(complaint)
        else:
            groups.setdefault((index,), []).append(complaint)
    by_problem: list[tuple[Complaint, ...]] = []
    for group in groups.values():
        if len(group[0].unions) > level:
            by_problem.extend(_of_union(group, level))
        else:
            by_problem.append((group[0],))
    return by_problem


def _of_union(group: Sequence[Complaint], level: int) -> list[tuple[Complaint, ...]]:
    """Return the complaints of the union's member that the user meant: of those whose shape fits, the one with the
    fewest."""
    depth = group[0].unions[level][0]
    by_label: dict[str, list[Complaint]] = {}
    for complaint in group:
        by_label.setdefault(complaint.unions[level][1], []).append(complaint)
    fitting = [
        complaints
        for complaints in by_label.values()
        if not any(len(c.path) == depth and c.is_type_error for c in complaints)
    ]
    if fitting:
        return _groups(min(fitting, key=len), level=level + 1)
    return [tuple(group)]


def _with_line(problem: Problem, parsed: ParsedYaml) -> Problem:
    """Return the problem with the line of the key, or of the section that lacks it."""
    path = problem.where
    # `--set` and a place give keys that stand on no line: the section's line is the nearest.
    while path and path not in parsed.lines:
        path = path.rpartition(".")[0]
    return replace(problem, message=f"{problem.message} (line {parsed.lines[path]})") if path else problem


def _refused_keys(data: Mapping[str, object], parsed: ParsedYaml, refusals: Refusals) -> tuple[Problem, ...]:
    problems: list[Problem] = []
    for key, (name, reason) in refusals.items():
        path, _, value = key.partition("=")
        if _has_value(data, path.split("."), value=value):
            problems.append(_with_line(error(name, path, reason, "Remove it."), parsed))
    return tuple(problems)


def _has_value(data: object, parts: Sequence[str], *, value: str = "") -> bool:
    """Return whether the path exists, with this value if one is given; a key may itself contain dots."""
    if not parts:
        return not value or data == value
    if not isinstance(data, Mapping):
        return False
    heads = ((".".join(parts[:n]), parts[n:]) for n in range(1, len(parts) + 1))
    return any(head in data and _has_value(data[head], deeper, value=value) for head, deeper in heads)


def _is_refused(complaint: Complaint, refused: Sequence[str]) -> bool:
    """Return whether it is about a refused key, a key below one, or an unknown section that holds one."""
    prefix = f"{key_path(complaint.path)}."
    return any(
        prefix.startswith(f"{path}.") or (complaint.is_unknown_key and path.startswith(prefix)) for path in refused
    )


def read_spec(text: str, *, settings: Sequence[str] = ()) -> WorkloadSpec:
    """Return the workload. Raises SpecError."""
    parsed = apply_overrides(parse_yaml(text), settings)
    return validate(WorkloadSpec, parsed.data, parsed, refusals=REFUSALS)
