"""The JSON Schema of a workload, for editors: `python -m xsft.spec.schema [--check]` writes or compares
xsft/spec/schema.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from xsft.docstrings import field_docstrings
from xsft.spec.base import Section
from xsft.spec.model import WorkloadSpec

FILE = Path(__file__).with_name("schema.json")


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
    for name, text in field_docstrings(kind).items():
        key = kind.model_fields[name].alias or name
        properties[key] = dict(sorted({**properties[key], "description": text}.items()))


def schema_text() -> str:
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    if "--check" not in arguments:
        FILE.write_text(schema_text(), encoding="utf-8")
        return 0
    if FILE.exists() and FILE.read_text(encoding="utf-8") == schema_text():
        return 0
    sys.stderr.write("xsft/spec/schema.json is out of date; run `make docs`\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
