"""A place that was added, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import to_builtins

from xsft.base.aliases import JsonObject
from xsft.verbs.failure import problem_documents
from xsft.world.new_place import NewPlace


def added_lines(new: NewPlace) -> Iterator[str]:
    view = new.cluster
    if view.slices:
        yield f"slices: {', '.join(f'{count} x {tpu_type}' for tpu_type, count in view.slices.items())}"
    if view.priority_classes:
        yield f"priority classes: {', '.join(view.priority_classes)}"
    yield from (f"{problem.severity}: {problem.message}\n  fix: {problem.fix}" for problem in new.problems)
    yield from (f"note: {note}" for note in new.notes)


def added_place_document(new: NewPlace, *, entry: str, written: bool) -> JsonObject:
    """Return the document `xsft.place-add/1` without its schema."""
    return {
        "action": "added" if written else "printed",
        "place": new.name,
        "file": str(new.file),
        "values": new.values,
        "entry": entry,
        "found": {**to_builtins(new.project), "cluster": to_builtins(new.cluster)},
        "problems": problem_documents(new.problems),
        "notes": list(new.notes),
    }
