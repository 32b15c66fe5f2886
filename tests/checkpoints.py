"""The small files of a checkpoint that holds a model of the catalogue, as MaxText's converter names and shapes them."""

from __future__ import annotations

import json

from xsft.catalog.arrays import Layout, required


def small_files(model: str, *, axis: int = 1) -> dict[str, bytes]:
    """By path below its folder; zarr v2 without OCDBT, which both modes read."""
    wanted = required(model, {}, layout=Layout(scan=True, axis=axis))
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
    return {"_METADATA": json.dumps(metadata).encode(), **{f"{name}/.zarray": b"{}" for name in arrays}}
