"""The spec_digest, by which two submissions are the same run. Pure.

The digest is taken over the values that were decided: a value counts the same whether the file states it or a default
gives it. So a new default makes another run of every file that leaves the value open, and of no file that states it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from xsft.base.lenient import JsonMapping

if TYPE_CHECKING:
    from xsft.spec.base import Section
    from xsft.spec.resolve import Run  # imports the whole spec with pydantic, which reading digests does not need


NOT_IDENTITY = frozenset(
    {
        "name",
        "run_name_suffix",
        "priority",
        "restarts",
        "ttl_seconds_after_finished",
        "checks",
        "stages",
        "pods",
        "data.rows",
        "image.name",
    }
)
"""Fields whose change does not make another run. The image is written out instead of named; the name and its suffix
count as the run_name they make: `--run-name` continues yesterday's dated run."""

DECIDED = frozenset(
    {
        "place",
        "mode",
        "output",
        "queue",
        "namespace",
        "pathways",
        "model.checkpoint",
        "model.hf.converted",
        "data.chat_template",
        "train.checkpoint_period",
    }
)
"""Fields that count with the value that `resolve` decides, whether or not the file states them."""

NEUTRAL: Mapping[str, object] = MappingProxyType(
    {
        "trainer": "sft",
        "tpu.num_slices": 1,
        "data.train_split": "train",
        "eval.steps": -1,
        "secrets.hf_token.key": "token",
    }
)
"""Key -> the value that is left out, as None and what is empty are at every key. It never follows a default.

A key that a later xsft adds with a value as its default is listed here with what xsft did before it had the key: a file
that does not use the key then keeps its digest. image.maxtext is not listed: the release is always written.
"""


def spec_digest(run: Run) -> str:
    """Return the sha256 over the canonical JSON of the resolved workload, 64 hex digits."""
    return sha256(canonical(run))


def canonical(run: Run) -> str:
    """Return the resolved workload as JSON: sorted keys, no spaces. User, time and git commit are not in it, except in
    a run name that contains them."""
    document = stated_values(run.spec, leave_out=NOT_IDENTITY | DECIDED, neutral=NEUTRAL)
    document["model"]["checkpoint"] = run.checkpoint_identity
    if run.conversion and run.conversion.source.content:  # identifies the weights, wherever the folder is
        document["model"]["hf"]["repo"] = run.conversion.source.content
    document["train"]["checkpoint_period"] = run.checkpoint_period
    if run.template:  # the file's content; its location does not change the run
        document["data"]["chat_template"] = run.template.digests
    decided: dict[str, Any] = {
        "target": run.spec.target,
        "run_name": run.run_name,
        "mode": run.mode.value,
        "output": run.output,
    }
    if run.spec.pathways or run.mode.single_controller:
        decided["pathways"] = _pathways_part(run)
    if run.spec.on_cluster:  # a local run has no cluster, whatever place the file names
        decided |= {"place": _place_part(run), "queue": run.queue, "namespace": run.namespace}
    return as_text(document | decided)


def stated_values(
    section: Section, *, leave_out: Collection[str], neutral: JsonMapping, prefix: str = ""
) -> dict[str, Any]:
    """Return the values of a section by name, without neutral ones and without the paths in `leave_out`."""
    stated: dict[str, Any] = {}
    for name, field in type(section).model_fields.items():
        path = f"{prefix}{name}"
        value = getattr(section, name)
        if path in leave_out or value in (None, [], {}):
            continue
        if hasattr(type(value), "model_fields"):
            value = stated_values(value, leave_out=leave_out, neutral=neutral, prefix=f"{path}.")
            left_out = not value and field.default is not None  # an optional section that is empty was still given
        else:
            left_out = path in neutral and value == neutral[path]
        if not left_out:
            stated[name] = value
    return stated


def as_text(document: JsonMapping) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_section_values)


def _section_values(section: Section) -> JsonMapping:
    """Return the values of a section in a mapping, such as the references of `secrets.env`."""
    return section.model_dump()


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _pathways_part(run: Run) -> dict[str, Any]:
    stated = stated_values(run.spec.pathways, leave_out=(), neutral={}) if run.spec.pathways else {}
    if not run.mode.single_controller:
        return stated
    return {**stated, **run.servers.model_dump(exclude_none=True)}


WHERE = ("project", "zone", "cluster", "context")
"""Keys of a place that name a cluster; its other keys count by the values that the run takes from them."""


def _place_part(run: Run) -> dict[str, str] | None:
    if run.place is None:
        return None
    return {name: value for name in WHERE if (value := getattr(run.place, name)) is not None}
