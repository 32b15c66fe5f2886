"""Rows in a bucket: a bounded part of them is read, and counts of a local copy are found."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

import xsft
from tests.fakes.gcs import Bucket, serving
from xsft.base.problems import warning
from xsft.data.counted_store import keep_counts
from xsft.data.facts import CountedData, DataFacts
from xsft.data.read_rows import FIRST_BYTES, read_rows
from xsft.data.row_files import SAMPLE_BYTES, fetch_rows, files_content, glob_regex
from xsft.planning import api, gather
from xsft.planning.counted import address
from xsft.planning.planner import make_intent

pytestmark = pytest.mark.loopback

TINY = Path(__file__).parents[2] / "workloads" / "tiny_local.yaml"
GOOD = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]}
ROW = f"{json.dumps(GOOD)}\n".encode()


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Bucket]:
    monkeypatch.setenv("XSFT_STATE_DIR", str(tmp_path / "state"))
    with serving(Bucket({})) as served:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", served.url)
        yield served


def read(pattern: str, of: str = "json") -> DataFacts:
    rows = read_rows(f"gs://my-bucket/{pattern}", of=of, where="data.hf_train_files")
    assert rows
    return rows


def ids(*settings: str) -> list[str]:
    return [problem.id for problem in api.check(xsft.load(TINY, settings=settings))]


def test_a_placeholder_bucket_gives_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    problem = read("a.jsonl").problem
    assert problem
    assert (problem.id, problem.severity) == ("data-not-read", "note")
    assert "my-bucket is a placeholder" in problem.message


def test_files_that_match_the_pattern_are_read(bucket: Bucket) -> None:
    bucket.objects.update({"d/b.jsonl": ROW * 2, "d/a.jsonl": ROW, "d/sub/c.jsonl": ROW, "d/a.txt": b"x"})
    found = read("d/*.jsonl")
    assert (found.counted, found.rows[0].at) == (3, "row 0 of a.jsonl")
    assert read("d/**/*.jsonl").counted == 4
    assert read("d/a.jsonl").counted == 1
    missing = read("d/*.json")
    assert missing.problem
    assert missing.problem.id == "data-unreadable"


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [("a/*.b", "a/x.b", True), ("a/*.b", "a/x/y.b", False), ("a/**/*.b", "a/y.b", True), ("a/[xy]?", "a/x1", True)],
)
def test_glob_regex_matches_as_a_glob_pattern(pattern: str, path: str, matches: bool) -> None:
    assert bool(re.fullmatch(glob_regex(pattern), path)) is matches


def test_the_first_megabyte_of_a_large_object_is_read(bucket: Bucket) -> None:
    bucket.objects["a.jsonl"] = ROW * 200_000
    found = read("a.jsonl")
    assert found.counted is None
    assert len(found.rows) == FIRST_BYTES // len(ROW)
    assert len(bucket.questions) == 2, "the list and the beginning"


def test_a_sample_of_objects_is_fetched(bucket: Bucket, tmp_path: Path) -> None:
    bucket.objects.update({"a.jsonl": ROW * 9, "b.jsonl": ROW * 200_000, "c.jsonl": ROW})
    sample = fetch_rows("gs://my-bucket/*.jsonl", tmp_path / "sample", split="train", rows=400)
    assert (sample.partial, sample.pattern) == (True, f"{tmp_path}/sample/*")
    assert [file.read_bytes() for file in sorted((tmp_path / "sample").iterdir())] == [ROW * 9]
    everything = fetch_rows("gs://my-bucket/*.jsonl", tmp_path / "all", split="train", rows=sys.maxsize)
    assert not everything.partial
    assert sum(file.stat().st_size for file in (tmp_path / "all").iterdir()) == len(ROW) * 200_010
    large = fetch_rows("gs://my-bucket/b.jsonl", tmp_path / "large", split="train", rows=400)
    (beginning,) = (tmp_path / "large").iterdir()
    assert large.partial
    assert beginning.stat().st_size == SAMPLE_BYTES // len(ROW) * len(ROW)


@pytest.mark.early
def test_the_columns_of_rows_in_a_bucket_are_checked(bucket: Bucket) -> None:
    bucket.objects["a.jsonl"] = b'{"text": "x"}\n'
    assert "data-columns" in ids("data.hf_train_files=gs://my-bucket/a.jsonl")


def test_an_unreadable_bucket_gives_a_note(bucket: Bucket) -> None:
    bucket.status = 403
    problem = read("a.jsonl").problem
    assert problem
    assert (problem.id, problem.severity) == ("data-not-read", "note")
    assert "permission denied" in problem.message
    assert read_rows("gs://my-bucket/a", of="text", where="")


def test_counts_of_a_local_copy_are_found_by_content(bucket: Bucket, tmp_path: Path) -> None:
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(ROW * 480)
    there = ("data.hf_train_files=gs://my-bucket/a.jsonl",)
    bucket.objects["a.jsonl"] = ROW * 480
    loaded = xsft.load(TINY, settings=(f"data.hf_train_files={copy}",))
    facts = gather.gather(loaded.spec, file=TINY, today="20260101", offline=True)
    data_facts = DataFacts(content=files_content(str(copy)))
    reported = warning("data-truncated", "train", "Many are cut.", "Raise it.")
    key = address(make_intent(loaded.spec, facts).run, replace(facts, data=data_facts))
    keep_counts(key, CountedData(problems=(reported,), rows="all", on="20260101"))
    assert "data-truncated" in ids(*there)
    bucket.objects["a.jsonl"] = ROW * 481
    assert "data-truncated" not in ids(*there), "another content"
