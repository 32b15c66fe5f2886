"""Damaged checkpoint folders: each gets a status and a reason, none an exception, and reads are bounded."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.checkpoints import unpacked
from xsft.records.record_files import record_store
from xsft.weights.checkpoint_report import CheckpointReport
from xsft.weights.inspect import inspect_checkpoint
from xsft.weights.read_arrays import MAX_METADATA
from xsft.weights.read_checkpoint import read_checkpoint

ITEM = "qwen3-converted/0/items"
FILES = ("_METADATA", "_sharding", "manifest.ocdbt", "../_CHECKPOINT_METADATA", "d")
SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10)
STATUSES = ("read", "torn", "not-a-checkpoint")


@pytest.fixture
def item(tmp_path: Path) -> Path:
    return unpacked("stores", tmp_path) / ITEM


def report(path: Path) -> CheckpointReport:
    return inspect_checkpoint(str(path), store=record_store({"HOME": str(path.parent)}))


def file_of(item: Path, name: str) -> Path:
    return next((item / "d").iterdir()) if name == "d" else item / name


@SHARED
@given(data=st.data())
@pytest.mark.parametrize("name", FILES)
def test_damaged_file_content_never_raises(item: Path, name: str, data: st.DataObject) -> None:
    file = file_of(item, name)
    content = file.read_bytes()
    position, length = data.draw(st.integers(0, len(content))), data.draw(st.integers(0, 20))
    file.write_bytes(content[:position] + data.draw(st.binary(max_size=10)) + content[position + length :])
    facts = read_checkpoint(str(item))
    file.write_bytes(content)
    assert facts.status in STATUSES
    assert facts.status == "read" or facts.detail


def test_a_damaged_manifest_that_names_a_file_with_nul_bytes_is_torn(item: Path) -> None:
    manifest = item / "manifest.ocdbt"
    content = manifest.read_bytes()
    manifest.write_bytes(content[:54] + bytes(10) + content[64:])
    assert read_checkpoint(str(item)).status == "torn"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@SHARED
@given(place=st.integers(0, 10_000), value=JSON)
@pytest.mark.parametrize("name", ["_METADATA", "_sharding", "../_CHECKPOINT_METADATA"])
def test_a_changed_value_in_a_json_file_never_raises(item: Path, name: str, place: int, value: object) -> None:
    """The changed value is at any depth."""
    file = item / name
    content = file.read_bytes()
    document = json.loads(content)
    every = list(places(document))
    holder, key = every[place % len(every)]
    holder[key] = value
    file.write_text(json.dumps(document))
    facts = read_checkpoint(str(item))
    file.write_bytes(content)
    assert facts.status in STATUSES


def places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Every holder with a key of it."""
    for key, value in list(document.items() if isinstance(document, dict) else enumerate(document)):
        yield document, key
        if isinstance(value, (dict, list)):
            yield from places(value)


@pytest.mark.parametrize("name", FILES)
def test_a_huge_file_is_read_up_to_a_limit(item: Path, name: str) -> None:
    file = file_of(item, name)
    with file.open("ab") as grown:
        grown.truncate(10**12)  # sparse: takes no space
    checkpoint_report = report(item)
    assert checkpoint_report.bytes_read < 6 * MAX_METADATA
    assert checkpoint_report.status in ("complete", "torn", "unreadable")


@pytest.mark.parametrize("name", [*FILES, "."])
def test_a_symbolic_link_loop_is_unreadable(item: Path, name: str) -> None:
    file = file_of(item, name)
    file = item if name == "." else file
    file.rename(file.with_name("elsewhere"))
    file.symlink_to(file)
    checkpoint_report = report(item)
    assert checkpoint_report.status == "unreadable"
    assert "Too many levels of symbolic links" in checkpoint_report.detail


@pytest.mark.parametrize("name", FILES)
def test_a_folder_or_pipe_in_place_of_a_file_never_raises(item: Path, name: str) -> None:
    file = file_of(item, name)
    for make in (os.mkdir, os.mkfifo):
        file.rename(file.with_name("elsewhere"))
        make(file)
        assert read_checkpoint(str(item)).status in STATUSES
        file.rename(file.with_name(make.__name__))
        file.with_name("elsewhere").rename(file)


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000, "\udcff"])
def test_an_impossible_path_is_unreadable_or_missing(tmp_path: Path, path: str) -> None:
    assert report(tmp_path / path).status in ("unreadable", "missing")


def test_a_file_without_read_permission_is_unreadable(item: Path) -> None:
    with without_rights(item):
        checkpoint_report = report(item)
    assert checkpoint_report.status == "unreadable"
    assert "Permission denied" in checkpoint_report.detail


@contextmanager
def without_rights(folder: Path) -> Iterator[None]:
    """Root is denied nothing, so the test runs as another user; pytest's folders are their owner's alone."""
    is_root = os.geteuid() == 0
    os.seteuid(65534) if is_root else folder.chmod(0)
    try:
        yield
    finally:
        os.seteuid(0) if is_root else folder.chmod(0o700)
