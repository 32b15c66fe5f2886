"""The machine interface as models, on which scripts may rely. No verb imports it; tests compare their output with it.

`docs/generate.py` makes xsft/schemas/*.json and docs/reference/machine-interface.md from it.
"""

from __future__ import annotations

from typing import Any

from xsft.commands.interface_base import Document, ErrorDocument
from xsft.commands.interface_checkpoint import CheckpointDocument, ConversionDocument, ExportDocument
from xsft.commands.interface_data import DataDocument
from xsft.commands.interface_evaluation import EvaluationDocument, SampleDocument
from xsft.commands.interface_fit import FitDocument
from xsft.commands.interface_image import ImageDocument
from xsft.commands.interface_machine import (
    DoctorDocument,
    PlaceAddDocument,
    PlaceCreateDocument,
    PlaceDocument,
    SecretDocument,
    ServeDocument,
    SetupDocument,
)
from xsft.commands.interface_prepare import PrepareDocument
from xsft.commands.interface_run import RunDocument
from xsft.commands.interface_runs import CheckDocument, DiffDocument, ImportDocument, PlanDocument, SubmitDocument
from xsft.commands.interface_status import (
    CancelDocument,
    CompareDocument,
    ReceiptDocument,
    StatusDocument,
    WaitDocument,
    WhyDocument,
)

DOCUMENTS: dict[str, type[Document]] = {
    "plan": PlanDocument,
    "fit": FitDocument,
    "check": CheckDocument,
    "submit": SubmitDocument,
    "run": RunDocument,
    "status": StatusDocument,
    "why": WhyDocument,
    "receipt": ReceiptDocument,
    "wait": WaitDocument,
    "cancel": CancelDocument,
    "compare": CompareDocument,
    "diff": DiffDocument,
    "import": ImportDocument,
    "secret": SecretDocument,
    "doctor": DoctorDocument,
    "image": ImageDocument,
    "place": PlaceDocument,
    "place-add": PlaceAddDocument,
    "place-create": PlaceCreateDocument,
    "checkpoint": CheckpointDocument,
    "checkpoint-convert": ConversionDocument,
    "checkpoint-export": ExportDocument,
    "data": DataDocument,
    "data-prepare": PrepareDocument,
    "serve": ServeDocument,
    "sample": SampleDocument,
    "evaluation": EvaluationDocument,
    "setup": SetupDocument,
    "error": ErrorDocument,
}
"""Verb -> its document; `error` belongs to every verb, and `evaluation` is a file."""


def published(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a document, for readers: further fields may come in the same version, so none is
    forbidden."""
    schema = DOCUMENTS[name].model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_open(schema)}


def _open(node: Any) -> Any:
    match node:
        case dict():
            closed = node.get("additionalProperties") is False
            return {k: _open(v) for k, v in node.items() if not (closed and k == "additionalProperties")}
        case list():
            return [_open(part) for part in node]
        case _:
            return node
