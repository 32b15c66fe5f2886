"""Compares exported Hugging Face folders with the checkpoint they were made of. Runs as a program in MaxText's
environment.

usage: export_worker.py JOB ANSWER. Of the keys of JOB see `answer`; ANSWER becomes what it returns, or
`{"error": "..."}`.

The checkpoint is read with TensorStore, array by array, and the exported tensors go through the hooks of MaxText's
import (`to_maxtext`): no code that wrote the folder judges it, but for the table of names.
"""

from __future__ import annotations

import json
import sys
import unittest  # noqa: F401 - MaxText exits the process on a configuration error unless it sees this module
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

CACHE_BYTES = 1 << 30
SLACK = {"bfloat16": 2.0**-7, "float32": 2.0**-20}
"""Relative difference that a hook which scales may leave after rounding there and back; a copied value has none."""
LORA = ("_lora_a", "_lora_b")


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Return what is expected of the folders and how their values compare.

    `argv`: MaxText's keys; `form`, `dtype`, `weights`, `base`: as in ExportInputs; `scaling`: alpha / rank or null;
    `folders`: to compare, each alone; `sample`: number of tensors compared, null for all; `seed`: of that choice.
    """
    mapping = Mapped.of(job["argv"])
    checkpoint = Weights.of(job)
    expected = mapping.expected(checkpoint, form=job["form"])
    targets = every = list(mapping.targets(checkpoint, form=job["form"]))
    if job["sample"] is not None and job["sample"] < len(targets):
        chosen = np.random.default_rng(job["seed"]).choice(len(targets), job["sample"], replace=False)
        targets = [targets[position] for position in sorted(chosen)]
    folders = [Exported(Path(folder), form=job["form"], scaling=job["scaling"]) for folder in job["folders"]]
    compared = [Comparison(folder=folder, dtype=job["dtype"]) for folder in folders]
    for target in targets:
        wanted = checkpoint.slice_of(target)
        for one in compared:
            one.add(target, wanted)
    found = {
        "expected": expected,
        "targets": len(targets),
        "all_targets": len(every),
        "unexported": mapping.unexported(checkpoint),
    }
    return {**found, "folders": [one.answer(checkpoint) for one in compared]}


@dataclass(frozen=True)
class ExportedTensor:
    """One slice of a MaxText array, and the tensor of the Hugging Face folder that must hold it."""

    key: str
    """MaxText's name, as `params-decoder-layers-mlp-wo-kernel`."""
    at: tuple[tuple[int, int], ...]
    """Stacked axis and position in it, the axes of the whole array."""
    name: str | tuple[str, ...]
    hook: Any
    part: int | None = None
    """Of a tensor from which MaxText makes several arrays: which of them."""


@dataclass(frozen=True)
class Mapped:
    """MaxText's tables for one model."""

    config: Any
    names: Mapping[Any, Any]
    shapes: Mapping[Any, Any]
    hooks: Mapping[Any, Any]

    @staticmethod
    def of(argv: Sequence[str]) -> Mapped:
        from maxtext.checkpoint_conversion import to_huggingface  # type: ignore[import-not-found]
        from maxtext.checkpoint_conversion.utils import param_mapping  # type: ignore[import-not-found]

        config = configured(argv)
        hf = to_huggingface.HF_MODEL_CONFIGS[config.model_name]
        to_huggingface._validate_or_update_architecture(hf, config, override=True)  # noqa: SLF001
        shape = to_huggingface.HF_SHAPE[config.model_name](hf.to_dict())
        arguments = (hf.to_dict(), config, config.scan_layers)
        names = param_mapping.PARAM_MAPPING[config.model_name](*arguments)
        hooks = param_mapping.HOOK_FNS[config.model_name](*arguments, saving_to_hf=False)
        return Mapped(config=config, names=names, shapes=shape, hooks=hooks)

    def expected(self, weights: Weights, *, form: str) -> dict[str, list[int]]:
        """Return the shape of each tensor that the folder must hold."""
        targets = list(self.targets(weights, form=form))
        if form == "adapters":
            return adapter_shapes(targets, weights, self.shapes)
        names = {name for one in targets for name in ((one.name,) if isinstance(one.name, str) else one.name)}
        table: dict[str, Any] = {}
        for name, shape in self.shapes.items():
            table.update(zip(name, shape, strict=True) if isinstance(name, tuple) else {name: shape}.items())
        return {name: [int(size) for size in table[name]] for name in names}

    def targets(self, weights: Weights, *, form: str) -> Iterator[ExportedTensor]:
        for keys, names in self.names.items():
            parts = keys if isinstance(keys, tuple) else (keys,)
            for part, key in enumerate(parts):
                if names is None or not weights.has(key, form=form):
                    continue
                own = self.hooks.get(keys, self.hooks.get(key))
                yield from self._targets(key, names, weights, own, part if len(parts) > 1 else None)

    def _targets(self, key: str, names: Any, weights: Weights, hook: Any, part: int | None) -> Iterator[ExportedTensor]:
        if not isinstance(names, list):
            yield ExportedTensor(key=key, at=(), name=names, hook=hook, part=part)
            return
        axes = self._axes(key, names, rank=weights.rank(key))
        for positions, name in leaves(names):
            at = tuple(zip(axes, positions, strict=True))
            yield ExportedTensor(key=key, at=at, name=name, hook=hook, part=part)

    def _axes(self, key: str, names: list[Any], *, rank: int) -> tuple[int, ...]:
        """Return the axes along which layers or experts are stacked. source: maxtext@0.2.5
        checkpoint_conversion/utils/tensor_handling.py"""
        from maxtext.checkpoint_conversion.utils.tensor_handling import (  # type: ignore[import-not-found]
            nesting_depth,
            stacked_axes,
        )

        depth = nesting_depth(names)
        if depth > 1:
            return tuple(stacked_axes(key, self.config, depth))
        axis = int(self.config.param_scan_axis) if self.config.scan_layers else 0
        return (axis if rank > axis else 0,)

    def unexported(self, weights: Weights) -> list[str]:
        """Return arrays of the checkpoint that MaxText's table does not name, or maps to nothing."""
        tables = (keys if isinstance(keys, tuple) else (keys,) for keys, names in self.names.items() if names)
        named = {key for keys in tables for key in keys}
        return [key for key in weights.changeable() if key not in named]


def leaves(names: Any, positions: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Yield the positions in a nested list, with what stands there."""
    if not isinstance(names, list):
        yield positions, names
        return
    for position, inner in enumerate(names):
        yield from leaves(inner, (*positions, position))


class Stored:
    """The arrays of one checkpoint, read with TensorStore."""

    def __init__(self, path: str) -> None:
        import tensorstore  # type: ignore[import-not-found]

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


@dataclass(frozen=True)
class Weights:
    """The weights that the export must hold: a checkpoint, or a base with LoRA's update."""

    trained: Stored
    base: Stored | None
    scaling: float | None
    form: str
    base_why: str = ""
    """Why there is no base to compare with."""

    @staticmethod
    def of(job: Mapping[str, Any]) -> Weights:
        base, why = None, "" if job["base"] else "the training began from random weights"
        try:
            base = Stored(job["base"]) if job["base"] else None
        except (OSError, ValueError, KeyError) as failed:
            if job["form"] != "full":
                raise
            why = f"{job['base']} cannot be read: {failed}"
        return Weights(
            trained=Stored(job["weights"]), base=base, scaling=job["scaling"], form=job["form"], base_why=why
        )

    @property
    def whole(self) -> Stored:
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

    def slice_of(self, target: ExportedTensor) -> ExpectedSlice:
        """Return the values that the exported tensor must hold, and those of the base."""
        if self.scaling is None:
            before = self.base.read(target.key, target.at) if self.base and target.key in self.base.paths else None
            return ExpectedSlice(values=self.trained.read(target.key, target.at), base=before)
        before = self.whole.read(target.key, target.at)
        update = self._update(target, before)
        values = update if self.form == "adapters" else before + update
        return ExpectedSlice(values=values, base=before, update=update, is_trained=self.is_trained(target.key))

    def _update(self, target: ExportedTensor, like: Any) -> Any:
        """Return alpha / rank times the product of the two matrices, in the array's shape."""
        if not self.is_trained(target.key):
            return np.zeros_like(like)
        left, right = (self.trained.read(target.key + end, target.at) for end in LORA)
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


class Exported:
    """The tensors of one Hugging Face folder."""

    def __init__(self, folder: Path, *, form: str, scaling: float | None) -> None:
        self.folder, self.form, self.scaling = folder, form, scaling
        self.files: dict[str, Any] = {}
        self.broken = ""
        try:
            self._open()
        except Exception as failed:  # noqa: BLE001 - another folder is judged all the same
            self.broken = f"{type(failed).__name__}: {failed}"

    def _open(self) -> None:
        from safetensors import safe_open  # type: ignore[import-not-found]

        for file in sorted(self.folder.glob("*.safetensors")):
            opened = safe_open(str(file), framework="numpy")
            self.files.update(dict.fromkeys(opened.keys(), opened))

    def tensor(self, name: str) -> Any:
        """Return a tensor as float32; of an adapter: the update that its two matrices are. Raises KeyError."""
        if self.form != "adapters":
            return self.files[name].get_tensor(name).astype(np.float32)
        plain = name.removesuffix(".weight")
        left, right = (self._matrix(f"base_model.model.{plain}.{end}.weight") for end in ("lora_A", "lora_B"))
        return right @ left * self.scaling

    def _matrix(self, name: str) -> Any:
        return self.files[name].get_tensor(name).astype(np.float32)


def adapter_shapes(targets: list[ExportedTensor], weights: Weights, shapes: Mapping[Any, Any]) -> dict[str, list[int]]:
    """Return the shapes of PEFT's matrices: A is [rank, in], B is [out, rank]."""
    found = {}
    for one in targets:
        rank = weights.trained.shape(one.key + LORA[0])[-1]
        outer, inner = shapes[one.name]
        plain = str(one.name).removesuffix(".weight")
        found[f"base_model.model.{plain}.lora_A.weight"] = [rank, int(inner)]
        found[f"base_model.model.{plain}.lora_B.weight"] = [int(outer), rank]
    return found


@dataclass
class Comparison:
    """How one folder compares."""

    folder: Exported
    dtype: str
    compared: int = 0
    trained: int = 0
    changed: int = 0
    based: int = 0
    wrong: list[dict[str, Any]] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    def add(self, target: ExportedTensor, wanted: ExpectedSlice) -> None:
        """Compare one tensor, converted to MaxText's layout, with the slice of the checkpoint."""
        from maxtext.checkpoint_conversion.utils.utils import apply_hook_fns  # type: ignore[import-not-found]

        names = target.name if isinstance(target.name, tuple) else (target.name,)
        try:
            tensors = tuple(self.folder.tensor(name) for name in names)
            given = tensors if isinstance(target.name, tuple) else tensors[0]
            held = apply_hook_fns(given, wanted.values.shape, target.hook)
            held = np.asarray(held if target.part is None else held[..., target.part])
            held = held.astype(np.float32).reshape(held.shape)
        except Exception as failed:  # noqa: BLE001 - a missing tensor, or a shape that no hook takes
            self.unread.append(f"{', '.join(names)} ({type(failed).__name__}: {str(failed)[:80]})")
            return
        self.compared += 1
        self.trained += wanted.is_trained
        self._values(", ".join(names), held, wanted)

    def _values(self, name: str, held: Any, wanted: ExpectedSlice) -> None:
        if held.shape != wanted.values.shape:
            self.unread.append(f"{name} ({list(held.shape)} instead of {list(wanted.values.shape)})")
            return
        allowed = SLACK[self.dtype] * np.abs(wanted.values) + self._rounding(wanted)
        differing = int(np.count_nonzero(~(np.abs(held - wanted.values) <= allowed)))
        if differing:
            self.wrong.append({"name": name, "differing": differing, "values": int(held.size)})
        if wanted.base is not None:
            self.based += 1
            before = wanted.base if wanted.update is None or self.folder.form != "adapters" else 0
            self.changed += bool(np.any(held != np.asarray(before)))

    def _rounding(self, wanted: ExpectedSlice) -> float:
        """Return what rounding of the factors or of the sum may add to any value: none for a plain copy."""
        greatest = max(
            float(np.max(np.abs(one), initial=0)) for one in (wanted.values, wanted.update) if one is not None
        )
        return 0.0 if wanted.update is None else SLACK[self.dtype] * greatest

    def answer(self, weights: Weights) -> dict[str, Any]:
        unread = [self.folder.broken] if self.folder.broken else self.unread
        return {
            "folder": str(self.folder.folder),
            "compared": self.compared,
            "wrong": self.wrong,
            "unread": unread,
            "based": self.based,
            "trained": self.trained if self.based else None,
            "changed": self.changed if self.based else None,
            "base": weights.base_why if not self.based else "",
        }


def configured(argv: Sequence[str]) -> Any:
    from importlib.util import find_spec

    from maxtext.configs import pyconfig  # type: ignore[import-not-found]

    module, *arguments = argv[list(argv).index("-m") + 1 :]
    found = find_spec(module)
    keys = [one for one in arguments if not one.startswith("--")]
    return pyconfig.initialize_pydantic([found.origin if found else module, *keys])


def main() -> None:
    question, target = map(Path, sys.argv[1:])
    job = json.loads(question.read_text(encoding="utf-8"))
    try:
        found = answer(job)
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - whatever MaxText says is the answer
        found = {"error": f"{type(problem).__name__}: {problem}"}
    target.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
