"""The clusters and namespaces in which runs are searched."""

from __future__ import annotations

from typing import Any

import pytest

from xsft.base.errors import UsageError
from xsft.cluster.sources import DEFAULT_NAMESPACE, PlaceQuery, sources
from xsft.records.index import IndexEntry
from xsft.records.record import ClusterAddress as Where
from xsft.spec.place import Place

MAIN = Place(project="team-project", zone="us-east5-b", cluster="team-cluster")
LAB = Place(context="lab", namespace="training")
PLACES = {"main": MAIN, "lab": LAB, "no-cluster": Place()}


def entry(name: str = "gemma", **changed: Any) -> IndexEntry:
    return IndexEntry(**{"run_name": name, "target": "xpk", "output": "gs://b/runs", **changed})


def found(place_query: PlaceQuery, *entries: IndexEntry) -> set[tuple[str, str]]:
    looked = sources(place_query, places=PLACES, file="places.yaml", entries=entries)
    assert len(looked) == len({(kube_object.name, kube_object.namespace) for kube_object in looked})
    return {(kube_object.name, kube_object.namespace) for kube_object in looked}


def test_all_places_and_submitted_clusters_are_searched_by_default() -> None:
    same = entry(cluster=Where(project="team-project", zone="us-east5-b", cluster="team-cluster"), namespace="default")
    other = entry(cluster=Where(context="lab"), namespace="elsewhere")
    assert found(PlaceQuery(), same, other, entry(target="local")) == {
        ("team-project/us-east5-b/team-cluster", "default"),
        ("lab", "training"),
        ("lab", "elsewhere"),
    }


def test_only_the_named_place_or_context_is_searched() -> None:
    assert found(PlaceQuery(place="lab"), entry(cluster=Where(context="elsewhere"))) == {("lab", "training")}
    assert found(PlaceQuery(place="lab", namespace="mine")) == {("lab", "mine")}
    assert found(PlaceQuery(context="other")) == {("other", "default")}


def test_an_unknown_place_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"Place nosuch was not found\. Known: lab, main, no-cluster \(places.yaml\)"):
        found(PlaceQuery(place="nosuch"))


def test_places_and_sources_have_the_same_default_namespace() -> None:
    assert Place().namespace == DEFAULT_NAMESPACE
