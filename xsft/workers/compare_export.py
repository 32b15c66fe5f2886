"""Compares exported Hugging Face folders with the checkpoint they were made of. Runs as a program in MaxText's
environment (`workers.answering`).

The checkpoint is read with TensorStore, array by array, and the exported tensors go through the hooks of MaxText's
import (`to_maxtext`): except for the table of names, none of the code that wrote the folder verifies it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from xsft.workers.answering import answer_question
from xsft.workers.name_tables import ExportedTensor, NameTables
from xsft.workers.stored_weights import ExpectedSlice, Weights

SLACK = {"bfloat16": 2.0**-7, "float32": 2.0**-20}
"""Relative difference that a hook which scales may leave after rounding there and back; a copied value has none."""


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Return the expected content of the folders, and how their values compare.

    `argv`: MaxText's keys; `form`, `dtype`, `weights`, `base`: as in ExportInputs; `scaling`: alpha / rank or null;
    `folders`: to compare, each alone; `sample`: number of tensors compared, null for all; `seed`: of that choice.
    """
    mapping = NameTables.of(job["argv"])
    checkpoint = Weights.of(job)
    expected = mapping.expected(checkpoint, form=job["form"])
    targets = every = list(mapping.targets(checkpoint, form=job["form"]))
    if job["sample"] is not None and job["sample"] < len(targets):
        chosen = np.random.default_rng(job["seed"]).choice(len(targets), job["sample"], replace=False)
        targets = [targets[position] for position in sorted(chosen)]
    folders = [ExportedFolder(Path(folder), form=job["form"], scaling=job["scaling"]) for folder in job["folders"]]
    compared = [Comparison(folder=folder, dtype=job["dtype"]) for folder in folders]
    for target in targets:
        wanted = checkpoint.slice_of(target.key, target.at)
        for one in compared:
            one.add(target, wanted)
    found = {
        "expected": expected,
        "targets": len(targets),
        "all_targets": len(every),
        "unexported": mapping.unexported(checkpoint),
    }
    return {**found, "folders": [one.answer(checkpoint) for one in compared]}


class ExportedFolder:
    """The tensors of one Hugging Face folder."""

    def __init__(self, folder: Path, *, form: str, scaling: float | None) -> None:
        self.folder, self.form, self.scaling = folder, form, scaling
        self.files: dict[str, Any] = {}
        self.broken = ""
        try:
            self._open()
        except Exception as failed:
            self.broken = f"{type(failed).__name__}: {failed}"

    def _open(self) -> None:
        from safetensors import safe_open

        for file in sorted(self.folder.glob("*.safetensors")):
            opened: Any = safe_open(str(file), framework="numpy")
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


@dataclass
class Comparison:
    """The result of comparing one folder."""

    folder: ExportedFolder
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
        except Exception as failed:
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
        """Return the maximum error from rounding the factors or the sum; 0 for a plain copy."""
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


if __name__ == "__main__":
    answer_question(answer)
