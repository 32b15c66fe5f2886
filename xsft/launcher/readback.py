"""Compare an object that a cluster holds with the one that was sent. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from xsft.base.pointers import JsonValue, escape_token
from xsft.launcher.audit import AuditRow

OF_KUEUE = frozenset({"/spec/suspend"})
"""Fields that Kueue sets: it suspends what it queues, and resumes it."""


IDENTITY = ("/xsft.dev~1", "/xpk.google.com~1workload", "/metadata/namespace")
"""Parts of pointers to a run's identity: xsft's own labels, xpk's label where xpk forgets it, and the namespace, which
xpk passes to kubectl instead."""


def missing_values(expected: Any, stored: Any, pointer: str = "") -> list[str]:
    """Return `pointer: expected -> stored` for each value of `stored` that differs from what was sent.

    Additions of the cluster are ignored: further keys, also for xpk's nulls, and further items at the end of a list.
    """
    if pointer in OF_KUEUE or expected is None:
        return []
    pairs = None
    if isinstance(expected, dict) and isinstance(stored, dict):
        pairs = [(escape_token(key), value, stored.get(key)) for key, value in expected.items()]
    if isinstance(expected, list) and isinstance(stored, list) and len(expected) <= len(stored):
        pairs = [(str(i), value, stored[i]) for i, value in enumerate(expected)]
    if pairs is not None:
        return [line for key, a, b in pairs for line in missing_values(a, b, f"{pointer}/{key}")]
    if expected == stored or (not stored and expected in ([], {})):  # the API server leaves empty values out
        return []
    if _quantity_text(expected) is not None and _quantity_text(expected) == _quantity_text(stored):
        return []
    return [f"{pointer}: {json.dumps(expected)[:80]} -> {json.dumps(stored)[:80]}"]


def lost_by_xpk(rows: Iterable[AuditRow], *, requested: Iterable[str]) -> tuple[AuditRow, ...]:
    """Return the fields of `requested` that the xpk line alone would lose. The run's identity does not count."""
    prefixes = tuple(f"{field}." for field in requested)
    added = [row for row in rows if row.outcome != "landed" and not any(mark in row.where for mark in IDENTITY)]
    # Of a section and one of its keys either may be the one that the workload names.
    return tuple(
        row
        for row in added
        if f"{row.field}.".startswith(prefixes) or any(prefix.startswith(f"{row.field}.") for prefix in prefixes)
    )


def lacking_of_xpk(rows: Iterable[AuditRow], *, manifest: JsonValue, stored: JsonValue) -> list[str]:
    """Return the differences of `stored` from the xpk line, whatever its name; xsft's additions are not compared."""
    landed = [row.where for row in rows if row.outcome == "landed" and row.field != "name"]
    return [d for where in landed for d in missing_values(_value_at(manifest, where), _value_at(stored, where), where)]


def _value_at(document: Any, pointer: str) -> Any:
    for token in pointer.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(document, list) and key.isdigit() and int(key) < len(document):
            document = document[int(key)]
        else:
            document = document.get(key) if isinstance(document, dict) else None
    return document


def _quantity_text(value: Any) -> str | None:
    """Return a quantity as text: Kubernetes takes 4 and "4" for the same."""
    return str(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else None
