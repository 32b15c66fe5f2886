"""The JSON Schema of a workload, for editors: `python -m xsft.spec.schema [--check]` writes or compares
xsft/spec/schema.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from xsft.spec.model import WorkloadSpec

FILE = Path(__file__).with_name("schema.json")


def schema() -> dict[str, Any]:
    generated = WorkloadSpec.model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "xsft workload",
        **{key: value for key, value in generated.items() if key != "title"},
    }


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
