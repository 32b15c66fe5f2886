"""The index of runs on this machine: written atomically, and readable by other versions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.records.arbitrary import any_of
from tests.replacing import replace
from xsft.records.index import IndexEntry, entry_of, keep_entry, read_index
from xsft.records.record import Attempt, ClusterAddress, MeasuredPace, Receipt, Record

ENTRY = IndexEntry(
    run_name="a",
    target="xpk",
    output="gs://b/runs",
    steps=3,
    attempt=2,
    uid="u",
    cluster=ClusterAddress(context="here"),
    updated_at="2",
)


@settings(max_examples=20)
@given(any_of(IndexEntry, run_name=st.text("abé-1", min_size=1, max_size=8)))
def test_every_field_of_an_entry_is_read_back(entry: IndexEntry) -> None:
    with TemporaryDirectory() as folder:
        keep_entry(Path(folder), entry)
        assert read_index(Path(folder)).entries == (entry,)


def test_an_entry_is_a_private_json_file_named_after_its_run(tmp_path: Path) -> None:
    """People read the file too."""
    keep_entry(tmp_path / "index", replace(ENTRY, run_name="é" * 120, mode=None))
    (file,) = (tmp_path / "index").glob("*.json")
    assert re.fullmatch(r"é{100}-[0-9a-f]{12}\.json", file.name)
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    text = file.read_text(encoding="utf-8")
    assert text.startswith(f'{{\n "schema": "xsft.run/1",\n "run_name": "{"é" * 120}",\n')
    assert text.endswith("}\n")
    assert "mode" not in json.loads(text)


def test_a_token_is_not_written_to_the_index(tmp_path: Path) -> None:
    token = "hf_" + "Ab1" * 12
    keep_entry(tmp_path, replace(ENTRY, record=f"https://{token}@host/"))
    (file,) = tmp_path.glob("*.json")
    assert token not in file.read_text()


RESOLVED = st.fixed_dictionaries({}, optional={"work": st.sampled_from(["convert", 5, None])})
ATTEMPTS = st.lists(any_of(Attempt, resolved=RESOLVED), min_size=1, max_size=2)


@settings(max_examples=20)
@given(any_of(Record, attempts=ATTEMPTS.map(tuple)))
def test_entry_of_takes_the_fields_of_the_last_attempt(record: Record) -> None:
    last = record.attempts[-1]
    assert entry_of(record, path="p", at="t") == IndexEntry(
        **{name: getattr(record, name) for name in ("run_name", "target", "spec_digest", "steps", "mode")},
        **{name: getattr(last, name) for name in ("jobset", "namespace", "cluster", "uid")},
        output=record.output or "",
        attempt=last.number,
        record="p",
        work="convert" if last.resolved.get("work") == "convert" else None,
        updated_at="t",
    )


def test_an_entry_holds_the_pace_of_a_run_with_a_receipt(tmp_path: Path) -> None:
    resolved = {"tpu": "v6e-8", "step_time_bound": {"seconds": 0.5, "compiled": True}}
    attempt_read = Attempt(number=1, resolved=resolved, receipt=Receipt(seconds={"training": 10.0}, steps=4))
    record = Record(run_name="a", output="o", spec={"model": {"name": "qwen3-0.6b"}}, attempts=(attempt_read,))
    keep_entry(tmp_path, entry_of(record, path="p", at="t"))
    (entry,) = read_index(tmp_path).entries
    assert entry.pace == MeasuredPace(model="qwen3-0.6b", tpu="v6e-8", compiled=True, ratio=5.0)
    without = replace(record, attempts=(replace(attempt_read, receipt=None),))
    assert entry_of(without, path="p", at="t").pace is None


def test_a_slash_at_the_end_of_an_output_makes_no_second_entry(tmp_path: Path) -> None:
    for output in ("gs://b/runs", "gs://b/runs/"):
        keep_entry(tmp_path, replace(ENTRY, output=output))
    assert [entry.output for entry in read_index(tmp_path).entries] == ["gs://b/runs/"]


def test_keep_entry_writes_one_file_for_each_run_and_output(tmp_path: Path) -> None:
    entries = (ENTRY, replace(ENTRY, output="gs://c", updated_at="1"), replace(ENTRY, run_name="z", updated_at="3"))
    for entry in (*entries, *entries):
        keep_entry(tmp_path, entry)
    assert [(e.run_name, e.output) for e in read_index(tmp_path).entries] == [
        ("a", "gs://c"), ("a", "gs://b/runs"), ("z", "gs://b/runs")
    ]  # fmt: skip
    assert read_index(tmp_path).entries[1] == ENTRY


def test_an_earlier_attempt_does_not_replace_a_later_one(tmp_path: Path) -> None:
    for attempt in (2, 1, 3, 2):
        keep_entry(tmp_path, replace(ENTRY, attempt=attempt))
    assert [e.attempt for e in read_index(tmp_path).entries] == [3]
    keep_entry(tmp_path, replace(ENTRY, attempt=3, uid="learnt since"))
    assert [e.uid for e in read_index(tmp_path).entries] == ["learnt since"]


def test_concurrent_writers_lose_no_entry(tmp_path: Path) -> None:
    threads = [Thread(target=keep_entry, args=(tmp_path, replace(ENTRY, run_name=f"r{n}"))) for n in range(8)]
    threads += [Thread(target=keep_entry, args=(tmp_path, replace(ENTRY, attempt=n))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    index = read_index(tmp_path)
    assert {e.run_name for e in index.entries} == {"a", *(f"r{n}" for n in range(8))}
    assert next(e.attempt for e in index.entries if e.run_name == "a") == 7
    assert index.problems == ()


def test_known_fields_of_entries_of_other_versions_are_read(tmp_path: Path) -> None:
    newer = {"schema": "xsft.run/9", "run_name": "a", "target": "t", "output": "o", "new": 1, "uid": None}
    (tmp_path / "a.json").write_text(json.dumps(newer | {"cluster": {"context": "c", "moon": 1}}))
    expected = IndexEntry(run_name="a", target="t", output="o", cluster=ClusterAddress(context="c"))
    assert read_index(tmp_path).entries == (expected,)
    assert (expected.steps, expected.attempt) == (0, 1)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"schema": "xsft.run/1"}', '{"schema": "other/1"}', "\0"])
def test_a_bad_entry_is_reported_and_the_others_are_read(content: str, tmp_path: Path) -> None:
    keep_entry(tmp_path, ENTRY)
    (tmp_path / "b.json").write_text(content)
    index = read_index(tmp_path)
    assert index.entries == (ENTRY,)
    assert [(p.id, "b.json" in p.message) for p in index.problems] == [("index-unreadable", True)]


def test_a_missing_folder_is_an_empty_index(tmp_path: Path) -> None:
    assert read_index(tmp_path / "none").entries == ()
