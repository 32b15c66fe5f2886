"""Real parquet files are looked into by `xsft check`, through MaxText's environment."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

import xsft
from tests.fakes.gcs import Bucket, serving
from tests.pipeline import Pipeline
from xsft.effects.facts import parquet

pytestmark = [pytest.mark.contract, pytest.mark.maxtext, pytest.mark.usefixtures("maxtext_environment")]

TINY = Path(__file__).parents[2] / "workloads" / "tiny_local.yaml"
GOOD = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]}


def ids(file: Path | str, *more: str) -> set[str]:
    settings = ("data.hf_path=parquet", f"data.hf_train_files={file}", "data.rows=480", *more)
    return {p.id for p in xsft.check(xsft.load(TINY, settings=settings)) if p.severity != "note"}


@pytest.mark.parametrize(
    ("row", "found"),
    [
        (GOOD, set()),
        ({"messages": '[{"role": "user"}]'}, {"data-conversation"}),
        ({"text": "a"}, {"data-columns"}),
        ({"messages": [{"role": "user", "content": "hi"}]}, {"data-roles"}),
    ],
    ids=["good", "JSON in a string", "another column", "no answer"],
)
def test_rows_of_parquet(maxtext_pipeline: Pipeline, tmp_path: Path, row: dict[str, Any], found: set[str]) -> None:
    file = maxtext_pipeline.parquet([row] * 480, file=tmp_path / "rows.parquet")
    assert ids(file) == found


@pytest.mark.parametrize(
    ("row", "found"),
    [
        (GOOD, set()),
        ({"messages": [{"from": "human", "value": "hi"}]}, {"data-conversation"}),
        ({"text": "a"}, {"data-columns"}),
        ({"messages": [{"role": "user", "content": "hi"}]}, {"data-no-target"}),
    ],
    ids=["good", "from and value", "another column", "no answer"],
)
def test_rows_for_grain(maxtext_pipeline: Pipeline, tmp_path: Path, row: dict[str, Any], found: set[str]) -> None:
    file = maxtext_pipeline.parquet([row] * 480, file=tmp_path / "rows.parquet")
    assert ids(file, "data.pipeline=grain") == found


def test_a_row_group_that_is_too_large_is_noted(
    maxtext_pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = tmp_path / "parquet_worker.py"
    worker.write_text(parquet.WORKER.read_text().replace("128 * 2**20", "1"))
    monkeypatch.setattr(parquet, "WORKER", worker)
    file = maxtext_pipeline.parquet([GOOD] * 480, file=tmp_path / "rows.parquet")
    settings = ("data.hf_path=parquet", f"data.hf_train_files={file}")
    (note,) = (one for one in xsft.check(xsft.load(TINY, settings=settings)) if one.id == "data-not-read")
    assert "row group" in note.message


LARGE = """
import sys, pyarrow as pa, pyarrow.parquet as pq
said = pa.struct([("role", pa.string()), ("content", pa.string())])
rows = [[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]] * 480
pq.write_table(pa.table({"messages": pa.array(rows, type=pa.large_list(said))}), sys.argv[1])
"""


def test_large_lists(maxtext_python: Path, tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    subprocess.run([maxtext_python, "-I", "-c", LARGE, file], check=True)
    assert ids(file) == {"data-conversation"}


GROUPS = """
import os, sys, pyarrow as pa, pyarrow.parquet as pq
said = [{"role": "user", "content": "hi"}]
rows = [{"messages": said, "more": os.urandom(4000).hex()} for _ in range(1500)]
pq.write_table(pa.Table.from_pylist(rows), sys.argv[1], row_group_size=int(sys.argv[2]))
"""
"""6 MB of rows without an answer."""


@pytest.mark.parametrize(("rows_of_a_group", "found"), [(100, {"data-roles", "data-rows"}), (1500, {"data-rows"})])
def test_parquet_in_a_bucket(
    maxtext_python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_of_a_group: int, found: set[str]
) -> None:
    """The beginning and the footer are read; the rows are those of the first row group, if it is not too large."""
    file = tmp_path / "rows.parquet"
    subprocess.run([maxtext_python, "-I", "-c", GROUPS, file, str(rows_of_a_group)], check=True)
    assert file.stat().st_size > 3 * parquet.BUCKET_BYTES
    with serving(Bucket({"d/a.parquet": file.read_bytes()})) as bucket:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", bucket.url)
        assert ids("gs://my-bucket/d/*.parquet") == found
        assert len(bucket.questions) == 3, "the list, the beginning and the footer"
        bucket.objects["d/a.parquet"] = b"PAR1 and no more"
        assert ids("gs://my-bucket/d/*.parquet") == {"data-unreadable"}


def test_a_broken_file(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").write_bytes(b"PAR1 and no more")
    assert ids(tmp_path / "rows.parquet") == {"data-unreadable"}


def test_what_was_read_is_not_read_again(
    maxtext_pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = maxtext_pipeline.parquet([GOOD] * 479, file=tmp_path / "rows.parquet")
    assert ids(file) == {"data-rows"}
    monkeypatch.setattr(parquet, "WORKER", tmp_path / "missing.py")
    assert ids(file) == {"data-rows"}
