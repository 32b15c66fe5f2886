"""The JSON Schema of a workload, for editors. Pure; `docs/generate.py` writes it, and schema.json beside this module is
a link to it.
"""

from __future__ import annotations

import json
from typing import Any

from xsft.base.docstrings import field_docstrings
from xsft.spec.base import Section
from xsft.spec.model import WorkloadSpec


def schema() -> dict[str, Any]:
    generated = WorkloadSpec.model_json_schema()
    kinds = {kind.__name__: kind for kind in Section.__subclasses__() if kind.__module__.startswith("xsft.spec.")}
    for name, part in {WorkloadSpec.__name__: generated, **generated["$defs"]}.items():
        _describe(part["properties"], kinds[name])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "xsft workload",
        **{key: value for key, value in generated.items() if key != "title"},
    }


def _describe(properties: dict[str, dict[str, Any]], kind: type[Section]) -> None:
    """Add the docstring below each field. (pydantic's `use_attribute_docstrings` reads them at every start.)"""
    for key, text in field_docstrings(kind).items():
        properties[key] = dict(sorted({**properties[key], "description": text}.items()))


def schema_text() -> str:
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"
