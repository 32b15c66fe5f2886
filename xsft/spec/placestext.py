"""Adds a place to the text of places.yaml; every other byte stays as it is. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from xsft.base.errors import Refused, SpecError
from xsft.spec.loader import SAFE_LOADER
from xsft.spec.yamledit import last_line
from xsft.spec.yamltext import parse_yaml


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
