"""Comparison of the arrays of a checkpoint with those of a model."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from xsft.spec.facts import SavedArray
from xsft.weights.checkpoint_report import in_collections, may_be, weights

SMALL = st.integers(1, 6)


def written(part: tuple[int, ...], copies: int) -> tuple[int, ...]:
    """source: orbax-checkpoint@0.12.8 _src/serialization/replica_slices.py: the first axis that divides is shared."""
    axis = next((i for i, size in enumerate(part) if size % copies == 0), None)
    return part if axis is None else (*part[:axis], part[axis] // copies, *part[axis + 1 :])


@given(st.lists(st.tuples(SMALL, SMALL), min_size=1, max_size=4), st.sampled_from([1, 2, 4, 16]))
def test_array_matches_its_shape_for_any_sharding(axes: list[tuple[int, int]], copies: int) -> None:
    part, ways = tuple(size for size, _ in axes), tuple(cut for _, cut in axes)
    shape = tuple(size * cut for size, cut in axes)
    cut = SavedArray(path=("a",), piece=written(part, copies), ways=ways, copies=copies)
    assert may_be(cut, shape)
    assert may_be(SavedArray(path=("a",), piece=shape, ways=ways), shape)  # Pathways writes the whole
    assert may_be(SavedArray(path=("a",), piece=cut.piece), shape)  # no sharding was read
    assert not may_be(cut, (*shape, 1))
    assert math.prod(shape) == 1 or not may_be(cut, tuple(3 * size * copies for size in shape))


def test_array_sharded_by_a_real_conversion_matches_its_shape() -> None:
    """Four heads on 16 devices: neither axis 0 nor 1 was cut, and each device wrote a sixteenth of axis 2."""
    out = SavedArray(path=("a",), piece=(4, 28, 1, 64), ways=(1, 1, 1, 1), copies=16)
    assert may_be(out, (4, 28, 16, 64))
    assert not may_be(out, (8, 28, 16, 64))
    assert not may_be(out, (4, 28, 48, 64))


def test_weights_have_the_same_names_for_every_tree_layout() -> None:
    name = ("decoder", "layers", "mlp", "wo", "kernel")
    paths = (("params", "params", *name), (*name, "value"), ("base", *name, "value"), ("params", "MoEBiasVar", *name))
    for path in paths:
        assert list(weights([SavedArray(path=path)])) == ["decoder.layers.mlp.wo.kernel"]
    assert weights([SavedArray(path=("opt_state", "1", "mu", *name)), SavedArray(path=("step",))]) == {}


def test_weights_beside_params_are_reported_in_converted_trees_only() -> None:
    bias = ("decoder", "moe_layers", "DeepSeekMoeBlock_0", "MoeBlock_0", "gate", "bias")
    others = [SavedArray(path=("params", "params", "decoder", "decoder_norm", "scale")), SavedArray(path=("params",))]
    beside = SavedArray(path=("params", "MoEBiasVar", *bias))
    assert in_collections([*others, beside]) == (".".join(beside.path),)
    assert in_collections([*others, SavedArray(path=("params", "params", *bias))]) == ()
    assert in_collections([*others, SavedArray(path=("params", "intermediates", "x"))]) == ()
    assert in_collections([SavedArray(path=("base", *bias, "value"))]) == ()
