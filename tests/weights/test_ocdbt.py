"""The index of OCDBT stores written by Orbax and tensorstore (tests/fixtures/checkpoints/README.md)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checkpoints import unpacked
from xsft.weights.ocdbt import Location, UnreadableOcdbt, node, root


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked("stores", tmp_path_factory.mktemp("stores"))


def manifest_of(store: Path) -> bytes:
    return (store / "manifest.ocdbt").read_bytes()


def content_of(store: Path, at: Location) -> bytes:
    return (store / at.file).read_bytes()[at.offset : at.offset + at.length]


@pytest.mark.parametrize(
    ("store", "file", "arrays"),
    [
        ("qwen3-converted/0/items", "/zarr.json", 14),
        ("qwen3-trained/checkpoints/2/model_params", "/.zarray", 25),
        ("qwen3-lora/checkpoints/2/model_params", "/.zarray", 14),
    ],
)
def test_root_node_holds_the_metadata_file_of_every_array(stores: Path, store: str, file: str, arrays: int) -> None:
    at = root(manifest_of(stores / store))
    assert at is not None
    found = node(content_of(stores / store, at), at)
    own = {name: json.loads(value) for name, value in found.values.items() if name.endswith(file)}
    assert (len(own), found.children) == (arrays, ())
    assert all("shape" in document for document in own.values())


def test_inner_nodes_lead_to_every_key(stores: Path) -> None:
    store = stores / "deep"
    waiting, keys = [root(manifest_of(store))], set()
    for at in waiting:
        assert at is not None
        found = node(content_of(store, at), at)
        keys |= set(found.values)
        waiting += found.children
    arrays = [f"params.params.decoder.layers_{i}.mlp.wo.kernel" for i in range(60)]
    assert keys == {f"{name}/{file}" for name in arrays for file in (".zarray", "0.0")}


def test_truncated_and_foreign_files_are_reported(stores: Path) -> None:
    manifest = manifest_of(stores / "deep")
    for wrong in (b"", manifest[:20], manifest[:-1], b"\0" * 40, manifest[:12] + b"\1" + manifest[13:]):
        with pytest.raises(UnreadableOcdbt):
            root(wrong)
    at = root(manifest)
    assert at is not None
    with pytest.raises(UnreadableOcdbt, match="another magic number"):
        node(manifest, at)


@given(data=st.data())
def test_changed_bytes_decode_or_raise_undecodable(stores: Path, data: st.DataObject) -> None:
    """Whatever is changed in a manifest and a node."""
    store = stores / "deep"
    at = root(manifest_of(store))
    assert at is not None
    for content, decode in ((manifest_of(store), root), (content_of(store, at), lambda changed: node(changed, at))):
        place = data.draw(st.integers(0, len(content) - 1))
        changed = content[:place] + data.draw(st.binary(max_size=4)) + content[place + data.draw(st.integers(0, 4)) :]
        try:
            decode(changed)
        except UnreadableOcdbt:
            continue


@given(st.binary(max_size=200))
def test_any_uncompressed_body_decodes_or_raises_undecodable(body: bytes) -> None:
    """Uncompressed, so that every byte is read as a number."""
    for magic, decode in ((b"\x0c\xdb\x3a\x2a", root), (b"\x0c\xdb\x20\xde", lambda b: node(b, ANYWHERE))):
        content = magic + (len(body) + 18).to_bytes(8, "little") + b"\0\0" + body + b"\0" * 4
        try:
            decode(content)
        except UnreadableOcdbt:
            continue


ANYWHERE = Location(file="d/x", offset=0, length=0)
