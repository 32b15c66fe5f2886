"""Where runs are looked for, and what is done to exactly one of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.observations import jobset, local, observed
from xsft.effects.objects import LocalObjects
from xsft.effects.recordindex import IndexEntry, keep
from xsft.effects.records import RecordStore
from xsft.effects.runs import DEFAULT_NAMESPACE, Asked, Runs, runs_for, sources
from xsft.errors import SpecError, UsageError
from xsft.records.model import Cluster as Where
from xsft.spec.place import Place

MAIN = Place(project="my-project", zone="us-east5-b", cluster="my-cluster")
LAB = Place(context="lab", namespace="training")
PLACES = {"main": MAIN, "lab": LAB, "no-cluster": Place()}


def entry(name: str = "gemma", **changed: Any) -> IndexEntry:
    return IndexEntry(**{"run_name": name, "target": "xpk", "output": "gs://b/runs", **changed})


def found(asked: Asked, *entries: IndexEntry) -> set[tuple[str, str]]:
    looked = sources(asked, places=PLACES, file="places.yaml", entries=entries)
    assert len(looked) == len({(one.name, one.namespace) for one in looked})
    return {(one.name, one.namespace) for one in looked}


def test_everywhere_is_all_places_and_where_runs_were_submitted_to() -> None:
    same = entry(cluster=Where(project="my-project", zone="us-east5-b", cluster="my-cluster"), namespace="default")
    other = entry(cluster=Where(context="lab"), namespace="elsewhere")
    assert found(Asked(), same, other, entry(target="local")) == {
        ("my-project/us-east5-b/my-cluster", "default"),
        ("lab", "training"),
        ("lab", "elsewhere"),
    }


def test_what_is_named_is_all_that_is_looked_at() -> None:
    assert found(Asked(place="lab"), entry(cluster=Where(context="elsewhere"))) == {("lab", "training")}
    assert found(Asked(place="lab", namespace="mine")) == {("lab", "mine")}
    assert found(Asked(context="other")) == {("other", "default")}


def test_a_place_that_is_not_there() -> None:
    with pytest.raises(UsageError, match=r"no place nosuch\. Known: lab, main, no-cluster \(places.yaml\)"):
        found(Asked(place="nosuch"))


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    store = RecordStore(state=tmp_path / "state", objects_at=lambda _: LocalObjects())
    return Runs(sources=(), store=store)


def test_without_clusters_and_runs_there_is_nothing_and_that_is_an_answer(runs: Runs) -> None:
    read = runs.read()
    assert (read.observations, read.problems, read.answered, read.whole) == ((), (), True, True)


def test_the_output_is_the_jobsets_or_the_one_that_the_index_has(runs: Runs, tmp_path: Path) -> None:
    gone = observed(jobset=None)
    assert runs.output_of(observed(jobset=jobset(output="gs://a"))) == "gs://a"
    assert runs.output_of(gone) is None
    keep(runs.store.state / "runs", entry())
    assert runs.output_of(gone) == "gs://b/runs"
    keep(runs.store.state / "runs", entry(output="gs://c/runs"))
    assert runs.output_of(gone) is None, "two of that name: which is not known"
    assert runs.output_of(observed(jobset=None, was=jobset(output="gs://d"))) == "gs://d"
    assert runs.output_of(local("tiny", output="/e")) == "/e"


def test_a_local_run_that_nobody_holds_or_of_which_there_are_two_is_not_interrupted(runs: Runs, tmp_path: Path) -> None:
    assert not runs.stop_local(local("tiny"))
    keep(runs.store.state / "runs", entry("tiny", target="local", output=str(tmp_path)))
    assert not runs.stop_local(local("tiny"))


def test_the_default_namespace_is_the_places() -> None:
    assert Place().namespace == DEFAULT_NAMESPACE


def test_a_context_needs_no_places_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named: what stands in places.yaml, or is wrong there, does not matter."""
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "places.yaml").write_text("main: {nonsense: 1}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XSFT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(SpecError):
        runs_for(Asked())
    with pytest.raises(UsageError, match="no context lab"):
        runs_for(Asked(context="lab"))


def test_what_takes_the_answers_apart_is_not_loaded_before_the_clusters_are_asked() -> None:
    program = (
        "import sys; import xsft.effects.runs\n"
        "print([name for name in sys.modules if name in ('xsft.states.model', 'xsft.launchers.observed', 'rich')])"
    )
    done = subprocess.run((sys.executable, "-c", program), capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
