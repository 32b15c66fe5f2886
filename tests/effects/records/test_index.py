"""The index of runs on this machine: atomic, readable by later versions, never in the way."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Thread

import pytest

from tests.replacing import replace
from xsft.effects.records.index import IndexEntry, keep, read_index
from xsft.records.model import Cluster

ENTRY = IndexEntry(
    run_name="a",
    target="xpk",
    output="gs://b/runs",
    steps=3,
    attempt=2,
    uid="u",
    cluster=Cluster(context="here"),
    updated_at="2",
)


def test_one_file_for_each_run_and_output(tmp_path: Path) -> None:
    entries = (ENTRY, replace(ENTRY, output="gs://c", updated_at="1"), replace(ENTRY, run_name="z", updated_at="3"))
    for entry in (*entries, *entries):
        keep(tmp_path, entry)
    assert [(e.run_name, e.output) for e in read_index(tmp_path).entries] == [
        ("a", "gs://c"), ("a", "gs://b/runs"), ("z", "gs://b/runs")
    ]  # fmt: skip
    assert read_index(tmp_path).entries[1] == ENTRY


def test_an_earlier_attempt_does_not_replace_a_later_one(tmp_path: Path) -> None:
    for attempt in (2, 1, 3, 2):
        keep(tmp_path, replace(ENTRY, attempt=attempt))
    assert [e.attempt for e in read_index(tmp_path).entries] == [3]


def test_many_writers_lose_nothing(tmp_path: Path) -> None:
    threads = [Thread(target=keep, args=(tmp_path, replace(ENTRY, run_name=f"r{n}"))) for n in range(8)]
    threads += [Thread(target=keep, args=(tmp_path, replace(ENTRY, attempt=n))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    index = read_index(tmp_path)
    assert {e.run_name for e in index.entries} == {"a", *(f"r{n}" for n in range(8))}
    assert next(e.attempt for e in index.entries if e.run_name == "a") == 7
    assert index.problems == ()


def test_entries_of_other_versions_are_read_as_far_as_they_are_known(tmp_path: Path) -> None:
    newer = {"schema": "xsft.run/9", "run_name": "a", "target": "t", "output": "o", "new": 1, "steps": "x", "uid": None}
    (tmp_path / "a.json").write_text(json.dumps(newer | {"cluster": {"context": "c", "moon": 1}}))
    expected = IndexEntry(run_name="a", target="t", output="o", cluster=Cluster(context="c"))
    assert read_index(tmp_path).entries == (expected,)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"schema": "xsft.run/1"}', '{"schema": "other/1"}', "\0"])
def test_what_is_no_entry_is_said_and_the_others_are_read(content: str, tmp_path: Path) -> None:
    keep(tmp_path, ENTRY)
    (tmp_path / "b.json").write_text(content)
    index = read_index(tmp_path)
    assert index.entries == (ENTRY,)
    assert [(p.id, "b.json" in p.message) for p in index.problems] == [("index-unreadable", True)]


def test_no_folder_is_an_empty_index(tmp_path: Path) -> None:
    assert read_index(tmp_path / "none").entries == ()
