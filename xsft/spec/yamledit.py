"""Sets values in the text of a workload; every other byte stays as it is. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from xsft.base.errors import Refused, SpecError
from xsft.spec.loader import SAFE_LOADER
from xsft.spec.overrides import apply_overrides, split_path
from xsft.spec.scalars import YamlScalar, same_value
from xsft.spec.yamltext import parse_yaml

INDENT = "  "


def settings_of(values: Mapping[str, YamlScalar]) -> tuple[str, ...]:
    """Return key paths and values as `--set` takes them."""
    return tuple(f"{path}={_flow(value)}" for path, value in values.items())


def with_values(text: str, values: Mapping[str, YamlScalar]) -> str:
    """Return the text with the values, key path as in `--set` -> value: in the place of the old one, else after the
    last key of its section.

    `text` is valid YAML. Raises Refused if a value cannot be set without changing other lines, SpecError as `--set`
    does.
    """
    settings = settings_of(values)
    edited = apply_overrides(parse_yaml(text), settings).data
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    changed = text.removeprefix(mark)
    for path, value in values.items():
        changed = _with_value(changed, split_path(path), value)
    if not same_value(parse_yaml(changed).data, edited):
        raise Refused(
            "The workload's text cannot take these values without changing other lines.",
            fix=f"Set them by hand: {', '.join(settings)}.",
        )
    return mark + changed


def _with_value(text: str, path: Sequence[str], value: YamlScalar) -> str:
    node: Any = yaml.compose(text, Loader=SAFE_LOADER)
    for depth, part in enumerate(path):
        child = _child_node(node, part)
        if child is None:
            return _add_value(text, node, path[depth:], value)
        node = child
        if isinstance(node, yaml.ScalarNode):
            return _replace_value(text, node, path[depth + 1 :], value)
    return text


def _child_node(node: Any, name: str) -> Any:
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next((value for key, value in pairs if key.value == name), None)


def _replace_value(text: str, node: Any, keys: Sequence[str], value: YamlScalar) -> str:
    """Return the text with a new value; an empty section becomes `{…}`."""
    start, end = node.start_mark.index, node.end_mark.index
    space = " " if start == end else ""
    return f"{text[:start]}{space}{_nested_flow(keys, value)}{text[end:]}"


def _add_value(text: str, node: Any, path: Sequence[str], value: YamlScalar) -> str:
    if node.flow_style:
        position = node.value[-1][1].end_mark.index if node.value else node.start_mark.index + 1
        return (
            f"{text[:position]}{', ' if node.value else ''}{path[0]}: {_nested_flow(path[1:], value)}{text[position:]}"
        )
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines(keepends=True)
    after = last_line(node) + 1
    if not lines[after - 1].endswith(("\n", "\r")):
        lines[after - 1] += newline
    indent = " " * node.value[0][0].start_mark.column
    return "".join((*lines[:after], *(f"{indent}{line}{newline}" for line in _block(path, value)), *lines[after:]))


def _block(path: Sequence[str], value: YamlScalar) -> list[str]:
    """Return the lines of a value below its sections: `overrides:`, `  maxtext:`, `    mu_dtype: bfloat16`."""
    sections = [f"{INDENT * depth}{part}:" for depth, part in enumerate(path)]
    return [*sections[:-1], f"{sections[-1]} {_flow(value)}"]


def _nested_flow(path: Sequence[str], value: YamlScalar) -> str:
    return f"{{{path[0]}: {_nested_flow(path[1:], value)}}}" if path else _flow(value)


def _flow(value: YamlScalar) -> str:
    """Return a form of the value that is valid in a block, in `{…}` and after `--set KEY=`."""
    return yaml.safe_dump([value], default_flow_style=True, allow_unicode=True, width=10**6).strip()[1:-1]


def last_line(node: yaml.Node) -> int:
    """Return the last line of a value. A block mapping's own end is that of the blank lines and comments below it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return last_line(last[1] if isinstance(last, tuple) else last)
    is_block = isinstance(node, yaml.ScalarNode) and node.style in ("|", ">")
    return int(node.end_mark.line) - (1 if is_block else 0)


def render_place(name: str, place: Mapping[str, Any]) -> str:
    """Return the entry as YAML, ending with a newline."""
    return yaml.safe_dump({name: dict(place)}, sort_keys=False, allow_unicode=True, width=1000)


def with_place(text: str, name: str, place: Mapping[str, Any]) -> str:
    """Return the text with the place: in the lines of the place of that name, else at the end.

    `text` is that of a valid file, or empty. Raises Refused if the place cannot be added to the text as lines, e.g.
    because the whole file is one `{…}`.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    entry = render_place(name, place).replace("\n", newline)
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    lines = text.removeprefix(mark).splitlines(keepends=True)
    first, after = _lines_of(text, name) or (len(lines), len(lines))
    before = "".join(lines[:first])
    if before and not before.endswith(("\n", "\r")):
        before += newline
    changed = mark + before + entry + "".join(lines[after:])
    if _parse_or_empty(changed) != {**_parse_or_empty(text), name: dict(place)}:
        raise Refused(
            "The place cannot be added to this places.yaml without changing the rest of it.",
            fix=f"Write every place on lines of its own, or add it by hand:\n{entry}",
        )
    return changed


def _lines_of(text: str, name: str) -> tuple[int, int] | None:
    """Return the first line of the entry and the line after its last value, counted from 0; None if it has none."""
    root = yaml.compose(text, Loader=SAFE_LOADER)
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    for key, value in pairs:
        if key.value == name:
            return key.start_mark.line, last_line(value) + 1
    return None


def _parse_or_empty(text: str) -> dict[str, object]:
    """Return the parsed text; empty if it is not valid."""
    try:
        return parse_yaml(text).data
    except SpecError:
        return {}
