"""Reference pages from JSON Schemas: every key, type, default, description. Pure; `docs/generate.py` writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from xsft.spec.schema import schema

Node = Mapping[str, Any]

HEAD = """\
# The workload, key by key

Generated from the schema that editors use ([xsft/spec/schema.json](../../xsft/spec/schema.json)) by `make docs`; do not edit.

No other key is taken. Where a value passes through to MaxText unchanged, its name is MaxText's. A key without a default
and without *required* may be left out: xsft or MaxText then decides, and `xsft plan` shows what. `--set a.b=c` changes any
of them for one call. A place in places.yaml has the keys of [`place`](#place).
"""
TABLE = ("| key | type | default | meaning |", "|---|---|---|---|")


def workload_page() -> str:
    """docs/reference/workload.md."""
    return f"{HEAD}\n{tables(schema(), title='Top level')}"


def tables(root: Node, *, title: str) -> str:
    """One table per section of a JSON Schema, in the order in which they are first used; `title` heads the first."""
    sections = _sections(root).items()
    below = (line for name, path in sections for line in _section(f"`{path}`", root["$defs"][name], root))
    return "\n".join((*_section(title, root, root), *below))


def _section(title: str, node: Node, root: Node) -> Iterator[str]:
    yield f"## {title}\n"
    if node.get("description"):
        yield f"{node['description']}\n"
    yield from TABLE
    required = node.get("required", ())
    for key, value in node["properties"].items():
        default = "*required*" if key in required else _default(value, root)
        yield f"| `{key}` | {_cell(_type(value, root))} | {default} | {_cell(_meaning(value, root))} |"
    yield ""


def _sections(root: Node) -> dict[str, str]:
    """Name of each section -> key path of its first use, breadth first."""
    found: dict[str, str] = {}
    waiting = [("", root)]
    while waiting:
        path, node = waiting.pop(0)
        for key, value in node.get("properties", {}).items():
            for name in _references(value):
                at = f"{path}.{key}" if path else key
                if name not in found and "properties" in root["$defs"][name]:
                    found[name] = at
                    waiting.append((at, root["$defs"][name]))
    return found


def _references(node: Node) -> Iterator[str]:
    if "$ref" in node:
        yield node["$ref"].rpartition("/")[2]
    for part in node.get("anyOf", ()):
        yield from _references(part)


def _type(node: Node, root: Node) -> str:
    """In words: `text`, `integer >= 1`, `list of text`, `one of a, b`, or the section."""
    if "$ref" in node:
        return _type_of_reference(node["$ref"].rpartition("/")[2], root)
    if "anyOf" in node:
        members = (_type(part, root) for part in node["anyOf"] if part.get("type") != "null")
        return " or ".join(dict.fromkeys(members))
    if "const" in node:
        return f"`{node['const']}`"
    if "enum" in node:
        return "one of " + ", ".join(f"`{value}`" for value in node["enum"])
    return _plain(node, root)


def _plain(node: Node, root: Node) -> str:
    match node.get("type"):
        case "string":
            return f"text, at most {node['maxLength']} characters" if "maxLength" in node else "text"
        case "array":
            return f"list of {_type(node.get('items', {}), root)}"
        case "object":
            return f"mapping{_names(node, root)} to {_type(_values(node), root)}"
        case "integer" | "number" as kind:
            return kind + _bounds(node)
        case "boolean":
            return "`true` or `false`"
        case _:
            return "any value"


def _names(node: Node, root: Node) -> str:
    """The keys a mapping takes, where they are a closed set."""
    names = node.get("propertyNames", {})
    return f" of {_type(names, root)}" if "enum" in names else ""


def _values(node: Node) -> Node:
    """What a mapping maps to."""
    patterns = node.get("patternProperties")
    values: Node | bool = next(iter(patterns.values())) if patterns else node.get("additionalProperties", {})
    return values if isinstance(values, Mapping) else {}


def _bounds(node: Node) -> str:
    words = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤"}
    bounds = " and ".join(f"{sign} {node[key]}" for key, sign in words.items() if key in node)
    return f" {bounds}" if bounds else ""


def _type_of_reference(name: str, root: Node) -> str:
    node = root["$defs"][name]
    if "properties" not in node:
        return _type(node, root)
    path = _sections(root)[name]
    return f"[section](#{path.replace('.', '')})"


def _default(node: Node, root: Node) -> str:
    default = node.get("default")
    is_section = any("properties" in root["$defs"][name] for name in _references(node))
    if default is None or is_section or default in ({}, []):
        return ""
    return f"`{default}`" if isinstance(default, str) else f"`{json.dumps(default)}`"


def _meaning(node: Node, root: Node) -> str:
    """The key's own description, else its section's."""
    own = node.get("description") or next((root["$defs"][n].get("description", "") for n in _references(node)), "")
    return " ".join(str(own).split())


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
