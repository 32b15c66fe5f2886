"""The small files of a checkpoint that holds a model of the catalogue, as MaxText's converter names and shapes them."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from pathlib import Path

from xsft.catalog.arrays import ArrayLayout, required

DATA = Path(__file__).parent / "fixtures" / "checkpoints"


def unpacked(name: str, folder: Path) -> Path:
    """The folder, with the small files of real checkpoints in it (tests/fixtures/checkpoints/README.md)."""
    with tarfile.open(DATA / f"{name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def small_files(model: str, *, axis: int = 1, given: Mapping[str, object] | None = None) -> dict[str, bytes]:
    """Return the small files by path below the folder; zarr v2 without OCDBT, which both modes read."""
    wanted = required(model, given or {}, layout=ArrayLayout(scan=True, axis=axis))
    assert wanted is not None
    assert wanted.complete, model
    arrays = {f"params.params.{name}": list(shape) for name, shape in wanted.arrays.items()}
    tree = {
        name: {
            "key_metadata": [{"key": key, "key_type": 2} for key in name.split(".")],
            "value_metadata": {"value_type": "jax.Array", "skip_deserialize": False, "write_shape": shape},
        }
        for name, shape in arrays.items()
    }
    metadata = {"tree_metadata": tree, "use_ocdbt": False, "use_zarr3": False}
    marker = {"commit_success.txt": b""}  # which Orbax asks for in a bucket
    return {**marker, "_METADATA": json.dumps(metadata).encode(), **{f"{name}/.zarray": b"{}" for name in arrays}}
