"""The arrays of a training's checkpoints, read slice by slice with TensorStore in MaxText's environment."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

CACHE_BYTES = 1 << 30
LORA = ("_lora_a", "_lora_b")


@dataclass(frozen=True)
class Weights:
    """The weights that the export must hold: a checkpoint, or a base with LoRA's update."""

    trained: StoredArrays
    base: StoredArrays | None
    scaling: float | None
    form: str
    base_why: str = ""
    """Why there is no base to compare with."""

    @staticmethod
    def of(job: Mapping[str, Any]) -> Weights:
        base, why = None, "" if job["base"] else "the training began from random weights"
        try:
            base = StoredArrays(job["base"]) if job["base"] else None
        except (OSError, ValueError, KeyError) as failed:
            if job["form"] != "full":
                raise
            why = f"{job['base']} cannot be read: {failed}"
        return Weights(
            trained=StoredArrays(job["weights"]), base=base, scaling=job["scaling"], form=job["form"], base_why=why
        )

    @property
    def whole(self) -> StoredArrays:
        """The checkpoint with the whole arrays."""
        if self.scaling is None:
            return self.trained
        assert self.base is not None
        return self.base

    def changeable(self) -> list[str]:
        """Return the arrays that the export is made of, LoRA's by the array that they change."""
        changed = {without_lora(key) for key in self.trained.paths}
        return sorted(changed if self.form == "adapters" else {*changed, *self.whole.paths})

    def has(self, key: str, *, form: str) -> bool:
        if form == "adapters":
            return key + LORA[0] in self.trained.paths
        return key in self.whole.paths

    def is_trained(self, key: str) -> bool:
        return self.scaling is None or key + LORA[0] in self.trained.paths

    def rank(self, key: str) -> int:
        return len(self.whole.shape(key))

    def slice_of(self, key: str, at: tuple[tuple[int, int], ...]) -> ExpectedSlice:
        """Return the expected values of the exported tensor of a slice, and those of the base."""
        if self.scaling is None:
            before = self.base.read(key, at) if self.base and key in self.base.paths else None
            return ExpectedSlice(values=self.trained.read(key, at), base=before)
        before = self.whole.read(key, at)
        update = self._update(key, at, before)
        values = update if self.form == "adapters" else before + update
        return ExpectedSlice(values=values, base=before, update=update, is_trained=self.is_trained(key))

    def _update(self, key: str, at: tuple[tuple[int, int], ...], like: Any) -> Any:
        """Return alpha / rank times the product of the two matrices, in the array's shape."""
        if not self.is_trained(key):
            return np.zeros_like(like)
        left, right = (self.trained.read(key + end, at) for end in LORA)
        product = np.tensordot(left, right, axes=1)
        return (product * self.scaling).reshape(like.shape)


def without_lora(key: str) -> str:
    return key.removesuffix(LORA[0]).removesuffix(LORA[1])


@dataclass(frozen=True)
class ExpectedSlice:
    values: Any
    base: Any
    update: Any = None
    is_trained: bool = True


class StoredArrays:
    """The arrays of one checkpoint, read with TensorStore."""

    def __init__(self, path: str) -> None:
        import tensorstore

        self.path = path.rstrip("/")
        metadata = json.loads(tensorstore.KvStore.open(f"{url(self.path)}/").result()["_METADATA"])
        self.driver = "zarr3" if metadata.get("use_zarr3") else "zarr"
        self.ocdbt = bool(metadata.get("use_ocdbt"))
        self.paths = dict(named_arrays(metadata))
        self.context = tensorstore.Context({"cache_pool": {"total_bytes_limit": CACHE_BYTES}})
        self._last: tuple[str, Any] = ("", None)

    def open(self, key: str) -> Any:
        import tensorstore

        name = self.paths[key]
        inside = {"driver": "ocdbt", "base": f"{url(self.path)}/", "path": f"{name}/"}
        store = inside if self.ocdbt else f"{url(self.path)}/{name}/"
        return tensorstore.open({"driver": self.driver, "kvstore": store}, context=self.context).result()

    def shape(self, key: str) -> tuple[int, ...]:
        return tuple(self.open(key).shape)

    def read(self, key: str, at: tuple[tuple[int, int], ...]) -> Any:
        """Return a slice as float32. An array is kept until another is asked for: most are read slice by slice."""
        if self._last[0] != key:
            self._last = (key, self.open(key).read().result())
        index: list[Any] = [slice(None)] * self._last[1].ndim
        for axis, position in at:
            index[axis] = position
        return np.asarray(self._last[1][tuple(index)]).astype(np.float32)


def url(path: str) -> str:
    return path if path.startswith("gs://") else f"file://{path}"


def named_arrays(metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield MaxText's name of each array and its name in the store, without the state of random generators."""
    for entry in metadata["tree_metadata"].values():
        path = [str(part["key"]) for part in entry["key_metadata"]]
        if not str(entry["value_metadata"].get("value_type", "")).endswith("Array") or "rngs" in path:
            continue
        own = path[:-1] if path[-1] == "value" else path
        while own[0] in ("params", "base"):
            own = own[1:]
        yield "-".join(("params", *own)), ".".join(path)
