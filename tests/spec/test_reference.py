from __future__ import annotations

import pytest

from xsft.spec.reference import anchor, refused_keys, schema, tables, workload_page
from xsft.spec.refused import REFUSALS

ROOT = {
    "properties": {
        "one": {"$ref": "#/$defs/Part", "description": "its own words"},
        "many": {"type": "array", "items": {"$ref": "#/$defs/Part"}},
        "maybe": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
        "must": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "choice": {"enum": ["a", "b|c"], "default": "a"},
        "axes": {"type": "object", "propertyNames": {"enum": ["x"]}, "additionalProperties": {"type": "integer"}},
    },
    "required": ["must"],
    "$defs": {"Part": {"description": "the section's words", "properties": {"leaf": {"type": "boolean"}}}},
}


def row(key: str) -> list[str]:
    page = tables(ROOT, title="All")
    (line,) = (line for line in page.splitlines() if line.startswith(f"| `{key}` |"))
    return [cell.strip() for cell in line.replace("\\|", "¦").strip("|").split("|")]


@pytest.mark.parametrize(
    ("key", "kind", "default", "meaning"),
    [
        ("one", "[section](#one)", "", "its own words"),
        ("many", "list of [section](#one)", "", "the section's words"),
        ("maybe", "integer ≥ 1", "", ""),
        ("must", "text or `null`", "*required*", ""),
        ("choice", "one of `a`, `b¦c`", "`a`", ""),
        ("axes", "mapping of `x` to integer", "", ""),
        ("leaf", "`true` or `false`", "", ""),
    ],
)
def test_row_describes_kind_default_and_meaning_of_a_key(key: str, kind: str, default: str, meaning: str) -> None:
    assert row(key) == [f"`{key}`", kind, default, meaning]


def test_section_heading_is_its_path() -> None:
    assert "\n## `one`\n" in tables(ROOT, title="All")
    assert anchor("`one`") == "one"


def test_workload_page_lists_every_key_and_every_refusal() -> None:
    page, root = workload_page(), schema()
    nodes = (root, *(node for node in root["$defs"].values() if "properties" in node))
    missing = {key for node in nodes for key in node["properties"] if f"| `{key}` |" not in page}
    assert missing == set()
    rows = refused_keys().splitlines()
    for key, refusal in REFUSALS.items():
        assert any(row.startswith(f"| `{refusal.id}` |") and f"`{key}`" in row for row in rows), key
