"""Missing settings of a cluster, reported together."""

from __future__ import annotations

import pytest

from tests.checks.factory import DROP, ids, problems, spec
from xsft.checks.facts import Facts
from xsft.checks.place import check_place as check
from xsft.spec.model import WorkloadSpec
from xsft.spec.place import Place

GKE = {"project": "my-project", "zone": "us-east5-b", "cluster": "my-cluster", "output": "gs://my-bucket/runs"}


def at(place: object, **changes: object) -> WorkloadSpec:
    return spec(**changes, place=DROP).model_copy(update={"place": Place.model_validate(place)})


def test_missing_place_tpu_and_output_are_reported_together():
    assert ids(check, spec(place=DROP, tpu=DROP)) == {"place-missing", "tpu-missing", "output-missing"}
    assert ids(check, spec(place=DROP, tpu=DROP, target="local")) == set()


@pytest.mark.parametrize("missing", ["project", "zone", "cluster"])
def test_place_needs_project_zone_and_cluster(missing: str):
    (problem,) = problems(check, at({k: v for k, v in GKE.items() if k != missing}))
    assert problem.id == "place-incomplete"
    assert missing in problem.message


def test_place_has_either_a_context_or_a_cluster():
    bucket = {"output": "gs://my-bucket/runs"}
    assert ids(check, at({"context": "kind", **bucket})) == set()
    assert ids(check, at(bucket)) == {"place-incomplete"}
    (problem,) = problems(check, at({"context": "kind", "project": "my-project", **bucket}))
    assert problem.id == "place-context-and-gke"
    assert ids(check, at({"context": "kind", **GKE})) == {"place-context-and-gke"}


def test_named_place_is_checked_like_an_inline_place():
    named = spec().model_copy(update={"place": "main"})
    incomplete = Place.model_validate({"project": "my-project", "output": "gs://my-bucket/runs"})
    assert ids(check, named, Facts(places={"main": incomplete})) == {"place-incomplete"}
    assert ids(check, named, Facts(places={"main": Place.model_validate(GKE)})) == set()


def test_queue_of_xpk_requires_the_default_namespace():
    elsewhere = {**GKE, "namespace": "team"}
    assert ids(check, at(elsewhere)) == {"queue-namespace"}
    assert ids(check, at({**elsewhere, "queue": "multislice-queue"})) == set()
    assert ids(check, at(elsewhere, queue="team-queue")) == set()
    assert ids(check, at(GKE, namespace="team")) == {"queue-namespace"}


def test_cluster_run_needs_an_output_bucket():
    without = {k: v for k, v in GKE.items() if k != "output"}
    assert ids(check, at(without)) == {"output-missing"}
    assert ids(check, at(without, output="gs://my-bucket/runs")) == set()
    assert ids(check, at(GKE, output="runs")) == {"output-local"}
    assert ids(check, at(GKE, output="runs", target="local")) == set()


@pytest.mark.parametrize(
    ("tpu", "expected"),
    [
        ({"capacity": "reservation", "reservation": "mine"}, set()),
        ({"capacity": "reservation"}, {"reservation-missing"}),
        ({"reservation": "mine"}, {"reservation-unused"}),
        ({"capacity": "spot", "reservation": "mine"}, {"reservation-unused"}),
        ({"capacity": "spot"}, set()),
    ],
)
def test_reservation_name_and_reservation_capacity_need_each_other(tpu: dict[str, str], expected: set[str]):
    assert ids(check, spec(tpu=tpu)) == expected
