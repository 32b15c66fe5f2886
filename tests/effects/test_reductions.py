"""What was made of objects before: the same as would be made of them now, or nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.launchers.test_observed import OBJECTS
from xsft.effects import reductions
from xsft.effects.parallel import start
from xsft.effects.reductions import READERS, Reductions, kept
from xsft.launchers.observed import jobset_of
from xsft.launchers.observed_queue import Owned, owned
from xsft.states.model import JobSet

Reduce = Callable[[Any], Any]
KINDS: dict[Any, Reduce] = {JobSet: jobset_of, Owned: owned}


def version(one: Any) -> str:
    """What changes whenever the object does."""
    return json.dumps(one, sort_keys=True)


def take(objects: list[Any], known: Reductions[Any], reduce: Reduce) -> list[Any]:
    found = []
    for one in objects:
        if (made := known.get(version(one))) is None:
            made = (reduce(one),)
            known.add(version(one), made[0])
        found.append(made[0])
    return found


def read(path: Path, kind: Any, objects: list[Any], *, reduce: Reduce | None = None) -> list[Any]:
    known = Reductions[Any](path, lambda: kind, made_by=start(reductions.code))
    found = take(objects, known, reduce or KINDS[kind])
    known.save()
    return found


def kept_in(folder: Path, **changed: str) -> Reductions[Any]:
    of = {"context": "c", "namespace": "n", "plural": "jobsets", **changed}
    return kept(folder, made_by=start(reductions.code), kind=lambda: JobSet, **of)


def read_into(known: Reductions[Any], objects: list[Any]) -> None:
    take(objects, known, jobset_of)
    known.save()


def refused(_: Any) -> Any:
    raise AssertionError("taken apart again")


def many(count: int = 5) -> list[Any]:
    return [{"metadata": {"name": f"run-{i}", "uid": f"u-{i}"}, "spec": {"suspend": i % 2 == 0}} for i in range(count)]


@settings(max_examples=200)
@given(st.lists(OBJECTS, max_size=5), st.lists(OBJECTS, max_size=3), st.data(), st.sampled_from(sorted(KINDS, key=str)))
def test_whatever_was_read_before_the_list_reads_the_same(
    first: list[Any], others: list[Any], data: st.DataObject, kind: type
) -> None:
    """The second list has some of the first one's objects, in any order."""
    second = data.draw(st.permutations([*first, *others]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.list"
        for objects in (first, second, second):
            plainly = list(map(KINDS[kind], objects))
            assert repr(read(path, kind, objects)) == repr(plainly)  # repr: NaN differs from itself, 1 not from True


def test_what_did_not_change_is_not_taken_apart_again(tmp_path: Path) -> None:
    first = read(tmp_path / "a", JobSet, many())
    assert read(tmp_path / "a", JobSet, many(), reduce=refused) == first


def test_what_is_nothing_is_known_as_well(tmp_path: Path) -> None:
    """A JobSet that does not train."""
    assert read(tmp_path / "a", JobSet | None, many(1), reduce=lambda _: None) == [None]
    assert read(tmp_path / "a", JobSet | None, many(1), reduce=refused) == [None]


def test_a_path_that_cannot_even_be_looked_at_is_no_file(tmp_path: Path) -> None:
    """As in a folder that is another user's."""
    path = tmp_path / ("x" * 300)
    with pytest.raises(OSError, match="too long"):
        path.is_file()
    assert read(path, JobSet, many()) == list(map(jobset_of, many()))


def test_whether_there_is_a_file_is_known_at_once(tmp_path: Path) -> None:
    def known() -> bool:
        return bool(Reductions[Any](tmp_path / "a", lambda: JobSet, made_by=start(reductions.code)))

    assert not known()
    read(tmp_path / "a", JobSet, many())
    assert known()


def test_what_changed_is(tmp_path: Path) -> None:
    read(tmp_path / "a", JobSet, many())
    changed = many()
    changed[1]["spec"]["suspend"] = not changed[1]["spec"]["suspend"]
    found = read(tmp_path / "a", JobSet, changed)
    assert [one.suspended for one in found] == [one["spec"]["suspend"] for one in changed]


def test_what_is_gone_is_dropped(tmp_path: Path) -> None:
    """Else it would be taken for what will be there at the next look."""
    read(tmp_path / "a", JobSet, many(50))
    full = (tmp_path / "a").stat().st_size
    left = read(tmp_path / "a", JobSet, many(3), reduce=refused)
    assert (tmp_path / "a").stat().st_size < full / 5
    known = Reductions[Any](tmp_path / "a", lambda: JobSet, made_by=start(reductions.code))
    assert list(known.before()) == left


def test_nothing_is_written_where_nothing_is_new(tmp_path: Path) -> None:
    read(tmp_path / "a", JobSet, many())
    written = (tmp_path / "a").stat().st_mtime_ns
    read(tmp_path / "a", JobSet, many())
    assert (tmp_path / "a").stat().st_mtime_ns == written


@pytest.mark.parametrize("spoil", ["half", "empty", "other words", "other kind", "no file", "a folder", "a pipe"])
def test_a_file_that_makes_no_sense_is_none(tmp_path: Path, spoil: str) -> None:
    path, objects = tmp_path / "a", many()
    first = read(path, JobSet, objects)
    there = path.read_bytes()
    match spoil:
        case "half":
            path.write_bytes(there[: len(there) // 2])
        case "empty":
            path.write_bytes(b"")
        case "other words":
            path.write_bytes(b"\xff\x00 no msgpack")
        case "other kind":
            path.unlink()
            read(path, Owned, objects)
        case "no file":
            path.unlink()
        case "a pipe":
            path.unlink()
            os.mkfifo(path)
        case _:
            path.unlink()
            path.mkdir()
    assert read(path, JobSet, objects) == first


def test_another_way_of_reading_takes_nothing_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = many()
    read(tmp_path / "a", JobSet, objects)
    monkeypatch.setattr(reductions, "code", lambda: b"another xsft".ljust(32))
    with pytest.raises(AssertionError, match="taken apart again"):
        read(tmp_path / "a", JobSet, objects, reduce=refused)


def test_the_way_of_reading_changes_with_each_file_that_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "xsft"
    reading = ("launchers/observed.py", "catalog/tpu_types.toml", "naming.py", "effects/cluster_changes.py")
    for name in (*reading, "effects/cluster_items.py", "effects/cluster_reads.py", "effects/reductions.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("1", encoding="utf-8")
    for name in ("modes", "states"):
        (package / name).mkdir()
    monkeypatch.setattr(reductions, "__file__", str(package / "effects" / "reductions.py"))
    known = {reductions.code()}
    for name in reading:
        about = (package / name).stat()
        (package / name).write_text("2", encoding="utf-8")
        os.utime(package / name, ns=(about.st_atime_ns, about.st_mtime_ns))  # as in images that are built reproducibly
        assert reductions.code() not in known, name
        known.add(reductions.code())
    (package / "effects" / "reductions.py").write_text("2", encoding="utf-8")
    assert reductions.code() in known


def test_code_that_cannot_be_read_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reductions, "__file__", str(tmp_path / "xsft" / "effects" / "reductions.py"))
    read_into(kept_in(tmp_path), many())
    assert not (tmp_path / "lists").exists()


def test_code_that_is_replaced_while_it_reads_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was loaded is not what lies there now."""
    known = kept_in(tmp_path)
    monkeypatch.setattr(reductions, "code", lambda: b"newer".ljust(32))
    read_into(known, many())
    assert not (tmp_path / "lists").exists()


def test_nothing_else_of_xsft_decides_what_is_made() -> None:
    """All that the reducing modules load."""
    code = "import sys, xsft.launchers.observed, xsft.launchers.observed_queue; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ})
    loaded = {name.split(".")[1] for name in done.stdout.split() if name.startswith("xsft.")}
    assert loaded <= {Path(name).stem for name in READERS}, loaded


def test_a_number_or_a_word_that_cannot_be_kept_keeps_no_other_from_it(tmp_path: Path) -> None:
    """JSON has larger numbers than msgpack, and halves of characters."""
    odd = [{**many(1)[0], "status": {"restarts": 10**30}}, {"metadata": {"name": "\ud800"}}]
    objects = [*odd, *many()]
    first = read(tmp_path / "a", JobSet, objects)
    assert first == list(map(jobset_of, objects))
    again: list[str] = []

    def noted(json: Any) -> JobSet:
        again.append(json["metadata"]["name"])
        return jobset_of(json)

    assert read(tmp_path / "a", JobSet, objects, reduce=noted) == first
    assert again == ["run-0", "\ud800"], "the odd ones"


@settings(max_examples=300)
@given(st.data())
def test_a_file_in_which_any_byte_is_wrong_is_none(data: st.DataObject) -> None:
    objects = [{**one, "status": {"terminalState": "Completed"}} for one in many()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a"
        first = read(path, JobSet, objects)
        wrong = bytearray(path.read_bytes())
        wrong[data.draw(st.integers(0, len(wrong) - 1))] ^= data.draw(st.integers(1, 255))
        path.write_bytes(wrong)
        assert read(path, JobSet, objects) == first
        assert read(path, JobSet, objects, reduce=jobset_of) == first
        assert path.read_bytes() != bytes(wrong), "it is written anew"


def test_each_list_has_a_file_of_its_own(tmp_path: Path) -> None:
    for context, namespace, plural in (
        ("a/b", "n", "jobsets"),
        ("a:b", "n", "jobsets"),
        ("a/b", "m", "jobsets"),
        ("a/b", "n", "workloads"),
    ):
        read_into(kept_in(tmp_path, context=context, namespace=namespace, plural=plural), many(2))
    assert len(list((tmp_path / "lists").iterdir())) == 4
