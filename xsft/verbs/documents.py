"""The documents of all verbs, and their published schemas, on which scripts may rely. No verb imports it.

`docs/generate.py` makes xsft/schemas/*.json and docs/reference/machine-interface.md from it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, Literal, cast

from msgspec import field, json
from msgspec.inspect import CollectionType, DataclassType, DictType, StructType, TupleType, Type, UnionType, type_info

from xsft.base.docstrings import field_docstrings
from xsft.evaluation.report import EvaluationReport
from xsft.verbs.cancel import CancelDocument
from xsft.verbs.card import ReceiptDocument
from xsft.verbs.check import CheckDocument
from xsft.verbs.checkpoint import CheckpointDocument
from xsft.verbs.checkpoint_convert import ConversionDocument
from xsft.verbs.checkpoint_export import ExportDocument
from xsft.verbs.compare import CompareDocument
from xsft.verbs.data import DataDocument, PrepareDocument
from xsft.verbs.diff import DiffDocument
from xsft.verbs.doctor import DoctorDocument
from xsft.verbs.document import Document, ErrorDocument
from xsft.verbs.fit import FitDocument
from xsft.verbs.image import ImageDocument
from xsft.verbs.import_ import ImportDocument
from xsft.verbs.notify import NoticeDocument
from xsft.verbs.place import PlaceAddDocument, PlaceCreateDocument, PlaceDocument
from xsft.verbs.plan import PlanDocument
from xsft.verbs.run import RunDocument
from xsft.verbs.sample import SampleDocument
from xsft.verbs.secret import SecretDocument
from xsft.verbs.serve import ServeDocument
from xsft.verbs.setup import SetupDocument
from xsft.verbs.status import StatusDocument
from xsft.verbs.submission import SubmitDocument
from xsft.verbs.wait import WaitDocument
from xsft.verbs.why import WhyDocument


class EvaluationDocument(Document, EvaluationReport, frozen=True, kw_only=True):
    """The file `evaluation.json` of an evaluate stage."""

    schema_: Literal["xsft.evaluation/1"] = field(name="schema")


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
    "notice": NoticeDocument,
    "error": ErrorDocument,
}
"""Verb -> its document; `error` belongs to every verb, `evaluation` is a file, and `notice` is posted."""


def published_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a document, for readers: further fields may come in the same version, so none is
    forbidden. The docstring below a field is its description."""
    kinds = {kind.__name__: kind for kind in _classes(type_info(DOCUMENTS[name]))}
    _, parts = json.schema_components((DOCUMENTS[name],), ref_template="#/$defs/{name}")
    described = {part: _describe_fields(node, kinds[part]) for part, node in parts.items()}
    top = described.pop(DOCUMENTS[name].__name__)
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": described, **top}
    return cast("dict[str, Any]", _without_suffix(schema))


def _without_suffix(node: object) -> object:
    """Return the node of a schema, in which the type `ProblemFields`, the fields of a Problem, is named Problem."""
    match node:
        case str():
            return node.removesuffix("Fields")
        case dict():
            return {_without_suffix(key): _without_suffix(value) for key, value in node.items()}
        case list():
            return [_without_suffix(value) for value in node]
        case _:
            return node


def _classes(info: Type) -> Iterator[type]:
    """Yield the classes of a type and of all its parts."""
    match info:
        case StructType() | DataclassType():
            yield info.cls
            parts = [field.type for field in info.fields]
        case CollectionType():
            parts = [info.item_type]
        case TupleType():
            parts = list(info.item_types)
        case UnionType():
            parts = list(info.types)
        case DictType():
            parts = [info.value_type]
        case _:
            parts = []
    for part in parts:
        yield from _classes(part)


def _describe_fields(node: dict[str, Any], kind: type) -> dict[str, Any]:
    """Return the node with the descriptions of its fields. A part that the code has as a value is printed whole."""
    texts = {key: text for base in reversed(kind.__mro__) for key, text in _field_texts(base).items()}
    described = {key: {"description": texts[key]} if key in texts else {} for key in node["properties"]}
    keys = sorted(node["properties"], key=_rank)  # every field is always printed
    properties = {key: {**_without_default(node["properties"][key]), **described[key]} for key in keys}
    about = {"description": _in_json(node["description"]).partition("\n\n")[0]} if "description" in node else {}
    return {**node, **about, "properties": properties, "required": keys}


def _rank(key: str) -> int:
    """Return the position of a field: the schema's name first, what all documents have last."""
    last = ("problems", "exit_status")
    return last.index(key) + 1 if key in last else -(key == "schema")


def _without_default(node: dict[str, Any]) -> dict[str, Any]:
    return {key: part for key, part in node.items() if key != "default"}


def _field_texts(kind: type) -> dict[str, str]:
    if not kind.__module__.startswith("xsft."):
        return {}
    return {field.rstrip("_"): _in_json(text) for field, text in field_docstrings(kind).items()}


def _in_json(text: str) -> str:
    return re.sub(r"\bNone\b", "null", inspect.cleandoc(text))
