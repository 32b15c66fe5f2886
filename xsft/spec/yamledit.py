"""Sets values of a workload: in its text, where every other byte stays as it is, and by `--set a.b=c` after parsing.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from msgspec import Struct

from xsft.base.errors import Refused, SpecError
from xsft.base.problems import Problem, error
from xsft.spec.keypath import key_part, key_path
from xsft.spec.yamltext import (
    MAX_DEPTH,
    SAFE_LOADER,
    ParsedYaml,
    Surprise,
    YamlScalar,
    parse_value,
    parse_yaml,
    resolve_plain,
    same_value,
)

INDENT = "  "
ONE_KEY_BELOW: tuple[tuple[str, ...], ...] = (("overrides", "maxtext"), ("env",), ("checks",))
"""Sections whose keys may contain dots: the rest of the path is one key, e.g. `overrides.maxtext.lora.lora_rank`."""

_FORM = "Write --set KEY.PATH=VALUE, e.g. --set train.steps=10."


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
    # The text is trusted only if it reads as the value set in the parsed data does.
    if not same_value(parse_yaml(changed).data, edited):
        raise Refused(
            "The workload's text cannot take these values without changing other lines.",
            fix=f"Set them by hand: {', '.join(settings)}.",
        )
    return mark + changed


def _with_value(text: str, path: Sequence[str], value: YamlScalar) -> str:
    node: Any = yaml.compose(text, Loader=SAFE_LOADER)
    for depth, part in enumerate(path):
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        child = next((child for key, child in pairs if key.value == part), None)
        if child is None:
            return _add_value(text, node, path[depth:], value)
        node = child
        if isinstance(node, yaml.ScalarNode):  # an empty section becomes `{…}`
            start = node.start_mark.index
            end = node.end_mark.index
            space = " " if start == end else ""
            return f"{text[:start]}{space}{_nested_flow(path[depth + 1 :], value)}{text[end:]}"
    return text


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
    # The sections above it, and the value: `overrides:`, `  maxtext:`, `    mu_dtype: bfloat16`
    indent = " " * node.value[0][0].start_mark.column
    added = [f"{indent}{INDENT * depth}{part}:" for depth, part in enumerate(path)]
    added[-1] += f" {_flow(value)}"
    return "".join((*lines[:after], *(f"{line}{newline}" for line in added), *lines[after:]))


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


def apply_overrides(parsed: ParsedYaml, settings: Sequence[str]) -> ParsedYaml:
    """Return a new ParsedYaml; later settings win. Values are typed as in the file; `null` removes an existing key.

    Raises SpecError (a UsageError) with the problem of every bad setting.
    """
    problems: list[Problem] = []
    for text in settings:
        try:
            setting = _parse_setting(text)
            data = _place_value(parsed.data, setting.path, setting)
        except SpecError as bad:
            problems.extend(bad.problems)
            continue
        where = key_path(setting.path)
        # What the file says at the key and below it is gone
        raw = {path: text for path, text in parsed.raw.items() if not f"{path}.".startswith(f"{where}.")}
        lines = {path: line for path, line in parsed.lines.items() if not f"{path}.".startswith(f"{where}.")}
        parsed = ParsedYaml(data=data, lines=lines, raw={**raw, **setting.raw})
    if problems:
        raise SpecError(tuple(problems))
    return parsed


class _Setting(Struct, frozen=True):
    path: tuple[str, ...]
    value: object
    raw: Mapping[str, str]


def _parse_setting(text: str) -> _Setting:
    name, equals, value = text.partition("=")
    path = split_path(name.strip())
    if not equals:
        raise _invalid_setting(name, f"--set {key_part(name)[:60]!r} has no `=`", _FORM)
    if not all(path):
        raise _invalid_setting(name, f"--set {key_part(name)[:60]!r} has an empty key", _FORM)
    if len(path) > MAX_DEPTH:
        raise _invalid_setting(name, f"--set {key_part(name)[:60]!r}… names a key {len(path)} levels deep", _FORM)
    return _typed_setting(path, value.strip())


def split_path(name: str) -> tuple[str, ...]:
    """Return the keys of a path with dots."""
    parts = tuple(name.split("."))
    for section in ONE_KEY_BELOW:
        if parts[: len(section)] == section and len(parts) > len(section):
            return (*section, ".".join(parts[len(section) :]))
    return parts


def _typed_setting(path: tuple[str, ...], text: str) -> _Setting:
    """Return the setting with its typed value. Only brackets and quotes go to the YAML parser: `--set env.X=a: b #c` is
    that text, as a shell user expects."""
    where = key_path(path)
    if text.startswith(("[", "{", '"', "'")):
        return _flow_value(path, where, text)
    value = resolve_plain(text)
    if isinstance(value, Surprise):
        raise SpecError((error("yaml-surprise", where, f"--set: {value.message}", value.fix),))
    return _Setting(path, value, {} if isinstance(value, str) else {where: text})


def _flow_value(path: tuple[str, ...], where: str, text: str) -> _Setting:
    try:
        parsed = parse_value(text, where)
    except SpecError as bad:
        problems = tuple(
            error(p.id, p.where or where, f"value of --set {where}: {p.message}", p.fix) for p in bad.problems
        )
    else:
        return _Setting(path, parsed.value, parsed.raw)
    raise SpecError(problems)


def _place_value(node: Mapping[str, object], keys: tuple[str, ...], setting: _Setting) -> dict[str, object]:
    key, deeper = keys[0], keys[1:]
    if deeper:
        return {**node, key: _set_in_child(node.get(key), deeper, setting)}
    if setting.value is None and key in node:
        return {k: v for k, v in node.items() if k != key}
    return {**node, key: setting.value}  # a null for an absent key stays, so that a misspelled one is reported


def _set_in_child(child: object, keys: tuple[str, ...], setting: _Setting) -> object:
    if child is None:
        return _place_value({}, keys, setting)
    if isinstance(child, dict):
        return _place_value(child, keys, setting)
    if isinstance(child, list):
        return _in_list(child, keys, setting)
    above = key_path(setting.path[: -len(keys)])
    where = key_path(setting.path)
    raise _invalid_setting(
        where, f"--set {where}: {above} is a single value, nothing can be set below it", f"Set {above} itself."
    )


def _in_list(items: list[object], keys: tuple[str, ...], setting: _Setting) -> list[object]:
    index = keys[0]
    if not (index.isascii() and index.isdecimal() and len(index) < 7 and int(index) < len(items)):
        above = key_path(setting.path[: -len(keys)])
        name = key_path(setting.path)
        message = f"--set {name}: {above} is a list of {len(items)}; {key_part(index)!r} is none of its indexes"
        raise _invalid_setting(
            name, message, f"Use an index below {len(items)}, or set the whole list: {above}=[a, b]."
        )
    position = int(index)
    new = setting.value if len(keys) == 1 else _set_in_child(items[position], keys[1:], setting)
    return [*items[:position], new, *items[position + 1 :]]


def _invalid_setting(name: str, message: str, fix: str) -> SpecError:
    return SpecError((error("bad-set", key_part(name)[:60], message, fix),))
