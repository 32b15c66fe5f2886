"""MaxText's tables of names for one model: which tensor of a Hugging Face folder holds which slice of which array."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xsft.workers.answering import configured
from xsft.workers.stored_weights import LORA, Weights


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
    """Position in a tensor from which MaxText makes several arrays."""


@dataclass(frozen=True)
class NameTables:
    """MaxText's tables for one model."""

    config: Any
    names: Mapping[Any, Any]
    shapes: Mapping[Any, Any]
    hooks: Mapping[Any, Any]

    @staticmethod
    def of(argv: Sequence[str]) -> NameTables:
        from maxtext.checkpoint_conversion import to_huggingface  # type: ignore[import-not-found]
        from maxtext.checkpoint_conversion.utils import param_mapping  # type: ignore[import-not-found]

        config = configured(argv)
        hf = to_huggingface.HF_MODEL_CONFIGS[config.model_name]
        to_huggingface._validate_or_update_architecture(hf, config, override=True)  # noqa: SLF001
        shape = to_huggingface.HF_SHAPE[config.model_name](hf.to_dict())
        arguments = (hf.to_dict(), config, config.scan_layers)
        names = param_mapping.PARAM_MAPPING[config.model_name](*arguments)
        hooks = param_mapping.HOOK_FNS[config.model_name](*arguments, saving_to_hf=False)
        return NameTables(config=config, names=names, shapes=shape, hooks=hooks)

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
    """Yield the positions in a nested list, with their values."""
    if not isinstance(names, list):
        yield positions, names
        return
    for position, inner in enumerate(names):
        yield from leaves(inner, (*positions, position))


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
