"""Digests and records of xsft up to commit abb8459, which left out each value that was the default then. Pure.

JobSets with such a digest may be live, and outputs with such a record may be resumed: both must be understood.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from xsft.aliases import JsonMapping
from xsft.spec.digest import NEUTRAL, NOT_IDENTITY, WHERE, as_text, sha256, stated
from xsft.spec.resolve import Run
from xsft.targets import THIS_MACHINE

MAXTEXT = "0.2.5"
"""The default of image.maxtext at that commit."""

LEFT_OUT: Mapping[str, object] = MappingProxyType(
    {**NEUTRAL, "image.maxtext": MAXTEXT, "place.namespace": "default", "place.queue": "multislice-queue"}
)


def earlier_digest(run: Run) -> str:
    """Return the digest that xsft wrote for this run at that commit, 64 hex digits."""
    spec = stated(run.spec, leave_out=NOT_IDENTITY | {"place"}, neutral=LEFT_OUT)
    if run.template:  # the path was here then, and MaxText ignored the file: no earlier run is this one
        spec["data"]["chat_template"] = run.template.digests
    place = stated(run.place, leave_out={"place.registry"}, neutral=LEFT_OUT, at="place.") if run.place else None
    resolved = {
        "place": place,
        "target": run.spec.target,
        "run_name": run.run_name,
        "mode": run.mode.value,
        "output": run.output,
        "queue": run.queue,
        "namespace": run.namespace,
        "checkpoint": run.checkpoint_identity,
        "checkpoint_period": run.checkpoint_period,
    }
    return sha256(as_text({**spec, **resolved}))


def in_todays_form(document: JsonMapping) -> dict[str, Any]:
    """Return the `spec` of any record as `canonical` writes it today, except for sections that are empty."""
    place, model = _section(document, "place"), _section(document, "model")
    known = {
        "checkpoint": document.get("checkpoint", model.get("checkpoint")),
        "hf": _without(_section(model, "hf"), "converted"),
    }
    train = _section(document, "train")
    period = document.get("checkpoint_period", train.get("checkpoint_period"))
    today = {
        **_without(document, "checkpoint", "checkpoint_period"),
        "image": {"maxtext": MAXTEXT, **_section(document, "image")},
        "model": {**model, **known},
        "train": {**train, "checkpoint_period": period},
        "place": {name: place[name] for name in WHERE if name in place},
    }
    if document.get("mode") == "pathways":
        today["pathways"] = {**_section(place, "pathways"), **_section(document, "pathways")}
    if document.get("target") == THIS_MACHINE:
        return _without(today, "place", "queue", "namespace")
    return today


def _section(document: JsonMapping, name: str) -> JsonMapping:
    """Return the section; empty if it is missing or has another type."""
    found = document.get(name)
    return found if isinstance(found, Mapping) else {}


def _without(section: JsonMapping, *names: str) -> dict[str, Any]:
    return {name: value for name, value in section.items() if name not in names}
