"""The format of a checkpoint, derived from its small files."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.spec.facts import SavedArray
from xsft.weights.checkpoint_files import (
    array_shapes,
    flag,
    infer_scan_axis,
    infer_scan_layers,
    own_metadata,
    parameters,
    parse_json,
    recorded_scan,
    saved_arrays,
    shardings,
    whole_shape,
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
def test_parse_json_returns_none_for_anything_but_an_object(content: bytes) -> None:
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
def test_stacked_layers_are_derived_from_their_names(inside: tuple[str, ...], expected: bool | None) -> None:
    assert infer_scan_layers([(*PREFIX, *inside)]) is expected


def test_layers_of_a_vision_encoder_do_not_show_scan_layers() -> None:
    assert infer_scan_layers([("params", "vision_encoder", "layers_0", "kernel")]) is None


def arrays(shapes_: dict[tuple[str, ...], tuple[int, ...]]) -> tuple[SavedArray, ...]:
    return saved_arrays(metadata(dict(shapes_)), sharding={}, array_metadata={})


@given(axis=st.sampled_from([0, 1]), layers=st.integers(1, 80), pieces=st.sampled_from([1, 2, 16]))
def test_scan_axis_is_derived_from_the_shapes(axis: int, layers: int, pieces: int) -> None:
    assert infer_scan_axis(arrays(stacked(axis, layers=layers, pieces=pieces))) == axis


def test_scan_axis_is_unknown_if_shapes_are_ambiguous() -> None:
    ambiguous = {(*PREFIX, "layers", "norm", "scale"): (64, 28)}
    assert infer_scan_axis(arrays(ambiguous)) is None
    other = {(*PREFIX, "moe_layers", "a", "kernel"): (64, 3), (*PREFIX, "moe_layers", "b"): (7, 3)}
    mixed = {**stacked(0, layers=28), **other}
    assert infer_scan_axis(arrays(mixed)) is None


def test_scan_axis_ignores_router_bias_and_random_state() -> None:
    """The bias is stacked in front whatever the axis is, and so are the keys that a trainer saves."""
    shapes_ = stacked(1, layers=28)
    shapes_[*PREFIX, "layers", "MoeBlock_0", "gate", "bias"] = (28, 16)
    shapes_[*PREFIX, "layers", "self_attention", "rngs", "dropout", "key", "value"] = (28, 2)
    assert infer_scan_axis(arrays(shapes_)) == 1


def test_scan_axis_is_derived_from_sharded_layers() -> None:
    """`to_maxtext` cuts axis 0 into 16, or else axis 1, which may be the axis of the layers."""
    cut = (
        SavedArray(path=(*PREFIX, "layers", "wi", "kernel"), piece=(4, 32, 128), ways=(16, 1, 1)),
        SavedArray(path=(*PREFIX, "layers", "out", "kernel"), piece=(12, 2, 16), ways=(1, 16, 1)),
    )
    assert infer_scan_axis(cut) == 1


def test_shapes_of_an_older_orbax_come_from_the_array_metadata() -> None:
    shapes = stacked(1, layers=28)
    bare = metadata(dict.fromkeys(shapes))
    assert all(array.piece is None for array in saved_arrays(bare, sharding={}, array_metadata={}))
    listed = [{"array_metadata": {"param_name": ".".join(k), "write_shape": list(s)}} for k, s in shapes.items()]
    arrays_read = saved_arrays(bare, sharding={}, array_metadata={"array_metadatas": listed})
    assert {array.path: array.piece for array in arrays_read} == shapes
    assert infer_scan_axis(arrays_read) == 1


def named_sharding(**fields: object) -> str:
    mesh = {"shape": [2, 4, 2], "axis_names": ["data", "fsdp", "expert"]}
    return json.dumps({"sharding_type": "NamedSharding", **mesh, **fields})


@pytest.mark.parametrize(
    ("spec", "ways", "copies"),
    [
        (["fsdp"], (4, 1, 1), 4),
        ([None, ["data", "fsdp"], "expert"], (1, 8, 2), 1),
        ([], (1, 1, 1), 16),
        (["fsdp", None, None, None], (4, 1, 1), 4),
    ],
)
def test_whole_shape_is_the_piece_times_the_mesh_axes(spec: list[object], ways: tuple[int, ...], copies: int) -> None:
    key = ("a", "b-c")
    said = {base64.urlsafe_b64encode(b"a.b-c").decode(): named_sharding(partition_spec=spec)}
    (saved_array,) = saved_arrays(metadata({key: (3, 5, 7)}), sharding=said, array_metadata={})
    assert (saved_array.ways, saved_array.copies) == (ways, copies)
    assert whole_shape(saved_array) == tuple(size * cut for size, cut in zip((3, 5, 7), ways, strict=True))


def test_whole_shape_is_unknown_for_an_unknown_sharding() -> None:
    name = base64.urlsafe_b64encode(b"a.b").decode()
    unknown = ("?", 7, "[]", json.dumps({"sharding_type": "New"}), named_sharding(partition_spec=["elsewhere"]))
    for text in unknown:
        (saved_array,) = saved_arrays(metadata({("a", "b"): (3, 5)}), sharding={name: text}, array_metadata={})
        assert (saved_array.ways, whole_shape(saved_array)) == (None, None)
    assert shardings({"no base64": named_sharding(partition_spec=[])}) == {}
    single = {name: json.dumps({"sharding_type": "SingleDeviceSharding", "device_str": "cpu:0"})}
    (saved_array,) = saved_arrays(metadata({("a", "b"): (3, 5)}), sharding=single, array_metadata={})
    assert whole_shape(saved_array) == (3, 5)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
NAMES = ("tree_metadata", "array_metadatas", "custom_metadata", "key_metadata", "value_metadata", "write_shape")


@given(st.dictionaries(st.sampled_from(NAMES), JSON))
def test_metadata_readers_accept_any_document(document: dict[str, object]) -> None:
    nested = {**document, "tree_metadata": {"a": document}, "array_metadatas": [{"array_metadata": document}, document]}
    for given_document in (document, nested):
        assert parse_json(json.dumps(given_document).encode()) == given_document
        arrays_read = saved_arrays(given_document, sharding=given_document, array_metadata=given_document)
        assert (infer_scan_layers(array.path for array in arrays_read), infer_scan_axis(arrays_read)) == (None, None)
        assert all(isinstance(shape, tuple) for shape in array_shapes(given_document).values())
        assert recorded_scan(given_document) in (None, True, False)


@pytest.mark.parametrize(
    "value",
    [
        {"value_type": "jax.Array", "skip_deserialize": True},
        {"value_type": "None", "skip_deserialize": True},
        {"value_type": "string", "skip_deserialize": False},
        {"skip_deserialize": True},
        None,
    ],
)
def test_nodes_without_an_array_are_skipped(value: object) -> None:
    """An empty node of an optimizer's tree, e.g.: the store has nothing of its name, and the save is whole."""
    tree = {"a": {"key_metadata": [{"key": "a"}], "value_metadata": value}}
    assert saved_arrays({"tree_metadata": tree}, sharding={}, array_metadata={}) == ()


def test_parameters_are_counted_over_all_pieces() -> None:
    saved_array = SavedArray(path=("a",), piece=(64, 2), ways=(1, 1))
    cut = SavedArray(path=("b",), piece=(16, 2), ways=(4, 1))
    assert parameters([saved_array, cut]) == 256
    assert parameters([saved_array, SavedArray(path=("c",), piece=(16, 2), ways=(1, 1), copies=4)]) is None
    assert parameters([saved_array, SavedArray(path=("d",), piece=(16, 2))]) is None
    assert parameters([]) is None


@pytest.mark.parametrize("shape", [[-1, 2], [True, 2], [1.5, 2], [10**30, 2], [2] * 40, "2", None])
def test_invalid_shape_is_unknown(shape: object) -> None:
    entry = {"key_metadata": [{"key": "a"}], "value_metadata": {"write_shape": shape}}
    (array,) = saved_arrays({"tree_metadata": {"a": entry}}, sharding={}, array_metadata={})
    assert array.piece is None
    assert own_metadata(json.dumps({"shape": shape}).encode()).shape is None
