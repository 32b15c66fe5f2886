"""`--set a.b=c`: settings of the command line over a parsed workload. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from xsft.base.errors import SpecError
from xsft.base.problems import Problem, error
from xsft.spec.keypath import key_part, key_path
from xsft.spec.scalars import Surprise, resolve_plain
from xsft.spec.yamltext import MAX_DEPTH, ParsedYaml, parse_value

ONE_KEY_BELOW: tuple[tuple[str, ...], ...] = (("overrides", "maxtext"), ("env",), ("checks",))
"""Sections whose keys may contain dots: the rest of the path is one key, e.g. `overrides.maxtext.lora.lora_rank`."""

_FORM = "Write --set KEY.PATH=VALUE, e.g. --set train.steps=10."


def apply_overrides(parsed: ParsedYaml, settings: Sequence[str]) -> ParsedYaml:
    """Return a new ParsedYaml; later settings win. Values are typed as in the file; `null` removes an existing key.

    Raises SpecError (a UsageError) with the problem of every bad setting.
    """
    problems: list[Problem] = []
    for text in settings:
        try:
            parsed = _apply_setting(parsed, _parse_setting(text))
        except SpecError as bad:
            problems.extend(bad.problems)
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
        return _flow(path, where, text)
    value = resolve_plain(text)
    if isinstance(value, Surprise):
        raise SpecError((error("yaml-surprise", where, f"--set: {value.message}", value.fix),))
    return _Setting(path, value, {} if isinstance(value, str) else {where: text})


def _flow(path: tuple[str, ...], where: str, text: str) -> _Setting:
    try:
        parsed = parse_value(text, where)
    except SpecError as bad:
        problems = tuple(
            error(p.id, p.where or where, f"value of --set {where}: {p.message}", p.fix) for p in bad.problems
        )
    else:
        return _Setting(path, parsed.value, parsed.raw)
    raise SpecError(problems)


def _apply_setting(parsed: ParsedYaml, setting: _Setting) -> ParsedYaml:
    data = _place_value(parsed.data, setting.path, setting)
    where = key_path(setting.path)
    raw = {path: text for path, text in parsed.raw.items() if not _is_at_or_below(path, where)}
    lines = {path: line for path, line in parsed.lines.items() if not _is_at_or_below(path, where)}
    return ParsedYaml(data=data, lines=lines, raw=raw | dict(setting.raw))


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


def _is_at_or_below(path: str, ancestor: str) -> bool:
    return path == ancestor or path.startswith(ancestor + ".")


def _invalid_setting(name: str, message: str, fix: str) -> SpecError:
    return SpecError((error("bad-set", key_part(name)[:60], message, fix),))
