"""Stores that Orbax and tensorstore wrote (tests/fixtures/checkpoints/README.md)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.checkpoints import unpacked
from xsft.weights.read_arrays import DamagedOcdbt, UnreadableOcdbt, small_values

NAMES = ("/.zarray", "/zarr.json")


@pytest.fixture
def stores(tmp_path: Path) -> Path:
    return unpacked("stores", tmp_path)


def values(store: Path, change: Callable[[bytes], bytes] = bytes, *, max_nodes: int = 64) -> dict[str, bytes]:
    """Return the values of a store; `change`: what a reader gets for its index."""

    def read(file: str, start: int, length: int) -> bytes | None:
        path = store / file
        return change(path.read_bytes())[start : start + length] if path.is_file() else None

    return small_values((store / "manifest.ocdbt").read_bytes(), NAMES, read=read, max_nodes=max_nodes)


@pytest.mark.parametrize(
    ("item", "count"), [("qwen3-converted/0/items", 14), ("qwen3-trained/checkpoints/2/model_params", 25), ("deep", 60)]
)
def test_the_index_has_the_metadata_of_each_array(stores: Path, item: str, count: int) -> None:
    found = values(stores / item)
    assert len(found) == count
    assert all(b"shape" in content for content in found.values())


def test_a_missing_or_changed_index_is_damaged(stores: Path) -> None:
    store = stores / "deep"
    with pytest.raises(DamagedOcdbt, match="CRC-32C"):
        values(store, lambda content: content[:-40] + b"\0" + content[-39:])
    with pytest.raises(DamagedOcdbt):
        values(store, lambda content: content[:10])
    for file in (store / "d").iterdir():
        file.unlink()
    with pytest.raises(DamagedOcdbt, match="listed in manifest"):
        values(store)


def test_a_damaged_manifest_is_not_a_newer_one(stores: Path) -> None:
    manifest = (stores / "deep" / "manifest.ocdbt").read_bytes()
    for content in (b"", bytes(len(manifest)), manifest[:-10], manifest[:60] + b"\xff" + manifest[61:]):
        with pytest.raises(DamagedOcdbt):
            small_values(content, NAMES, read=lambda *_range: None, max_nodes=1)
    with pytest.raises(UnreadableOcdbt, match="supported version"):
        small_values(manifest[:12] + b"\x07" + manifest[13:], NAMES, read=lambda *_range: None, max_nodes=1)


def test_an_index_above_the_limit_is_not_read(stores: Path) -> None:
    with pytest.raises(UnreadableOcdbt, match="larger than the limit"):
        values(stores / "deep", max_nodes=1)
