from __future__ import annotations

import json
from pathlib import Path

import pytest

from xsft.data.facts import DataFacts
from xsft.data.read_rows import FIRST_BYTES, read_rows

ROW = '{"messages": []}\n'


def read(pattern: object) -> DataFacts:
    rows = read_rows(str(pattern), of="json", where="data.hf_train_files")
    assert rows is not None
    return rows


def test_small_files_are_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(ROW * 3 + "\n")
    (tmp_path / "b.jsonl").write_text(ROW)
    found = read(tmp_path / "*.jsonl")
    assert (found.counted, found.problem, found.empty) == (4, None, ())
    assert [row.at for row in found.rows[2:]] == ["row 2 of a.jsonl", "row 0 of b.jsonl"]


def test_the_shipped_rows_are_counted() -> None:
    assert read("xsft://tiny/chat.jsonl").counted == 480


def test_the_first_megabyte_of_a_large_file_is_read_and_its_lines_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(f'{{"n": {n}, "text": "{"a" * 90}"}}\n' for n in range(20_000)))
    found = read(tmp_path / "a.jsonl")
    assert found.counted == 20_000
    assert FIRST_BYTES // 120 < len(found.rows) < FIRST_BYTES // 100
    assert [row.row["n"] for row in found.rows] == list(range(len(found.rows)))


def test_a_byte_order_mark_is_not_part_of_the_rows(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(ROW, encoding="utf-8-sig")
    assert [row.row for row in read(tmp_path / "a.json").rows] == [{"messages": []}]


@pytest.mark.parametrize(
    "content",
    [
        f"[{ROW}]",
        ROW.strip() * 2,
        json.dumps({"a": [1]}, indent=1) * 2,
        '{"a": ' + "[" * 20_000 + "]" * 20_000 + "}\n",
        "{",
    ],
    ids=["array", "two on a line", "over several lines", "deep", "begun"],
)
def test_files_in_another_form_are_left_to_maxtext(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    found = read(tmp_path / "a.json")
    assert (found.rows, found.counted, found.problem) == ((), None, None)


def test_a_later_line_that_is_not_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": NaN}\n{"a":')
    assert "line 2 of " in problem_of(read(tmp_path / "a.json"))
    (tmp_path / "a.json").write_text("version https://git-lfs.github.com/spec/v1\n")
    assert "line 1 of " in problem_of(read(tmp_path / "a.json"))


def problem_of(facts: DataFacts) -> str:
    assert facts.problem
    assert facts.problem.id == "data-unreadable"
    return facts.problem.message


def test_two_stars_match_all_folders(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(ROW)
    assert read(tmp_path / "**" / "*.jsonl").counted == 1


def test_a_dangling_link_is_reported_as_a_symbolic_link(tmp_path: Path) -> None:
    for target in ("loop.jsonl", "gone"):
        (tmp_path / "loop.jsonl").unlink(missing_ok=True)
        (tmp_path / "loop.jsonl").symlink_to(target)
        assert "loop.jsonl, a symbolic link that leads to no file;" in problem_of(read(tmp_path / "loop.jsonl"))


def test_missing_files_are_a_problem_and_empty_files_are_listed(tmp_path: Path) -> None:
    problem = read(tmp_path / "*.jsonl").problem
    assert problem
    assert problem.id == "data-unreadable"
    (tmp_path / "a.jsonl").touch()
    found = read(tmp_path / "*.jsonl")
    assert (found.counted, found.empty) == (0, (str(tmp_path / "a.jsonl"),))


@pytest.mark.parametrize("elsewhere", [None, "https://a/b.jsonl"])
def test_no_files_and_urls_are_not_read(elsewhere: str | None) -> None:
    assert read_rows(elsewhere, of="json", where="data.hf_train_files") is None
