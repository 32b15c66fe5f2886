"""The audit: check that everything the workload requests is in the manifest, unchanged. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from msgspec import Struct

from xsft.base.pointers import MISSING, JsonValue, MissingValue, Pointer, find_pointer
from xsft.base.problems import Problem, error
from xsft.launcher.encoding import command_in_wrapper

ArgumentOutcome = Literal["landed", "patched", "dropped", "altered"]


class Expectation(Struct, frozen=True, kw_only=True):
    """A field of the workload and what the manifest must hold for it."""

    field: str
    """Key path in the workload, e.g. `restarts.max`."""
    path: Pointer
    value: Any
    """JSON value; for `reads="command"` the encoded command."""
    requested: Any = None
    """The requested value, if `value` is an encoding of it."""
    reads: Literal["value", "command"] = "value"


class AuditRow(Struct, frozen=True, kw_only=True):
    """One field of the workload, looked up in the manifest."""

    field: str
    """Key path in the workload."""
    outcome: ArgumentOutcome
    """landed: xpk rendered it · patched: xsft added it · dropped, altered: the manifest differs from the workload; the
    plan is refused."""
    where: str
    """JSON pointer into the manifest; for a cluster that xpk would make, the command."""
    requested: Any
    """The value that the workload requests."""
    rendered: Any
    """Value at that pointer in the manifest that will be created."""


def audit(expectations: Iterable[Expectation], *, rendered: JsonValue, manifest: JsonValue) -> tuple[AuditRow, ...]:
    """Return one row per expectation. `landed`: xpk rendered it. `patched`: xsft added it. `dropped`, `altered`: it
    differs from the request."""
    return tuple(_audit_row(e, rendered=rendered, manifest=manifest) for e in expectations)


def audit_problems(rows: Iterable[AuditRow]) -> Iterator[Problem]:
    """Yield an error for each field that did not arrive: the plan would not be what runs."""
    for row in rows:
        match row.outcome:
            case "dropped" | "altered":
                yield error(
                    f"audit-{row.outcome}",
                    row.field,
                    f"requested {row.requested!r}, but the manifest has {row.rendered!r} at {row.where}.",
                    "This xpk renders it differently from the pinned one: run `xsft doctor`, or remove the field.",
                )
            case "landed" | "patched":
                pass


def _audit_row(expectation: Expectation, *, rendered: JsonValue, manifest: JsonValue) -> AuditRow:
    where, final = find_pointer(manifest, expectation.path)
    before = find_pointer(rendered, expectation.path)[1]
    final, before = _read_command(expectation, final), _read_command(expectation, before)
    requested = expectation.value if expectation.requested is None else expectation.requested
    return AuditRow(
        field=expectation.field,
        outcome=_outcome(expectation.value, final=final, before=before),
        where=where,
        requested=requested,
        rendered=None if isinstance(final, MissingValue) else final,
    )


def _outcome(requested: Any, *, final: Any, before: Any) -> ArgumentOutcome:
    if isinstance(final, MissingValue):
        return "dropped"
    if not _is_same_json(final, requested):
        return "altered"
    return "landed" if _is_same_json(before, requested) else "patched"


def _is_same_json(a: Any, b: Any) -> bool:
    """Return whether two values are equal as JSON, at any depth: `4` and `"4"` differ to Kubernetes, and True equals 1
    in Python."""
    return json.dumps(a, sort_keys=True, default=repr) == json.dumps(b, sort_keys=True, default=repr)


def _read_command(expectation: Expectation, value: Any) -> Any:
    if expectation.reads == "value" or value is MISSING:
        return value
    try:
        script = value[2]
    except (LookupError, TypeError):
        return value
    return _command(script)


def _command(script: Any) -> Any:
    """Return the command that xpk's script wraps; another launcher's script is the command."""
    try:
        return command_in_wrapper(script)
    except (ValueError, AttributeError):
        return script
