"""Requests of a manifest, counted as the scheduler and Kueue count them."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.test_cluster import planned
from tests.stories import intent_of, spec_of, varied
from xsft.checks.demand import Demand, SecretNeed, decimal_text, demand_of, pod_requests, quantity


def demand(name: str = "deepseek_ultrachat", **changes: object) -> Demand:
    return demand_of(planned(name), intent_of(varied(spec_of(name), changes)).run)


def test_demand_of_pathways_has_a_head_and_workers() -> None:
    head, workers = demand().pod_sets
    assert (head.name, head.pods, workers.name, workers.pods) == ("pathways-head", 1, "worker", 128)
    assert workers.requests == {"google.com/tpu": 512}
    assert head.requests == {"cpu": 48, "memory": Decimal("232e9")}  # study: infra §2.3
    assert demand().priority_classes == ("medium",)
    assert (demand().queue, demand().namespace, demand().jobset) == (
        "multislice-queue",
        "default",
        "deepseek-ultrachat",
    )


def test_demand_of_mcjax_is_one_pod_set() -> None:
    (slices,) = demand("deepseek_ultrachat_mcjax").pod_sets
    assert (slices.name, slices.pods, slices.requests) == ("slice-job", 128, {"google.com/tpu": 512})


def test_demand_lists_secrets_with_their_keys() -> None:
    pods_needed = demand(**{"secrets.hf_token": {"secret": "hf", "key": "k"}, "image.pull_secret": "registry"})
    assert pods_needed.secrets == (
        SecretNeed(name="hf", key="k", where="secrets.hf_token"),
        SecretNeed(name="registry", key=None, where="image.pull_secret"),
    )


def test_pod_requests_take_the_larger_init_container_and_prefer_requests() -> None:
    pod = {
        "initContainers": [{"resources": {"requests": {"cpu": "3"}}}],
        "containers": [{"resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "500m"}}}],
    }
    assert pod_requests(pod) == {"cpu": 3, "memory": 2**30}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500m", "0.5"),
        ("2000G", "2e12"),
        ("64", "64"),
        (4, "4"),
        ("1Gi", "1073741824"),
        ("1e3", "1000"),
        ("2E", "2e18"),
    ],
)
def test_quantity_parses_kubernetes_units(text: object, value: str) -> None:
    assert quantity(text) == Decimal(value)


@pytest.mark.parametrize("text", ["", "lots", "1X", "G", "1 G"])
def test_quantity_refuses_invalid_text(text: str) -> None:
    with pytest.raises(ValueError, match="is not a Kubernetes quantity"):
        quantity(text)


@given(st.integers(0, 10**9), st.sampled_from(["", "k", "M", "Gi", "m"]))
def test_quantities_grow_with_their_number(number: int, unit: str) -> None:
    assert quantity(f"{number}{unit}") < quantity(f"{number + 1}{unit}")
    assert quantity(decimal_text(quantity(f"{number}{unit}"))) == quantity(f"{number}{unit}")
