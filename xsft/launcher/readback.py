"""Compare an object that a cluster holds with the one that was sent. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from xsft.base.pointers import JsonValue, escape_token
from xsft.launcher.audit import AuditRow

OF_KUEUE = frozenset({"/spec/suspend"})
"""Fields that Kueue sets: it suspends what it queues, and resumes it."""


def missing_values(sent: Any, stored: Any, pointer: str = "") -> list[str]:
    """Return `pointer: sent -> stored` for each value of `stored` that differs from `sent`.

    Additions of the cluster are ignored: further keys, also for xpk's nulls, and further items at the end of a list.
    """
    if pointer in OF_KUEUE or sent is None:
        return []
    if isinstance(sent, dict) and isinstance(stored, dict):
        return [
            d
            for key, value in sent.items()
            for d in missing_values(value, stored.get(key), f"{pointer}/{escape_token(key)}")
        ]
    if isinstance(sent, list) and isinstance(stored, list) and len(sent) <= len(stored):
        return [
            d
            for i, (a, b) in enumerate(zip(sent, stored, strict=False))
            for d in missing_values(a, b, f"{pointer}/{i}")
        ]
    empty = not stored and sent in ([], {})
    same = (
        sent == stored or empty or (_quantity_text(sent) is not None and _quantity_text(sent) == _quantity_text(stored))
    )
    return [] if same else [f"{pointer}: {json.dumps(sent)[:80]} -> {json.dumps(stored)[:80]}"]


def lost_by_xpk(rows: Iterable[AuditRow], *, asked: Iterable[str]) -> tuple[AuditRow, ...]:
    """Return the fields of `asked` that the xpk line alone would lose. The run's identity does not count."""
    fields = tuple(asked)
    return tuple(
        row for row in rows if row.outcome != "landed" and not _is_identity(row) and _is_asked(row.field, fields)
    )


def lacking_of_xpk(rows: Iterable[AuditRow], *, manifest: JsonValue, held: JsonValue) -> list[str]:
    """Return the differences of `held` from the xpk line, whatever its name; xsft's additions are not compared."""
    landed = [row.where for row in rows if row.outcome == "landed" and row.field != "name"]
    return [d for where in landed for d in missing_values(_value_at(manifest, where), _value_at(held, where), where)]


def _is_identity(row: AuditRow) -> bool:
    """Return whether a row is identity: xsft's own labels, xpk's label where xpk forgets it, and the namespace, which
    xpk passes to kubectl instead."""
    return any(mark in row.where for mark in ("/xsft.dev~1", "/xpk.google.com~1workload", "/metadata/namespace"))


def _is_asked(field: str, asked: tuple[str, ...]) -> bool:
    return any(
        f"{field}.".startswith(f"{requested}.") or f"{requested}.".startswith(f"{field}.") for requested in asked
    )


def _value_at(document: Any, pointer: str) -> Any:
    for token in pointer.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(document, list):
            document = document[int(key)] if key.isdigit() and int(key) < len(document) else None
        else:
            document = document.get(key) if isinstance(document, dict) else None
    return document


def _quantity_text(value: Any) -> str | None:
    """Return a quantity as text: Kubernetes takes 4 and "4" for the same."""
    return str(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else None
