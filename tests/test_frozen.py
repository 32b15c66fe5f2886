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
    for name, one in _types(module):
        assert _is_frozen(one) or name in MUTABLE, name


@pytest.mark.parametrize("module", MODULES)
def test_values_of_many_fields_are_built_by_keywords(module: str) -> None:
    for name, one in _types(module):
        assert len(getattr(one, "__match_args__", ())) <= FEW or name in POSITIONAL, name


@pytest.mark.parametrize("module", MODULES)
def test_documents_of_users_refuse_unknown_keys(module: str) -> None:
    for name, one in _types(module):
        if issubclass(one, pydantic.BaseModel):
            assert one.model_config.get("extra") == "forbid", name


def _types(module: str) -> Iterator[tuple[str, type]]:
    for one in vars(importlib.import_module(module)).values():
        if isinstance(one, type) and one.__module__ == module and _is_value(one):
            yield f"{module.removeprefix('xsft.')}.{one.__qualname__}", one


def _is_value(one: type) -> bool:
    return dataclasses.is_dataclass(one) or issubclass(one, msgspec.Struct | pydantic.BaseModel)


def _is_frozen(one: type) -> bool:
    if issubclass(one, pydantic.BaseModel):
        return bool(one.model_config.get("frozen"))
    if issubclass(one, msgspec.Struct):
        return one.__struct_config__.frozen
    return bool(one.__dataclass_params__.frozen)  # type: ignore[attr-defined]


def test_every_exception_is_needed() -> None:
    found = {name: one for module in MODULES for name, one in _types(module)}
    assert {name for name in MUTABLE if not _is_frozen(found[name])} == MUTABLE
    assert {name for name in POSITIONAL if len(found[name].__match_args__) > FEW} == POSITIONAL
