"""The rules that every section of a workload shares: frozen, no unknown keys; docstrings are the schema's
descriptions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints

from xsft.base import forms


class Section(BaseModel):
    """A part of the workload file."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        validate_default=False,
    )


DnsLabel = Annotated[str, StringConstraints(pattern=forms.DNS_LABEL, max_length=63)]
"""A Kubernetes name: lower case, digits and dashes."""

EnvName = Annotated[str, StringConstraints(pattern=forms.ENV_NAME)]

LabelName = Annotated[str, StringConstraints(pattern=forms.LABEL_NAME, max_length=317)]
"""Name of a Kubernetes label or annotation: `team`, `example.com/team`."""

GcsUri = Annotated[str, StringConstraints(pattern=forms.GCS_URI)]
"""`gs://bucket/path`; a bucket's name has 3 to 222 characters."""


def _bucket_form(value: str) -> str:
    """Return the value; raise an error for a gs:// path with an invalid bucket. A pattern cannot express this:
    pydantic's has no look-ahead."""
    if value.startswith("gs://") and re.fullmatch(forms.GCS_URI, value) is None:
        raise ValueError(f"{value!r} is not a bucket URL; allowed: {forms.WORDS[forms.GCS_URI]}")
    return value


StoragePath = Annotated[str, StringConstraints(min_length=1, pattern=forms.PRINTABLE), AfterValidator(_bucket_form)]
"""`gs://bucket/path` or a path on this machine."""

ImageRef = Annotated[str, StringConstraints(pattern=forms.IMAGE)]
"""`registry/repository:tag` or `…@sha256:…`. xpk passes it to a shell unquoted (xpk@1.16.0 core/docker_image.py), so
the form is strict.
"""

Scalar = bool | int | float | str
Value = Scalar | list[Scalar] | None
Keys = Mapping[str, Value]
"""The trainer's keys as the command line will have them, overrides included (`trainer.trainer`)."""


def written_fields(spec: BaseModel, prefix: str = "") -> Iterator[str]:
    """Yield dotted key paths of the fields that were written down."""
    for name in sorted(spec.model_fields_set):
        value = getattr(spec, name)
        if isinstance(value, BaseModel):
            yield from written_fields(value, f"{prefix}{name}.")
        elif value is not None:
            yield prefix + name
