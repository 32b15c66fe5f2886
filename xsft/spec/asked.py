"""The fields that a workload sets itself, as opposed to defaults. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel


def asked_fields(spec: BaseModel, prefix: str = "") -> Iterator[str]:
    """Yield dotted key paths of the fields that were written down."""
    for name in sorted(spec.model_fields_set):
        value = getattr(spec, name)
        if isinstance(value, BaseModel):
            yield from asked_fields(value, f"{prefix}{name}.")
        elif value is not None:
            yield prefix + name
