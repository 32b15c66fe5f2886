"""Real files of every format that MaxText reads are looked into by `xsft check`, through MaxText's environment."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import xsft
from tests.fakes.gcs import Bucket, serving
from tests.pipeline import Pipeline
from xsft.data import library_rows
from xsft.data.read_rows import read_rows
from xsft.environments.ask import PROGRAMS
from xsft.planning import api
from xsft.workers.row_rules import RowRules, judge_row

pytestmark = [pytest.mark.contract, pytest.mark.maxtext, pytest.mark.usefixtures("maxtext_environment")]

TINY = Path(__file__).parents[2] / "workloads" / "tiny_local.yaml"
HERE = {"packing": False, "per_device_batch_size": 1, "num_epoch": 1, "max_target_length": 512}
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
def test_check_judges_rows_of_parquet(
    maxtext_pipeline: Pipeline, tmp_path: Path, row: dict[str, Any], found: set[str]
) -> None:
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
def test_check_judges_rows_of_parquet_for_grain(
    maxtext_pipeline: Pipeline, tmp_path: Path, row: dict[str, Any], found: set[str]
) -> None:
    file = maxtext_pipeline.parquet([row] * 480, file=tmp_path / "rows.parquet")
    assert ids(file, "data.pipeline=grain") == found


def test_a_row_group_that_is_too_large_is_noted(maxtext_pipeline: Pipeline, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    shutil.copytree(PROGRAMS, programs)
    reader = programs / "row_reader.py"
    reader.write_text(reader.read_text().replace("128 * 2**20", "1"))
    file = maxtext_pipeline.parquet([GOOD] * 480, file=tmp_path / "rows.parquet")
    note = library_rows.read_files([file], of="parquet", where="data.hf_train_files", programs=programs).problem
    assert note is not None
    assert note.id == "data-not-read"
    assert "row group" in note.message


LARGE = """
import sys, pyarrow as pa, pyarrow.parquet as pq
said = pa.struct([("role", pa.string()), ("content", pa.string())])
rows = [[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]] * 480
pq.write_table(pa.table({"messages": pa.array(rows, type=pa.large_list(said))}), sys.argv[1])
"""


def test_check_reads_large_lists_of_parquet(maxtext_python: Path, tmp_path: Path) -> None:
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
def test_check_reads_beginning_and_footer_of_parquet_in_a_bucket(
    maxtext_python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_of_a_group: int, found: set[str]
) -> None:
    """The beginning and the footer are read; the rows are those of the first row group, if it is not too large."""
    file = tmp_path / "rows.parquet"
    subprocess.run([maxtext_python, "-I", "-c", GROUPS, file, str(rows_of_a_group)], check=True)
    assert file.stat().st_size > 3 * library_rows.BUCKET_BYTES
    with serving(Bucket({"d/a.parquet": file.read_bytes()})) as bucket:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", bucket.url)
        assert ids("gs://my-bucket/d/*.parquet") == found
        assert len(bucket.questions) == 3, "the list, the beginning and the footer"
        bucket.objects["d/a.parquet"] = b"PAR1 and no more"
        assert ids("gs://my-bucket/d/*.parquet") == {"data-unreadable"}


def test_a_broken_parquet_file_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").write_bytes(b"PAR1 and no more")
    assert ids(tmp_path / "rows.parquet") == {"data-unreadable"}


def test_a_file_is_read_only_once(maxtext_pipeline: Pipeline, tmp_path: Path) -> None:
    file = maxtext_pipeline.parquet([GOOD] * 479, file=tmp_path / "rows.parquet")
    found = library_rows.read_files([file], of="parquet", where="data.hf_train_files")
    assert (found.counted, found.problem) == (479, None)
    missing = tmp_path / "missing"
    assert library_rows.read_files([file], of="parquet", where="data.hf_train_files", programs=missing) == found


CSV = {
    "answer": "question,answer\nhi,yes\n",
    "empty": "question,answer\nhi,\n",
    "number": "question,answer\n1,2.5\n",
    "quoted": 'question,answer\n2024-01-01,"a,\nb"\n',
    "text": "question,text\nhi,yes\n",
}
WRITE = """
import gzip, json, pathlib, sys, zipfile, pyarrow as pa
folder = pathlib.Path(sys.argv[1])
said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]
for name, row in {"a-good": {"messages": said}, "b-string": {"messages": json.dumps(said)}}.items():
    table = pa.Table.from_pylist([row] * 300)
    with pa.OSFile(str(folder / f"{name}.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table, max_chunksize=50)
line = json.dumps({"messages": said}) + "\\n"
with zipfile.ZipFile(folder / "a.jsonl.zip", "w") as packed:
    packed.writestr("a.jsonl", line)
with pa.CompressedOutputStream(str(folder / "b.jsonl.zst"), "zstd") as packed:
    packed.write(line.encode())
(folder / "a.txt").write_text("one\\ntwo\\n")
(folder / "z-packed.csv.gz").write_bytes(gzip.compress(b"question,answer\\nhi,yes\\n"))
"""


@pytest.fixture(scope="module")
def files(maxtext_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    for name, text in CSV.items():
        (folder / f"{name}.csv").write_text(text)
    subprocess.run([maxtext_python, "-I", "-c", WRITE, folder], check=True)
    return folder


def test_rows_of_csv_are_judged_as_maxtext_does(maxtext_pipeline: Pipeline, files: Path) -> None:
    found = read_rows(f"{files}/*.csv*", of="csv", where="data.hf_train_files")
    assert found
    assert (found.problem, found.counted) == (None, len(CSV) + 1)
    rules = RowRules(columns=("question", "answer"))
    line = argv("question,answer", "data.hf_path=csv")
    there = [files / row.at.rpartition(" ")[2] for row in found.rows]
    said = [one.partition(":")[0] for one in maxtext_pipeline.verdicts(line, there, HERE)]
    assert said == [judge_row(row.row, rules).outcome for row in found.rows]
    assert set(said) == {"trained", "refused"}


def argv(columns: str, *settings: str) -> tuple[str, ...]:
    (intent,) = api.intend((xsft.load(TINY, settings=[f"data.columns=[{columns}]", *settings]),))
    return intent.trainer_argv


def test_rows_of_arrow_and_text_are_read_and_judged(maxtext_pipeline: Pipeline, files: Path) -> None:
    found = read_rows(f"{files}/*.arrow", of="arrow", where="data.hf_train_files")
    assert found
    rows = (found.rows[0], found.rows[-1])
    said = maxtext_pipeline.verdicts(argv("messages", "data.hf_path=arrow"), sorted(files.glob("*.arrow")), HERE)
    outcomes = [judge_row(row.row, RowRules(columns=("messages",))).outcome for row in rows]
    assert [one.partition(":")[0] for one in said] == outcomes == ["trained", "refused"]
    assert (len(found.rows), found.counted) == (400, None)
    texts = read_rows(f"{files}/a.txt", of="text", where="data.hf_train_files")
    assert texts
    assert texts.problem is None
    assert [row.row for row in texts.rows] == [{"text": "one"}, {"text": "two"}]


def test_archives_are_read_as_datasets_does(maxtext_pipeline: Pipeline, files: Path) -> None:
    found = read_rows(f"{files}/*.jsonl.*", of="json", where="data.hf_train_files")
    assert found
    assert len(found.rows) == 1, "of the zip archive"
    assert found.problem
    assert (found.problem.id, found.problem.kind) == ("data-unreadable", "disputable")
    assert "Compression type zstd not supported" in found.problem.message
    (said,) = maxtext_pipeline.verdicts(argv("messages"), [files / "b.jsonl.zst"], HERE)
    assert "Compression type zstd not supported" in said


def test_every_format_is_read_in_a_bucket(
    maxtext_python: Path, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large object the rows of its beginning are read."""
    records = tmp_path / "a.array_record"
    subprocess.run([maxtext_python, "-I", "-c", RECORDS, records], check=True)
    large = b"question,answer\n" + b"hi,yes\n" * (library_rows.BUCKET_BYTES // 5)
    objects = {"a.csv": large, "b.arrow": (files / "a-good.arrow").read_bytes(), "c.array_record": records.read_bytes()}
    assert len(objects["c.array_record"]) > 2 * library_rows.BUCKET_BYTES
    with serving(Bucket(objects)) as bucket:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", bucket.url)
        read = {name: read_rows(f"gs://my-bucket/{name}", of=of, where="") for name, of in FORMATS.items()}
    assert {name: one and (one.problem, one.counted, len(one.rows)) for name, one in read.items()} == {
        "a.csv": (None, None, 200),
        "b.arrow": (None, None, 200),
        "c.array_record": (None, 1000, 200),
    }


FORMATS = {"a.csv": "csv", "b.arrow": "arrow", "c.array_record": "arrayrecord"}
RECORDS = """
import os, sys
from array_record.python.array_record_module import ArrayRecordWriter
from maxtext.input_pipeline.protos import example_pb2
writer = ArrayRecordWriter(sys.argv[1], "group_size:1")
for number in range(1000):
    example = example_pb2.Example()
    example.features.feature["question"].bytes_list.value.append(os.urandom(6000).hex().encode())
    example.features.feature["answer"].bytes_list.value.append(b"yes")
    writer.write(example.SerializeToString())
writer.close()
"""
