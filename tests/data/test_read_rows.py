from __future__ import annotations

import bz2
import gzip
import json
import lzma
from pathlib import Path

import pytest

from xsft.data.facts import DataFacts
from xsft.data.read_rows import MAX_BYTES, read_rows

ROW = '{"messages": []}\n'


def read(pattern: object, *, max_bytes: int = MAX_BYTES) -> DataFacts:
    found = read_rows(str(pattern), of="json", where="data.hf_train_files", max_bytes=max_bytes)
    assert found is not None
    return found


def test_small_files_are_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(ROW * 3 + "\n")
    (tmp_path / "b.jsonl").write_text(json.dumps([{"n": 1}]))  # behind another file datasets reads an array
    found = read(tmp_path / "*.jsonl")
    assert (found.counted, found.problem, found.empty) == (4, None, ())
    assert [row.at for row in found.rows[2:]] == ["row 2 of a.jsonl", "row 0 of b.jsonl"]


def test_the_shipped_rows_are_counted() -> None:
    assert read("xsft://tiny/chat.jsonl").counted == 480


def test_a_large_file_is_sampled(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(f'{{"n": {n}, "text": "{"a" * 90}"}}\n' for n in range(20_000)))
    found = read(tmp_path / "a.jsonl", max_bytes=2**20)
    assert found.counted is None
    assert found.rows[0].row["n"] == 0
    assert 1_000 < len(found.rows) < 15_000
    assert found.rows[-1].row["n"] > 10_000, "some of the rest"
    assert read(tmp_path / "a.jsonl", max_bytes=2**20) == found, "the same each time"


@pytest.mark.parametrize("indent", [None, 1])
def test_a_large_array_gives_no_rows_from_within_a_row(tmp_path: Path, indent: int | None) -> None:
    row = {"tags": ["a", "b"], "messages": [{"role": "user", "content": "hi"}]}
    (tmp_path / "a.json").write_text(json.dumps([row] * 10_000, indent=indent))
    (tmp_path / "b.json").write_text(
        "[\n" + ",\n".join(['{"messages": [\n{"role": "user"},\n{"n": 1}\n]}'] * 10_000) + "]"
    )
    for name in ("a", "b"):
        found = read(tmp_path / f"{name}.json", max_bytes=2**18)
        assert (found.rows, found.counted) == ((), None)
        assert found.problem
        assert "is a JSON array" in found.problem.message


def test_a_byte_order_mark_is_not_part_of_the_rows(tmp_path: Path) -> None:
    for content in (ROW, f"[{ROW}]", json.dumps([json.loads(ROW)], indent=1)):
        (tmp_path / "a.json").write_text(content, encoding="utf-8-sig")
        assert [row.row for row in read(tmp_path / "a.json").rows] == [{"messages": []}]


def test_a_json_array_is_reported_as_unreadable_for_maxtext(tmp_path: Path) -> None:
    for content in (f"[{ROW}]", f"\n [{ROW}]"):
        (tmp_path / "a.json").write_text(content)
        problem = read(tmp_path / "a.json").problem
        assert problem
        assert (problem.id, "is a JSON array" in problem.message) == ("data-unreadable", True)


@pytest.mark.parametrize("content", [ROW.strip() * 2, f"{ROW.strip()} {ROW}", json.dumps({"a": [1]}, indent=1) * 2])
def test_objects_not_separated_by_lines_are_not_checked(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    found = read(tmp_path / "a.json")
    assert (found.rows, found.counted, found.problem) == ((), None, None)


def test_rows_say_how_datasets_reads_the_keys_of_their_messages(tmp_path: Path) -> None:
    (tmp_path / "0.json").touch()
    (tmp_path / "a.json").write_text(ROW)
    (tmp_path / "b.json").write_text(ROW)
    assert [row.keys for row in read(tmp_path / "*.json").rows] == ["alike", "cast"]
    (tmp_path / "a.json").write_text(f"{ROW}\n{ROW}")
    assert [row.keys for row in read(tmp_path / "*.json").rows] == ["told", "told", "cast"]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (r'{"half": "\ud83d"}', "line 2 holds half a surrogate pair"),
        ('{"a": {"b": 1, "b": 2}}', "line 2 has the key b twice"),
    ],
)
def test_json_that_pyarrow_rejects(tmp_path: Path, row: str, why: str) -> None:
    (tmp_path / "a.json").write_text(f"{ROW}{row}\n{ROW * 9_000}")
    assert why in problem_of(read(tmp_path / "a.json"))
    sampled = read(tmp_path / "a.json", max_bytes=2**17)
    assert why.removeprefix("line 2 ") in problem_of(sampled)


def test_unusual_json_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(r'{"whole": "\ud83d\ude00", "great": ' + "9" * 30 + "}\n")
    found = read(tmp_path / "a.json")
    assert (found.counted, found.problem) == (1, None)


def problem_of(found: DataFacts) -> str:
    assert found.problem
    assert found.problem.id == "data-unreadable"
    return found.problem.message


COMPRESSORS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_compressed_files_are_read(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"a.jsonl{suffix}"
    rows = "".join(f'{{"n": {n}}}\n' for n in range(5_000)).encode()
    file.write_bytes(COMPRESSORS[suffix](rows))
    found = read(file)
    assert (found.counted, found.problem, found.rows[-1].row) == (5_000, None, {"n": 4_999})
    found = read(file, max_bytes=2**12)
    assert (found.counted, found.problem) == (None, None)
    assert 100 < len(found.rows) < 1_000, "its first rows"
    file.write_bytes(file.read_bytes()[:60])
    assert "cannot be read" in problem_of(read(file))
    file.write_bytes(rows)
    assert "cannot be read" in problem_of(read(file))


def test_two_stars_within_a_name_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(ROW)
    assert "** is part of a name" in problem_of(read(tmp_path / "**.jsonl"))
    assert read(tmp_path / "**" / "*.jsonl").counted == 1


def test_rows_nested_too_deeply_are_not_checked(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": ' + "[" * 20_000 + "]" * 20_000 + "}\n")
    found = read(tmp_path / "a.json")
    assert (found.rows, found.counted, found.problem) == ((), None, None)


@pytest.mark.parametrize("content", ["{", '{"a": 1}\n{"a":', "[1, 2", "\x00"])
def test_a_broken_file_is_data_unreadable(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    problem = read(tmp_path / "a.json").problem
    assert problem
    assert problem.id == "data-unreadable"


def test_an_object_over_several_lines_or_a_nan_is_not_broken(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{\n "a": 1\n}\n')
    found = read(tmp_path / "a.json")
    assert (found.rows, found.counted, found.problem) == ((), None, None)
    (tmp_path / "a.json").write_text('{"a": NaN}\n')
    assert read(tmp_path / "a.json").counted == 1


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
