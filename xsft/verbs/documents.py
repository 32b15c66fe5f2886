"""The documents of all verbs, and their published schemas, on which scripts may rely. No verb imports it.

`docs/generate.py` makes xsft/schemas/*.json and docs/reference/machine-interface.md from it.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any, cast

from msgspec import json
from msgspec.inspect import CollectionType, DataclassType, DictType, StructType, TupleType, Type, UnionType, type_info

from xsft import verbs
from xsft.base.docstrings import field_docstrings
from xsft.evaluation.report import EvaluationReport
from xsft.verbs.document import Document, ErrorDocument


class EvaluationDocument(
    Document, EvaluationReport, frozen=True, kw_only=True, tag_field="schema", tag="xsft.evaluation/1"
):
    """The file `evaluation.json` of an evaluate stage."""


def _documents() -> dict[str, type[Document]]:
    """Return the documents in the modules of the verbs, each by its tag without `xsft.` and the version."""
    for module in pkgutil.iter_modules(verbs.__path__, "xsft.verbs."):
        import_module(module.name)
    documents = dict(_tagged(Document))
    return {tag.removeprefix("xsft.").removesuffix("/1"): documents[tag] for tag in sorted(documents)}


def _tagged(kind: type[Document]) -> Iterator[tuple[str, type[Document]]]:
    if tag := kind.__struct_config__.tag:
        yield str(tag), kind
    for narrower in kind.__subclasses__():
        yield from _tagged(narrower)


DOCUMENTS: dict[str, type[Document]] = {**_documents(), "error": ErrorDocument}
"""Name -> document: of a verb, of a file (`evaluation`), of what is posted (`notice`), and of any error."""


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
    keys = sorted(node["properties"], key=_rank)  # every field is always printed
    properties: dict[str, dict[str, Any]] = {}
    for key in keys:
        properties[key] = {name: part for name, part in node["properties"][key].items() if name != "default"}
        if key in texts:
            properties[key]["description"] = texts[key]
    about = {"description": _in_json(node["description"]).partition("\n\n")[0]} if "description" in node else {}
    return {**node, **about, "properties": properties, "required": keys}


def _rank(key: str) -> int:
    """Return the position of a field: the schema's name first, what all documents have last."""
    last = ("problems", "exit_status")
    return last.index(key) + 1 if key in last else -(key == "schema")


def _field_texts(kind: type) -> dict[str, str]:
    if not kind.__module__.startswith("xsft."):
        return {}
    return {field.rstrip("_"): _in_json(text) for field, text in field_docstrings(kind).items()}


def _in_json(text: str) -> str:
    return re.sub(r"\bNone\b", "null", inspect.cleandoc(text))
