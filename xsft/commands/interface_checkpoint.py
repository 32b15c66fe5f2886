"""Documents about checkpoints."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from xsft.commands.interface_base import Document


class CheckpointWriter(Document):
    """The run that saved a checkpoint, by xsft's record beside its output."""

    run_name: str
    spec_digest: str
    steps: int
    """Asked for."""


class CheckpointDocument(Document):
    """`xsft checkpoint inspect PATH --json`."""

    schema_: Literal["xsft.checkpoint/1"] = Field(alias="schema")
    action: Literal["inspect"]
    path: str
    status: Literal["complete", "torn", "missing", "not-a-checkpoint", "unreadable"]
    """`torn`: a save that did not end."""
    detail: str
    """Why it is torn or could not be read, or what lies there instead and where a checkpoint lies."""
    layout: Literal["items", "model_params", "optimizer_state", "adapters", "hugging_face"] | None
    step: int | None
    """A conversion saves as step 0."""
    use_zarr3: bool | None
    use_ocdbt: bool | None
    scan_layers: bool | None
    param_scan_axis: int | None
    """null where the layers are not stacked, or the shapes do not tell the axis."""
    dtypes: list[str] | None
    """As NumPy names them; null where unknown."""
    dtypes_detail: str
    """Why they are unknown, or of how many arrays they were read."""
    parameters: int | None
    arrays: int
    models: list[str]
    """Models of the catalogue whose arrays have these names and shapes."""
    modes: list[Literal["mcjax", "pathways"]]
    """That can read it."""
    bytes: int | None
    """Of all its files; null where there are too many to add up."""
    bytes_read: int
    """By this command; no array's data is among them."""
    written_by: CheckpointWriter | None
