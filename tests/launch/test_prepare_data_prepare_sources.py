"""The files of a data source, and when two sources count as the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.replacing import replace
from xsft.base.errors import SpecError
from xsft.data.preparation import RowSource
from xsft.launch.prepare_data import digest, located_source, stamps

FILES = RowSource(path="json", split="train", columns={"messages": "messages"}, splits=("train",))


def digest_of(source: RowSource) -> str:
    return digest(located_source(source), say=print)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    for name in ("b", "a"):
        (tmp_path / f"{name}.jsonl").write_text(name)
    return tmp_path


def test_a_pattern_names_files_in_order(rows: Path) -> None:
    source_content = located_source(replace(FILES, files=f"{rows}/*.jsonl"))
    assert source_content.load["data_files"] == [f"{rows}/a.jsonl", f"{rows}/b.jsonl"]
    assert len(stamps((source_content,))) == 2


def test_the_digest_depends_on_content_and_not_on_file_names(rows: Path) -> None:
    named = digest_of(replace(FILES, files=f"{rows}/a.jsonl"))
    (rows / "copy.jsonl").write_text("a")
    assert digest_of(replace(FILES, files=f"{rows}/copy.jsonl")) == named
    assert digest_of(replace(FILES, files=f"{rows}/b.jsonl")) != named


def test_the_digest_of_a_folder_depends_on_its_file_names(rows: Path) -> None:
    folder = replace(FILES, path=str(rows))
    before = digest_of(folder)
    (rows / ".cache").mkdir()
    (rows / ".cache" / "x").touch()
    assert digest_of(folder) == before
    (rows / "a.jsonl").rename(rows / "test.jsonl")
    assert digest_of(folder) != before


def test_an_xsft_address_is_found_in_the_package() -> None:
    (file,) = located_source(replace(FILES, files="xsft://tiny/chat.jsonl")).files
    assert file.is_file()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (FILES, "No files are named"),
        (replace(FILES, files="/nowhere/a.jsonl"), "/nowhere/a.jsonl does not exist"),
        (replace(FILES, files="/nowhere/*.jsonl"), "No file matches /nowhere"),
        (replace(FILES, files="gs://bucket/a.jsonl"), "gs://bucket/a.jsonl is not on this machine"),
        (replace(FILES, path="/nowhere"), "/nowhere is not a folder"),
    ],
    ids=["no files", "missing file", "no match", "bucket", "missing folder"],
)
def test_missing_or_remote_sources_are_refused_with_a_fix(source: RowSource, words: str) -> None:
    with pytest.raises(SpecError, match=words) as refused:
        located_source(source)
    (problem,) = refused.value.problems
    assert (problem.id, bool(problem.fix)) == ("data-unreadable", True)


def test_digest_of_reports_a_file_that_cannot_be_read(rows: Path) -> None:
    (rows / "folder.jsonl").mkdir()
    with pytest.raises(SpecError, match="cannot be read"):
        digest_of(replace(FILES, files=f"{rows}/folder.jsonl"))
