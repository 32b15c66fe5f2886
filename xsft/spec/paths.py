"""The paths that a workload names, and the folder from which a relative one starts. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xsft.spec.model import WorkloadSpec  # imports pydantic, which reading statuses does not need

GRAIN_FORMATS = ("parquet", "arrayrecord")
"""Values of hf_path with `pipeline: grain`."""
FILE_FORMATS = ("json", "parquet", "csv", "arrow", "text", "arrayrecord")
"""Formats of files: as hf_path they need hf_train_files. All but the last are loaders of Hugging Face's datasets."""

OUTPUT = "output"
INPUTS = (
    "model.tokenizer",
    "model.checkpoint",
    "model.hf.converted",
    "data.hf_path",
    "data.hf_train_files",
    "data.hf_eval_files",
    "lora.restore_path",
)
HERE = ("./", "../")
_HUB_TOO = frozenset({"model.tokenizer", "model.hf.repo", "data.hf_path"})
"""Keys that may name something on the hub, too: only `./…` and `../…` are paths."""
MAXTEXT_KEYS = frozenset(
    {"hf_path", "hf_train_files", "hf_eval_files", "grain_train_files", "grain_eval_files", "tokenizer_path"}
)
"""MaxText's keys that have such a path as it was written."""
_FILES = frozenset({"data.hf_train_files", "data.hf_eval_files"})


def is_local(name: str | None) -> bool:
    """Return whether it is a path of this machine. Hub ids (`org/name`) look like relative paths; a path is recognised
    by its start."""
    return name is not None and name.startswith(("/", "./", "../", "~", "xsft://"))


def named_paths(spec: WorkloadSpec) -> dict[str, str]:
    """Return the inputs that the workload names, by key, without weights to convert."""
    return {where: path for where in INPUTS if (path := _stated(spec, where))}


def relative_paths(spec: WorkloadSpec) -> dict[str, str]:
    """Return the relative paths of a run on this machine, by key; templates and prompts are read with the workload."""
    if not spec.on_this_machine:
        return {}
    paths = ((where, _stated(spec, where)) for where in (*INPUTS, "model.hf.repo", OUTPUT, "stages.export.to"))
    return {where: path for where, path in paths if path and _is_relative(spec, where, path)}


def _stated(spec: WorkloadSpec, where: str) -> str | None:
    path: Any = spec
    for key in where.split("."):
        path = getattr(path, key, None)
    return str(path) if path else None


def _is_relative(spec: WorkloadSpec, where: str, path: str) -> bool:
    if where in _HUB_TOO:
        return path.startswith(HERE)
    if where in _FILES and (spec.data.hf_path not in FILE_FORMATS or spec.data.hf_data_dir):
        return False  # a name inside of a data set
    return not path.startswith(("/", "~")) and "://" not in path and ";" not in path


def located_paths(
    spec: WorkloadSpec, *, run_name: str, folders: Sequence[str], exists: Callable[[str], bool]
) -> dict[str, str]:
    """Return the absolute path of each relative one: in the first of the folders that has it, else in the first
    folder. Of two outputs, the one with this run's results is meant."""
    located: dict[str, str] = {}
    for where, path in relative_paths(spec).items():
        names = [path]
        if where == OUTPUT:  # a folder with results of this run comes before one that only exists
            names.insert(0, f"{path}/{run_name}")
        tries = product(names, folders)
        folder = next((folder for name, folder in tries if exists(posixpath.join(folder, name))), folders[0])
        located[path] = in_folder(folder, path)
    return located


def in_folder(folder: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(folder, path))
