"""Value types are frozen, those of many fields are built by keywords, and users' documents forbid unknown keys."""

from __future__ import annotations

import dataclasses
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pydantic
import pytest

ROOT = Path(__file__).parent.parent
DECLARES = re.compile(r"^@dataclass|^class .*\((?:.*\b)?(?:Struct|BaseModel|Section)\b", re.MULTILINE)
MODULES = tuple(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in sorted((ROOT / "xsft").rglob("*.py"))
    if DECLARES.search(path.read_text(encoding="utf-8"))
)
MUTABLE = {
    # what was counted or read so far, changed by each line, request or turn
    "runs.waiting._RunWait",
    "launch.prepare_data.Follower",
    "launch.local_folder.AttemptWatch",
    "runs.logstream.YieldedLines",
    "runs.read_progress._ProgressRequest",
    "verbs.terminal._StepPace",
    "spec.yamltext._YamlContents",
    "trainer.progress.LossFold",
    "trainer.progress._Fold",
    "runs.receipt.ReceiptFold",
    "trainer.progress.Tally",
    # clients, with what they have connected to or asked
    "runs.read_all.Runs",
    # a program of MaxText's interpreter, which fills it array by array
    "workers.compare_export.Comparison",
}
FEW = 3
POSITIONAL = {
    # rows of tables
    "workers.name_tables.ExportedTensor",
    "workers.name_tables.NameTables",
    # programs of MaxText's interpreter
    "workers.compare_export.Comparison",
    "workers.stored_weights.ExpectedSlice",
    "workers.stored_weights.Weights",
    # private, and built in one place
}


@pytest.mark.parametrize("module", MODULES)
def test_values_are_frozen(module: str) -> None:
    for name, type_found in _types(module):
        assert _is_frozen(type_found) or name in MUTABLE, name


@pytest.mark.parametrize("module", MODULES)
def test_values_of_many_fields_are_built_by_keywords(module: str) -> None:
    for name, type_found in _types(module):
        assert len(getattr(type_found, "__match_args__", ())) <= FEW or name in POSITIONAL, name


@pytest.mark.parametrize("module", MODULES)
def test_documents_of_users_refuse_unknown_keys(module: str) -> None:
    for name, type_found in _types(module):
        if issubclass(type_found, pydantic.BaseModel):
            assert type_found.model_config.get("extra") == "forbid", name


def _types(module: str) -> Iterator[tuple[str, type]]:
    for member in vars(importlib.import_module(module)).values():
        if isinstance(member, type) and member.__module__ == module and _is_value(member):
            yield f"{module.removeprefix('xsft.')}.{member.__qualname__}", member


def _is_value(kind: type) -> bool:
    return dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct | pydantic.BaseModel)


def _is_frozen(kind: type) -> bool:
    if issubclass(kind, pydantic.BaseModel):
        return bool(kind.model_config.get("frozen"))
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_config__.frozen
    return bool(kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]


def test_every_exception_is_needed() -> None:
    types_by_name = {name: type_found for module in MODULES for name, type_found in _types(module)}
    assert {name for name in MUTABLE if not _is_frozen(types_by_name[name])} == MUTABLE
    assert {name for name in POSITIONAL if len(types_by_name[name].__match_args__) > FEW} == POSITIONAL
