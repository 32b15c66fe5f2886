from __future__ import annotations

from tests.fakes.gcloud import BUCKETS, CLUSTERS, REPOSITORIES, node_pool
from xsft.catalog.tpu import slice_on
from xsft.world.discovery import buckets_of, clusters_of, project_of, registries_of


def test_slices_are_counted_by_type_from_node_pools() -> None:
    (cluster,) = clusters_of(CLUSTERS)
    assert (cluster.name, cluster.location, cluster.status) == ("trainers", "us-east5", "RUNNING")
    assert cluster.slices == {"v6e-256": 2, "v6e-4": 3}


def test_a_pool_without_a_topology_has_slices_of_one_host() -> None:
    (cluster,) = clusters_of([{"name": "a", "nodePools": [node_pool("p", "ct6e-standard-4t", nodes=2)]}])
    assert cluster.slices == {"v6e-4": 2}


def test_only_docker_repositories_are_registries() -> None:
    assert registries_of(REPOSITORIES) == ("us-docker.pkg.dev/my-project/xsft",)
    assert buckets_of(BUCKETS) == ("gs://my-runs",)


def test_unexpected_json_of_gcloud_gives_no_rows() -> None:
    assert clusters_of([{}])[0].slices == {}
    assert (registries_of([{"name": 3}]), buckets_of([{}]), project_of([]), project_of({})) == ((), (), None, None)


def test_a_machine_without_tpus_has_no_slice() -> None:
    assert slice_on("e2-standard-16", None) is None
    assert slice_on("ct6e-standard-4t", "7x9") is None
