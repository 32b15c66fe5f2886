"""Label holes in a workload for the user to fill, or fill them with stand-ins for comparison. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xsft.base.errors import SpecError
from xsft.base.problems import error
from xsft.importing.cluster import Tree
from xsft.importing.notes import Notes
from xsft.spec.explain import validate
from xsft.spec.model import WorkloadSpec
from xsft.spec.yamltext import ParsedYaml

STAND_INS: Mapping[str, object] = MappingProxyType(
    {
        "name": "name",
        "model.name": "default",
        "tpu.type": "v6e-8",
        "data.hf_path": "json",
        "data.columns": ["messages"],
        "train.steps": 1,
        "train.per_device_batch_size": 1,
        "lora.rank": 1,
        "lora.alpha": 1,
        "eval.interval": 1,
    }
)
"""Values for fields without a default; they are never written to the file."""


def fill_holes(tree: Tree, notes: Notes) -> tuple[str, ...]:
    """Label every hole in place; return the key paths that the user must fill."""
    places: dict[str, list[str]] = {}
    filled = _fill_node(tree, "", notes, places)
    if isinstance(filled, dict):
        tree.update(filled)
    for label, paths in places.items():
        where = ", ".join(paths)
        message = f"{label.partition(' ')[0]} is in {where}: {label.partition(' ')[2]}."
        fix = "Write its value there, or export it above the line and import again."
        notes.problems.append(error("import-unset", paths[0], message, fix))
    return tuple(path for paths in places.values() for path in paths)


def _fill_node(node: object, path: str, notes: Notes, places: dict[str, list[str]]) -> object:
    if isinstance(node, dict):
        below = {k: f"{path}.{k}" if path else str(k) for k in node}
        return {notes.holes.label_holes(k): _fill_node(v, below[k], notes, places) for k, v in node.items()}
    if isinstance(node, list):
        return [_fill_node(item, path, notes, places) for item in node]
    if not isinstance(node, str):
        return node
    for hole in notes.holes.holes_in(node):
        unset = f"the paste does not set {hole.text}"
        why = unset if hole.kind == "variable" else f"import does not run {notes.printable_text(hole.text)}"
        places.setdefault(f"{hole.label} {why}", []).append(path)
    return notes.holes.label_holes(node)


def complete(tree: Tree, holes: Sequence[str]) -> WorkloadSpec | None:
    """Return the workload without unfilled fields; None if it is invalid without them."""
    reduced = _fill_holes(tree, "", frozenset(holes))
    if not isinstance(reduced, dict):
        return None
    try:
        return validate(WorkloadSpec, reduced, ParsedYaml(data=reduced))
    except (SpecError, ValueError):
        return None


def _fill_holes(node: object, parent: str, holes: frozenset[str]) -> object:
    """Return a copy in which stand-ins fill required fields; other fields with holes are removed."""
    if not isinstance(node, dict):
        return node
    copy: dict[str, object] = {}
    for key, value in node.items():
        path = f"{parent}.{key}" if parent else str(key)
        if path not in holes:
            copy[key] = _fill_holes(value, path, holes)
        elif path in STAND_INS:
            copy[key] = STAND_INS[path]
    return copy
