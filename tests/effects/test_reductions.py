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
from xsft.effects.cluster_items import each_item
from xsft.effects.reductions import READERS, Reductions, kept
from xsft.launchers.observed import jobset_of
from xsft.launchers.observed_queue import Owned, owned
from xsft.states.model import JobSet

Reduce = Callable[[Any], Any]
KINDS: dict[type, Reduce] = {JobSet: jobset_of, Owned: owned}


def listed(objects: list[Any]) -> bytes:
    """As the API server writes them: each begins like the others."""
    rows = [{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", **one} for one in objects]
    return json.dumps({"items": rows}, separators=(",", ":")).encode()


def read(path: Path, kind: type, content: bytes, *, reduce: Reduce | None = None) -> tuple[Any, ...]:
    before = Reductions[Any](path, lambda: kind)
    found = each_item([content], reduce=reduce or KINDS[kind], before=before)
    before.save()
    return found


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
            content = listed(objects)
            plainly = each_item([content], reduce=KINDS[kind])
            assert repr(read(path, kind, content)) == repr(plainly)  # repr: NaN differs from itself, 1 not from True


def test_what_did_not_change_is_not_taken_apart_again(tmp_path: Path) -> None:
    content = listed(many())
    first = read(tmp_path / "a", JobSet, content)
    last = many()[-1]["metadata"]["name"]

    def only_the_last(json: Any) -> JobSet:
        """Of which it cannot be seen at a glance where it ends."""
        assert json["metadata"]["name"] == last
        return jobset_of(json)

    assert read(tmp_path / "a", JobSet, content, reduce=only_the_last) == first


def test_what_changed_is(tmp_path: Path) -> None:
    read(tmp_path / "a", JobSet, listed(many()))
    changed = many()
    changed[1]["spec"]["suspend"] = not changed[1]["spec"]["suspend"]
    found = read(tmp_path / "a", JobSet, listed(changed))
    assert [one.suspended for one in found] == [one["spec"]["suspend"] for one in changed]


def test_what_is_gone_is_dropped_with_the_next_change(tmp_path: Path) -> None:
    read(tmp_path / "a", JobSet, listed(many(50)))
    full = (tmp_path / "a").stat().st_size
    changed = many(3)
    changed[0]["spec"]["suspend"] = False
    read(tmp_path / "a", JobSet, listed(changed))
    assert (tmp_path / "a").stat().st_size < full / 5


def test_nothing_is_written_where_nothing_is_new(tmp_path: Path) -> None:
    read(tmp_path / "a", JobSet, listed(many()))
    written = (tmp_path / "a").stat().st_mtime_ns
    read(tmp_path / "a", JobSet, listed(many()))
    assert (tmp_path / "a").stat().st_mtime_ns == written


@pytest.mark.parametrize("spoil", ["half", "empty", "other words", "other kind", "no file", "a folder"])
def test_a_file_that_makes_no_sense_is_none(tmp_path: Path, spoil: str) -> None:
    path, content = tmp_path / "a", listed(many())
    first = read(path, JobSet, content)
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
            read(path, Owned, content)
        case "no file":
            path.unlink()
        case _:
            path.unlink()
            path.mkdir()
    assert read(path, JobSet, content) == first


def test_another_way_of_reading_takes_nothing_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = listed(many())
    read(tmp_path / "a", JobSet, content)
    monkeypatch.setattr(reductions, "_made_by", lambda: "another xsft")
    with pytest.raises(AssertionError, match="taken apart again"):
        read(tmp_path / "a", JobSet, content, reduce=refused)


def test_the_way_of_reading_changes_with_each_file_that_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "xsft"
    for name in ("effects/reductions.py", "launchers/observed.py", "catalog/tpu_types.toml", "naming.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("1", encoding="utf-8")
    for name in ("modes", "states"):
        (package / name).mkdir()
    monkeypatch.setattr(reductions, "__file__", str(package / "effects" / "reductions.py"))
    fresh = reductions._made_by.__wrapped__
    before = {fresh()}
    for name in ("launchers/observed.py", "catalog/tpu_types.toml", "naming.py"):
        (package / name).write_text("22", encoding="utf-8")
        assert fresh() not in before, name
        before.add(fresh())
    (package / "effects" / "reductions.py").write_text("22", encoding="utf-8")
    assert fresh() in before


def test_nothing_else_of_xsft_decides_what_is_made() -> None:
    """All that the reducing modules load."""
    code = "import sys, xsft.launchers.observed, xsft.launchers.observed_queue; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ})
    loaded = {name.split(".")[1] for name in done.stdout.split() if name.startswith("xsft.")}
    assert loaded <= {Path(name).stem for name in READERS}, loaded


def test_a_number_or_a_word_that_cannot_be_kept_costs_nothing(tmp_path: Path) -> None:
    """JSON has larger numbers than msgpack, and halves of characters."""
    odd = [{**one, "status": {"restarts": 10**30}} for one in many(2)]
    odd += [{"metadata": {"name": "\ud800"}} for _ in range(2)]
    content = json.dumps({"items": odd}, separators=(",", ":")).encode()
    assert read(tmp_path / "a", JobSet, content) == each_item([content], reduce=jobset_of)
    assert not (tmp_path / "a").exists()


def test_without_a_folder_nothing_is_kept() -> None:
    with kept(None, context="c", namespace="n", plural="jobsets", kind=lambda: JobSet) as before:
        assert before is None


def test_each_list_has_a_file_of_its_own(tmp_path: Path) -> None:
    for context, namespace, plural in (
        ("a/b", "n", "jobsets"),
        ("a:b", "n", "jobsets"),
        ("a/b", "m", "jobsets"),
        ("a/b", "n", "workloads"),
    ):
        with kept(tmp_path, context=context, namespace=namespace, plural=plural, kind=lambda: JobSet) as before:
            assert before is not None
            each_item([listed(many(2))], reduce=jobset_of, before=before)
    assert len(list((tmp_path / "lists").iterdir())) == 4


def test_a_list_that_breaks_off_changes_nothing(tmp_path: Path) -> None:
    how: dict[str, Any] = {"context": "c", "namespace": "n", "plural": "jobsets", "kind": lambda: JobSet}
    with pytest.raises(ValueError, match="no whole list"), kept(tmp_path, **how) as before:
        each_item([listed(many())[:-20]], reduce=jobset_of, before=before)
    assert not (tmp_path / "lists").exists()
