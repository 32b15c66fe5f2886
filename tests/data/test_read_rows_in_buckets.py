"""Rows in a bucket: a bounded part of them is read, and counts of a local copy are found."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

import xsft
from tests.fakes.gcs import Bucket, serving
from xsft.base.problems import warning
from xsft.data.counted_store import keep_counts
from xsft.data.facts import CountedData, DataFacts
from xsft.data.read_rows import read_rows
from xsft.data.row_content import local_content
from xsft.data.row_files import glob_regex
from xsft.planning import api, gather
from xsft.planning.counted import content_address
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
    found = read_rows(f"gs://my-bucket/{pattern}", of=of, where="data.hf_train_files")
    assert found
    return found


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


def test_a_large_file_is_read_in_a_bounded_part(bucket: Bucket) -> None:
    bucket.objects["a.jsonl"] = ROW * 200_000
    found = read("a.jsonl")
    assert found.counted is None
    assert 1_000 < len(found.rows) < 4_000
    assert len(bucket.questions) == 4, "the list, the beginning and two places"


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", partial(lzma.compress, preset=0))],
    ids=["gz", "bz2", "xz"],
)
def test_compressed_objects_are_read(bucket: Bucket, suffix: str, compress: Callable[[bytes], bytes]) -> None:
    whole = compress(b"".join(json.dumps({"n": n, "text": hex(n**99)}).encode() + b"\n" for n in range(8_000)))
    bucket.objects.update({f"a.jsonl.{suffix}": compress(ROW * 50), f"large.jsonl.{suffix}": whole})
    assert len(whole) > 2**20
    assert read(f"a.jsonl.{suffix}").counted == 50
    large = read(f"large.jsonl.{suffix}")
    assert (large.counted, large.problem, large.rows[0].row["n"]) == (None, None, 0)


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
    known = DataFacts(content=local_content(str(copy), say=print))
    found = warning("data-truncated", "train", "Many are cut.", "Raise it.")
    key = content_address(make_intent(loaded.spec, facts).run, replace(facts, data=known))
    assert key
    keep_counts(key, CountedData(problems=(found,), rows="all", on="20260101"))
    assert "data-truncated" in ids(*there)
    bucket.objects["a.jsonl"] = ROW * 481
    assert "data-truncated" not in ids(*there), "another content"
