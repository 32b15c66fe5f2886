"""Shipped workloads accept the checkpoint that MaxText's converter would write for them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.stories import NAMES, facts_for, spec_of
from xsft.catalog.arrays import ArrayLayout, required
from xsft.catalog.layers import ArrayShape
from xsft.checks.checkpoint import check_weights as check
from xsft.spec.facts import CheckpointFacts, SavedArray
from xsft.spec.resolve import resolve
from xsft.trainer.maxtext import trainer_keys

DEVICES = 16


def converted(name: str, shape: ArrayShape) -> SavedArray:
    """source: maxtext@0.2.5 checkpoint_conversion/utils/utils.py shard_jax_weights: axis 0 is cut, else axis 1, else
    none, and then Orbax lets each device write a share of the first axis that divides.
    """
    path = ("params", "params", *name.split("."))
    axis = next((i for i, size in enumerate(shape[:2]) if size % DEVICES == 0), None)
    if axis is not None:
        return SavedArray(path=path, piece=_cut(shape, axis), ways=_cut_ways(shape, axis))
    shared = next((i for i, size in enumerate(shape) if size % DEVICES == 0), None)
    piece = shape if shared is None else _cut(shape, shared)
    return SavedArray(path=path, piece=piece, ways=(1,) * len(shape), copies=DEVICES)


def _cut(shape: ArrayShape, axis: int) -> ArrayShape:
    return (*shape[:axis], shape[axis] // DEVICES, *shape[axis + 1 :])


def _cut_ways(shape: ArrayShape, axis: int) -> ArrayShape:
    return tuple(DEVICES if i == axis else 1 for i in range(len(shape)))


@pytest.mark.parametrize("story", NAMES)
def test_a_shipped_workload_accepts_its_own_conversion(story: str) -> None:
    spec = spec_of(story)
    facts = facts_for(spec)
    run, _ = resolve(spec, facts)
    keys = trainer_keys(run)
    layout = ArrayLayout(axis=int(str(keys.get("param_scan_axis", 1))))
    wanted = required(spec.model.name, keys, layout=layout, release=run.release.version)
    assert wanted is not None
    assert wanted.complete
    arrays = tuple(converted(name, shape) for name, shape in wanted.arrays.items())
    checkpoint_facts = CheckpointFacts(
        path="c", status="read", scan_layers=True, param_scan_axis=layout.axis, arrays=arrays
    )
    changed_facts = replace(facts, checkpoint=checkpoint_facts)
    assert list(check(replace(run, checkpoint="gs://b/0/items"), keys, changed_facts)) == []
