"""The rules every section of a workload shares: frozen, nothing unknown, docstrings become the schema's descriptions.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints


class Section(BaseModel):
    """A part of the workload file."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        strict=True,
        validate_default=False,
    )


DnsLabel = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
"""A Kubernetes name: lower case, digits and dashes."""

EnvName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]

GcsUri = Annotated[str, StringConstraints(pattern=r"^gs://[a-z0-9][-_.a-z0-9]{1,220}[a-z0-9](/[^\x00-\x1f\x7f]*)?$")]
"""`gs://bucket/path`; a bucket's name has 3 to 222 characters."""

Storage = Annotated[str, StringConstraints(min_length=1, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""`gs://bucket/path` or a path on this machine."""

ImageRef = Annotated[
    str,
    StringConstraints(
        pattern=r"^[a-z0-9]([-._a-z0-9]*[a-z0-9])?(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
        r"(:[A-Za-z0-9_][-._A-Za-z0-9]{0,127})?(@sha256:[0-9a-f]{64})?$"
    ),
]
"""`registry/repository:tag` or `…@sha256:…`. xpk passes it to a shell unquoted (xpk@1.16.0 core/docker_image.py), so
the form is strict.
"""

Scalar = bool | int | float | str
Value = Scalar | list[Scalar] | None
