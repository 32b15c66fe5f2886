"""The format of a checkpoint, told from the contents of its small files."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.checkpoint import (
    array_shapes,
    flag,
    parameters,
    parse_json,
    recorded_scan,
    shapes,
    told_axis,
    told_scan,
)

PREFIX = ("params", "params", "decoder")


def metadata(arrays: dict[tuple[str, ...], tuple[int, ...] | None]) -> dict[str, object]:
    return {
        "tree_metadata": {
            repr(key): {
                "key_metadata": [{"key": part, "key_type": 2} for part in key],
                "value_metadata": {"value_type": "jax.Array", **({"write_shape": list(shape)} if shape else {})},
            }
            for key, shape in arrays.items()
        }
    }


def stacked(axis: int, *, layers: int, pieces: int = 1) -> dict[tuple[str, ...], tuple[int, ...]]:
    """A small decoder as MaxText stacks it; `pieces` is how many ways the width is sharded."""

    def shape(*sizes: int) -> tuple[int, ...]:
        return (*sizes[:axis], layers, *sizes[axis:])

    width = 64 // pieces
    return {
        (*PREFIX, "decoder_norm", "scale"): (width,),
        (*PREFIX, "layers", "mlp", "wi_0", "kernel"): shape(width, 128),
        (*PREFIX, "layers", "mlp", "wo", "kernel"): shape(128, width),
        (*PREFIX, "layers", "pre_self_attention_layer_norm", "scale"): shape(width),
    }


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_json_object_is_none(content: bytes) -> None:
    assert parse_json(content) is None


def test_a_flag_is_a_boolean_or_unknown() -> None:
    assert flag({"use_ocdbt": False}, "use_ocdbt") is False
    assert flag({"use_ocdbt": "yes"}, "use_ocdbt") is None
    assert flag({}, "use_ocdbt") is None


def test_scan_layers_is_recorded_by_a_conversion_only() -> None:
    assert recorded_scan({"custom_metadata": {"scan_layers": False}}) is False
    assert recorded_scan({"custom_metadata": {}}) is None
    assert recorded_scan({"custom_metadata": None}) is None
    assert recorded_scan({}) is None


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        (("layers", "mlp", "wo", "kernel"), True),
        (("moe_layers", "gate", "kernel", "value"), True),
        (("scanned_blocks", "layers_0", "mlp", "wo", "kernel"), True),
        (("layers_17", "mlp", "wo", "kernel"), False),
        (("dense_layers_0", "mlp", "wo", "kernel"), False),
        (("layers", "3", "mlp", "wo", "kernel"), None),
        (("decoder_norm", "scale"), None),
    ],
)
def test_stacked_layers_are_told_by_their_names(inside: tuple[str, ...], expected: bool | None) -> None:
    assert told_scan([(*PREFIX, *inside)]) is expected


def test_layers_of_a_vision_encoder_tell_nothing() -> None:
    assert told_scan([("params", "vision_encoder", "layers_0", "kernel")]) is None


@given(axis=st.sampled_from([0, 1]), layers=st.integers(1, 80), pieces=st.sampled_from([1, 2, 16]))
def test_the_axis_of_the_layers_is_told_from_the_shapes(axis: int, layers: int, pieces: int) -> None:
    document = metadata(dict(stacked(axis, layers=layers, pieces=pieces)))
    assert told_axis(shapes(document)) == axis


def test_the_axis_is_not_guessed() -> None:
    one = {(*PREFIX, "layers", "norm", "scale"): (64, 28)}
    assert told_axis(one) is None
    other = {(*PREFIX, "moe_layers", "a", "kernel"): (64, 3), (*PREFIX, "moe_layers", "b"): (7, 3)}
    mixed = {**stacked(0, layers=28), **other}
    assert told_axis(mixed) is None


def test_shapes_of_an_older_orbax_come_from_the_arrays_own_file() -> None:
    arrays = stacked(1, layers=28)
    assert shapes(metadata(dict.fromkeys(arrays))) == {}
    listed = [{"array_metadata": {"param_name": ".".join(k), "write_shape": list(s)}} for k, s in arrays.items()]
    assert told_axis(array_shapes({"array_metadatas": listed})) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
NAMES = ("tree_metadata", "array_metadatas", "custom_metadata", "key_metadata", "value_metadata", "write_shape")


@given(st.dictionaries(st.sampled_from(NAMES), JSON))
def test_no_document_raises(document: dict[str, object]) -> None:
    nested = {**document, "tree_metadata": {"a": document}, "array_metadatas": [{"array_metadata": document}, document]}
    for given_document in (document, nested):
        assert parse_json(json.dumps(given_document).encode()) == given_document
        told = told_scan(parameters(given_document)), told_axis(shapes(given_document))
        assert told == (None, None)
        assert all(isinstance(shape, tuple) for shape in array_shapes(given_document).values())
        assert recorded_scan(given_document) in (None, True, False)
