"""A list of which most is known: the same as the whole list, for less."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.clusters import ClusterApi, standing_in
from tests.faults.fault import Seen
from tests.faults.world import deny
from xsft.effects import cluster_changes
from xsft.effects.cluster_changes import listed
from xsft.effects.cluster_reads import VERSIONS
from xsft.effects.cluster_resources import JOBSETS, kueue
from xsft.errors import Unreachable

Made = tuple[str, dict[str, str]]
LIST, GET = r"GET \S*/jobsets\?", r"GET \S*/jobsets/"


class Remembered(dict[str, Made | None]):
    """As `Reductions`, without a file."""

    def get(self, version: str) -> tuple[Made | None] | None:  # type: ignore[override]
        return (self[version],) if version in self else None

    def add(self, version: str, made: Made | None) -> None:
        self[version] = made


def reduced(jobset: Any) -> Made | None:
    """None for some, as for JobSets that do not train."""
    name, labels = jobset["metadata"]["name"], jobset["metadata"].get("labels") or {}
    return None if name.startswith("none") else (name, {key: value for key, value in labels.items() if key == "mark"})


class Looks:
    """One look after the other."""

    def __init__(self, api: ClusterApi) -> None:
        self.api = api
        self.known = Remembered()
        self.asked: list[Seen] = []

    def plainly(self) -> tuple[Made | None, ...]:
        return self._api.reduced(JOBSETS, reduced, namespace=self.api.namespace)

    def look(self, reduce: Callable[[Any], Made | None] = reduced) -> tuple[Made | None, ...]:
        before = len(self.api.server.seen)
        found = listed(self._api, JOBSETS, reduce, namespace=self.api.namespace, known=self.known)
        self.asked = self.api.server.seen[before:]
        return found

    @property
    def _api(self) -> Any:
        return self.api.connect().reads.api

    def rest(self) -> Looks:
        """Until nothing changes: a real server has controllers."""
        until = time.monotonic() + 30.0
        self.look()
        while self.look() and self.kinds != {"versions"}:
            assert time.monotonic() < until
            time.sleep(0.2)
        return self

    @property
    def kinds(self) -> set[str]:
        return set(self.each)

    @property
    def each(self) -> list[str]:
        return [
            "get" if not one.path.endswith("/jobsets") else "versions" if _sparse(one) else "list" for one in self.asked
        ]


def _sparse(one: Seen) -> bool:
    return "PartialObjectMetadataList" in {key.lower(): value for key, value in one.headers.items()}["accept"]


@pytest.fixture
def looks(cluster_api: ClusterApi) -> Looks:
    for name in ("none", "one", "two"):
        cluster_api.world.add_jobset(name, labels={"mark": "first"})
    return Looks(cluster_api).rest()


def refused(_: Any) -> Any:
    raise AssertionError("taken apart again")


def test_who_knows_nothing_reads_the_list(looks: Looks) -> None:
    looks.known = Remembered()
    assert looks.look() == (None, ("one", {"mark": "first"}), ("two", {"mark": "first"}))
    assert looks.each == ["list"]


def test_what_did_not_change_is_not_sent_again(looks: Looks) -> None:
    assert looks.look(refused) == looks.plainly()
    assert looks.each == ["versions"]


def test_what_changed_came_and_went_is(looks: Looks) -> None:
    looks.api.world.relabel("one", {"mark": "second"})
    looks.api.world.delete("two")
    looks.api.world.add_jobset("zoe", labels={"mark": "third"})
    assert looks.look() == (None, ("one", {"mark": "second"}), ("zoe", {"mark": "third"})) == looks.plainly()
    assert looks.kinds == {"get", "versions"}
    assert looks.rest().look(refused) == looks.plainly()


def test_another_object_of_the_same_name_is_another(looks: Looks) -> None:
    looks.api.world.delete("two")
    looks.api.world.add_jobset("two", labels={"mark": "another"})
    assert looks.look() == looks.plainly() == (None, ("one", {"mark": "first"}), ("two", {"mark": "another"}))


def test_where_much_changed_the_list_is_read(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        looks.api.world.relabel(name, {"mark": "second"})
    monkeypatch.setattr(cluster_changes, "AT_MOST", 1)
    assert looks.look() == looks.plainly()
    assert looks.kinds == {"list", "versions"}
    assert looks.rest().look(refused) == looks.plainly()


def test_who_may_list_and_not_get_reads_the_list(looks: Looks) -> None:
    looks.api.world.relabel("one", {"mark": "second"})
    deny(looks.api.world, ("get", "jobsets"))
    assert looks.look() == looks.plainly()
    assert looks.kinds == {"get", "list", "versions"}


def test_where_one_may_not_be_got_the_others_are_not_tried(looks: Looks) -> None:
    """The list is asked instead, once, and as patiently as ever."""
    for number in range(12):
        looks.api.world.add_jobset(f"more-{number:02}", labels={"mark": "first"})
    looks.api.server.fail(GET, code=503, times=99)
    assert looks.look() == looks.plainly()
    assert 1 <= looks.each.count("get") <= cluster_changes.THREADS
    assert looks.each.count("list") == 1


def test_of_a_file_that_knows_nothing_that_is_there_nothing_is_got(
    looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another cluster's, under the same name of a context."""
    monkeypatch.setattr(cluster_changes, "AT_LEAST", 2)
    looks.known = Remembered({"v1alpha2/other/1": ("other", {})})
    assert looks.look() == looks.plainly()
    assert looks.each == ["versions", "list"]


def test_an_object_without_a_version_is_read_with_the_list(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    """As some gateway might send it; no API server does."""
    bare = cluster_changes._read([b'{"items":[{"metadata":{"name":"one"}}]}'])
    monkeypatch.setattr(cluster_changes, "_read", lambda _: bare)
    assert looks.look() == looks.plainly()


def test_a_selection_is_read_as_it_is(looks: Looks) -> None:
    """What is known is of a whole namespace."""
    known: Any = Remembered({"v1alpha2/other/1": None})
    looks.api.connect().reads.jobsets(namespace=looks.api.namespace, selector="mark=second", known=known)
    asked = looks.api.server.asked(r"/jobsets\?")[-1]
    assert asked.query["labelSelector"] == "mark=second"
    assert not _sparse(asked)


def test_what_goes_between_two_questions_is_gone(looks: Looks) -> None:
    looks.api.world.relabel("one", {"mark": "second"})
    looks.api.server.fail(GET, code=0, do=lambda: looks.api.world.delete("one"))
    assert looks.look() == (None, ("two", {"mark": "first"}))
    assert looks.kinds == {"get", "versions"}


def test_what_changes_between_two_questions_is_newer(looks: Looks) -> None:
    looks.api.world.relabel("one", {"mark": "second"})
    looks.api.server.fail(GET, code=0, do=lambda: looks.api.world.relabel("one", {"mark": "third"}))
    assert looks.look() == (None, ("one", {"mark": "third"}), ("two", {"mark": "first"}))
    assert looks.rest().look(refused) == looks.plainly()


@pytest.mark.parametrize("on", [LIST, GET])
@pytest.mark.parametrize("fault", ["cut-before", "reset-after", "short", "broken-json", "broken-gzip", "500", "429"])
def test_an_answer_that_is_cut_off_is_asked_again(looks: Looks, on: str, fault: Any) -> None:
    looks.api.world.relabel("one", {"mark": "second"})
    looks.api.server.fail(on, **({"code": int(fault)} if fault.isdigit() else {"action": fault}))
    assert looks.look() == looks.plainly()
    assert looks.api.server.faults[0].times == 0


def test_a_cluster_that_answers_no_more_is_unreachable(looks: Looks) -> None:
    looks.api.world.relabel("one", {"mark": "second"})
    looks.api.server.fail(GET, action="cut-before", times=99)
    looks.api.server.fail(LIST, action="cut-before", times=99, skip=1)
    with pytest.raises(Unreachable):
        looks.look()
    assert looks.known


def test_a_server_that_sends_whole_objects_is_understood(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_changes, "VERSIONS_ONLY", "application/json")
    assert looks.look(refused) == looks.plainly()


def test_an_object_in_another_version_of_its_group_is_another() -> None:
    """Kueue serves two, and converts what is stored."""
    metadata = cluster_changes._Metadata("n", "u", "5")
    versions = {cluster_changes._version(kueue("workloads", version=one), metadata) for one in VERSIONS}
    assert len(versions) == len(VERSIONS) > 1


CHANGES = st.lists(
    st.tuples(st.sampled_from(["add", "relabel", "delete", "look"]), st.sampled_from("abcdef"), st.sampled_from("xyz")),
    max_size=25,
)


@settings(max_examples=40, deadline=None)
@given(changes=CHANGES, at_most=st.integers(0, 3))
def test_whatever_happens_it_is_the_whole_list(changes: list[tuple[str, str, str]], at_most: int) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        standing_in(Path(folder)) as api,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(cluster_changes, "AT_MOST", at_most)
        looks = Looks(api)
        for what, name, mark in (*changes, ("look", "", "")):
            there = name in api.world.jobsets()
            if what == "add" and not there:
                api.world.add_jobset(name, labels={"mark": mark})
            elif what == "relabel" and there:
                api.world.relabel(name, {"mark": mark})
            elif what == "delete" and there:
                api.world.delete(name)
            elif what == "look":
                assert looks.look() == looks.plainly()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"items": 3}', '{"items": [{}]}', '{"items": [{"metadata": 1}]}'])
def test_what_is_no_list_is_none(content: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        cluster_changes._read([content.encode()])


def test_an_empty_list_is_one() -> None:
    assert cluster_changes._read([b'{"items":null}']) == cluster_changes._read([b'{"ite', b'ms":[]}']) == ()


@pytest.mark.parametrize("odd", [{}, {"metadata": None}, {"metadata": {"uid": "u", "name": "n"}}, "x", None])
def test_what_has_no_version_is_not_kept(odd: Any) -> None:
    known = Remembered()
    assert cluster_changes._noted(odd, JOBSETS, json.dumps, known=known) == json.dumps(odd)  # type: ignore[arg-type]
    assert not known
