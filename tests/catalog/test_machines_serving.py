"""Machines that serve: the models that fit, and agreement of their numbers with the TPU catalogue."""

from __future__ import annotations

import pytest

from tests.replacing import replace
from tests.servers import server
from xsft.catalog.machines import GIB, ServingShape, serving_shape_for, serving_shapes
from xsft.catalog.tpu import generations, parse_tpu_type
from xsft.launcher.server_manifest import server_resources

SHAPES = serving_shapes()


@pytest.mark.parametrize(
    ("question", "gib", "heads", "name"),
    [
        ("tpu", 4.9, 8, "v6e-1"),  # gemma2-2b
        ("tpu", 15, 32, "v6e-1"),  # llama3.1-8b
        ("tpu", 61, 64, "v6e-4"),  # qwen3-32b
        ("tpu", 131, 64, "v6e-8"),  # llama3.1-70b
        ("gpu", 4.9, 8, "l4-1"),
        ("gpu", 61, 64, "a100-80gb-2"),
        ("gpu", 131, 64, "a100-80gb-4"),
        ("gpu", 753, 64, "h200-141gb-8"),  # llama3.1-405b
        ("v6e-8", 4.9, 8, "v6e-8"),
        ("v6e-8", 4.9, 12, None),  # 8 chips do not divide 12 heads
        ("v6e-1", 61, 64, None),
        ("gpu", 1250, 128, None),  # deepseek3-671b
    ],
)
def test_serving_shape_is_the_smallest_that_holds_the_model(
    question: str, gib: float, heads: int, name: str | None
) -> None:
    serving_shape = serving_shape_for(question, weights=int(gib * GIB), heads=heads)
    assert (serving_shape and serving_shape.name) == name


@pytest.mark.parametrize("shape", [one for one in SHAPES if one.kind == "tpu"], ids=lambda one: one.name)
def test_serving_shapes_agree_with_the_tpu_catalogue(shape: ServingShape) -> None:
    tpu_type = parse_tpu_type(shape.name)
    assert (shape.accelerator, shape.topology) == (tpu_type.accelerator_label, tpu_type.topology)
    assert (shape.count, shape.memory_gib) == (tpu_type.chips, tpu_type.hbm_gib)
    assert shape.host_memory_gib == generations()[tpu_type.generation].host_memory_gib[shape.machine.rpartition("-")[2]]
    assert shape.machine.startswith(tpu_type.machine_type.rpartition("-")[0])


@pytest.mark.parametrize("shape", SHAPES, ids=lambda one: one.name)
def test_the_largest_model_of_a_machine_leaves_memory_and_processors_to_the_node(shape: ServingShape) -> None:
    largest = next(size for size in range(2000, 0, -1) if shape.holds(size * GIB))
    plan = server(type=shape.name)
    requests = server_resources(replace(plan.inputs, weights_bytes=largest * GIB))["requests"]
    assert int(requests["memory"].removesuffix("Gi")) <= 0.85 * shape.host_memory_gib
    assert 4 <= int(requests["cpu"]) <= shape.vcpus / 2
