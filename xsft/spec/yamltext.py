"""Text of a workload -> plain data, with the line of every key. Pure.

Strict: YAML 1.2 core schema, string keys once each, no anchors, tags, merges, directives or second document. libyaml
only delivers events: data is built here, so that aliases are never expanded and depth is bounded before anything
recurses. (libyaml itself is quadratic in the depth of flow collections, 23 CPU-s at depth 100,000; reading stops at
`MAX_DEPTH`.) What YAML 1.1 and 1.2 read differently is refused.

source: YAML 1.2.2 §10.3.2 (core schema). `no`, `off`, `yes`, `on`, `12:30:00` and dates are text; `1e-5` is a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, NoReturn

import yaml
from msgspec import Struct, field

from xsft.base.errors import SpecError
from xsft.base.problems import Problem, error
from xsft.base.secrets import looks_secret, redact
from xsft.spec.keypath import path_below, shown_text

MAX_DEPTH = 40
MAX_PROBLEMS = 50
"""Maximum number of problems; reading stops there."""
MAX_KEY_PATH = 400
"""Maximum characters of a key path; bounds what the paths of many children under long keys take."""
YamlScalar = str | int | float | bool | None

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
}
_INT = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")
_RADIX = re.compile(r"[-+]?0(?:x[0-9a-fA-F_]+|o[0-7_]+|b[01_]+)")
_UNDERSCORES = re.compile(r"[-+]?[0-9][0-9_]*_[0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?")
_INT_LIMIT = 2**63
"""Bound of integers: JSON readers and MaxText's own parser hold 64-bit integers."""
_MAX_DIGITS = 20
SAFE_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's loader if it is installed: ten times as fast, and some people have a hundred contexts."""


class ParsedYaml(Struct, frozen=True, kw_only=True):
    data: dict[str, object]
    lines: Mapping[str, int] = field(default_factory=dict)
    """Key path -> line, counted from 1."""
    raw: Mapping[str, str] = field(default_factory=dict)
    """Key path -> the text as written, for numbers, booleans and nulls: `1.10` is lost in 1.1."""


class ParsedValue(Struct, frozen=True, kw_only=True):
    value: object
    raw: Mapping[str, str]


def parse_yaml(text: str) -> ParsedYaml:
    """Return the parsed text. Raises SpecError with every problem found."""
    contents = _YamlContents()
    value, is_empty = _parse_document(text.removeprefix("\ufeff"), "", contents)
    if not contents.problems:
        contents.problems.extend(_not_a_mapping(value, is_empty=is_empty))
    if contents.problems or not isinstance(value, dict):
        raise SpecError(tuple(contents.problems))
    return ParsedYaml(data=value, lines=contents.lines, raw=contents.raw)


def parse_value(text: str, where: str) -> ParsedValue:
    """Return one value in YAML's flow form, e.g. `[question, answer]`; `where` is its key path. Raises SpecError."""
    contents = _YamlContents()
    value, _ = _parse_document(text, where, contents)
    if contents.problems:
        raise SpecError(tuple(contents.problems))
    return ParsedValue(value=value, raw=contents.raw)


class _YamlContents(Struct):
    """The values, lines and problems that one reading collects."""

    problems: list[Problem] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)
    raw: dict[str, str] = field(default_factory=dict)

    def refuse(self, id: str, where: str, mark: Any, message: str, fix: str) -> None:
        """Note a problem and continue to read."""
        self.problems.append(error(id, where, f"line {mark.line + 1}, column {mark.column + 1}: {message}", fix))
        if len(self.problems) >= MAX_PROBLEMS:
            raise SpecError(tuple(self.problems))

    def stop(self, id: str, where: str, mark: Any, message: str, fix: str) -> NoReturn:
        """Note a problem and stop, because later problems would only be consequences."""
        self.refuse(id, where, mark, message, fix)
        raise SpecError(tuple(self.problems))


def _parse_document(text: str, where: str, contents: _YamlContents) -> tuple[object, bool]:
    """Return the value, and whether the text was empty."""
    if problem := before_parsing(text):
        raise SpecError((problem,))
    try:
        return _first_document(text, where, contents)
    except yaml.YAMLError as broken:
        problems = (*contents.problems, explain_syntax(broken, text))
    raise SpecError(problems)  # outside the handler: as the context, libyaml's error may quote the file


def _first_document(text: str, where: str, contents: _YamlContents) -> tuple[object, bool]:
    events: Iterator[Any] = yaml.parse(text, Loader=SAFE_LOADER)
    next(events)  # stream start
    if not isinstance(next(events), yaml.DocumentStartEvent):
        return None, True
    root = next(events)
    value = _node(events, root, where=where, depth=0, contents=contents)
    end = next(events).end_mark
    if second_document(text[end.index :]):
        contents.refuse("yaml-documents", "", end, "a second document starts here", "Keep one workload per file.")
    return value, isinstance(root, yaml.ScalarEvent) and value is None


def _not_a_mapping(value: object, *, is_empty: bool) -> tuple[Problem, ...]:
    if isinstance(value, dict):
        return ()
    fix = "Write keys at the top level, each followed by a colon and a space: `name: my-run`."
    if is_empty:
        return (error("yaml-empty", "", "the file has no keys: it is empty or has only comments", fix),)
    kind = "a list" if isinstance(value, list) else "a single value"
    message = f"the file has {kind} at the top level; a workload is a mapping of keys"
    return (error("yaml-not-mapping", "", message, fix),)


def _node(events: Iterator[Any], event: Any, *, where: str, depth: int, contents: _YamlContents) -> object:
    _refuse_extras(event, where, contents)
    if isinstance(event, yaml.AliasEvent):
        return None
    if isinstance(event, yaml.ScalarEvent):
        return _scalar(event, where, contents)
    if depth >= MAX_DEPTH:
        fix = "Flatten it; no workload needs this."
        contents.stop("yaml-too-deep", where, event.start_mark, f"nested deeper than {MAX_DEPTH} levels", fix)
    if isinstance(event, yaml.SequenceStartEvent):
        elements: list[object] = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            path = path_below(where, len(elements))
            contents.lines[path] = event.start_mark.line + 1
            elements.append(_node(events, event, where=path, depth=depth + 1, contents=contents))
        return elements
    return _read_mapping(events, where=where, depth=depth, contents=contents)


def _refuse_extras(event: Any, where: str, contents: _YamlContents) -> None:
    if event.anchor is not None:
        what = "an alias (*name)" if isinstance(event, yaml.AliasEvent) else "an anchor (&name)"
        fix = "Write the value out; quote it if it is text that starts with * or &."
        contents.refuse("yaml-alias", where, event.start_mark, f"{what} is not accepted", fix)
    if getattr(event, "tag", None) is not None:
        fix = "Remove the tag (!name); quote the value if it is text."
        message = "a tag is not accepted: the text of a value decides its type"
        contents.refuse("yaml-tag", where, event.start_mark, message, fix)


def _scalar(event: Any, where: str, contents: _YamlContents) -> object:
    text: str = event.value
    if "\0" in text:
        fix = "Remove it: no command line or environment variable can carry it."
        contents.refuse("yaml-character", where, event.start_mark, "the value contains a NUL character", fix)
    if event.style:  # quoted, or a block scalar: always text
        return text
    value = resolve_plain(text)
    if isinstance(value, Surprise):
        contents.refuse("yaml-surprise", where, event.start_mark, value.message, value.fix)
        return None
    if not isinstance(value, str):
        contents.raw[where] = text
    return value


def _read_mapping(events: Iterator[Any], *, where: str, depth: int, contents: _YamlContents) -> dict[str, object]:
    data: dict[str, object] = {}
    lines: dict[str, int] = {}
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        key = _parse_key(event, where=where, contents=contents)
        path = where if key is None else path_below(where, key)
        if len(path) > MAX_KEY_PATH:
            message = f"key path over {MAX_KEY_PATH} characters"
            contents.stop("yaml-key", where, event.start_mark, message, "Shorten the key.")
        line = event.start_mark.line + 1
        is_new = key is not None and key not in data
        if is_new:
            contents.lines[path] = line
        value = _node(events, next(events), where=path, depth=depth + 1, contents=contents)
        if key is None:
            continue
        if not is_new:
            message = f"key given twice, first on line {lines[key]}"
            contents.refuse("yaml-duplicate-key", path, event.start_mark, message, "Remove one of the two.")
            continue
        data[key], lines[key] = value, line
    return data


def _parse_key(event: Any, *, where: str, contents: _YamlContents) -> str | None:
    """Return the key; None if it is refused (its value is still read, for its own problems)."""
    if not isinstance(event, yaml.ScalarEvent):
        fix = "Write a plain word as the key; quote a value that starts with { or ?."
        contents.stop("yaml-key", where, event.start_mark, "a key must be text", fix)
    _refuse_extras(event, where, contents)
    text: str = event.value
    is_plain = not event.style
    if is_plain and text == "<<":
        contents.refuse(
            "yaml-merge", where, event.start_mark, "merge keys (<<) are not accepted", "Write the keys out."
        )
        return None
    if is_plain and not isinstance(resolve_plain(text), str):
        what = f"key {quote_unless_secret(text)} is not text" if text else "a key is missing before the colon"
        fix = f"Quote it: '{shown_text(text)}'." if text else "Write the key."
        contents.refuse("yaml-key", where, event.start_mark, what, fix)
        return None
    if "\0" in text:
        contents.refuse("yaml-character", where, event.start_mark, "the key contains a NUL character", "Remove it.")
        return None
    return text


# source: YAML 1.2.2 §5.1, the printable set; surrogates cannot be encoded and crash PyYAML's C reader.
_ILLEGAL = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_DIRECTIVE = re.compile(r"\A(?:[ \t]*(?:#[^\r\n]*)?(?:\r\n|\r|\n))*%")
_INDENT_TAB = re.compile(r"[ ]*\t")
_FIXES = (
    ("mapping values are not allowed", "Check the indentation, and quote a value that contains ': '."),
    ("cannot start any token", "Quote a value that starts with @, ` or %."),
    ("could not find expected ':'", "Write `key: value`, and check the line before."),
    ("end of stream", "Close the quote or bracket."),
    ("escape", "Use single quotes for text with backslashes."),
)
_FIX = "Check the indentation, and that every bracket and quote is closed."


def before_parsing(text: str) -> Problem | None:
    """Return the problem of a text that must not reach the parser: characters it reports badly, directives it is slow
    on."""
    if illegal := _ILLEGAL.search(text):
        before = text[: illegal.start()]
        line = before.count("\n") + 1
        column = illegal.start() - before.rfind("\n")
        message = f"line {line}, column {column}: character U+{ord(illegal.group()):04X} is not allowed in YAML"
        return error("yaml-character", "", message, "Remove it; save the file as UTF-8 text.")
    if _DIRECTIVE.match(text):
        return error("yaml-directive", "", "the file starts with a % directive", "Remove the %YAML or %TAG line.")
    return None


def explain_syntax(broken: yaml.YAMLError, text: str) -> Problem:
    mark = getattr(broken, "problem_mark", None)
    if mark is None:
        return error("yaml-syntax", "", "the file is not YAML", _FIX)
    context = getattr(broken, "context_mark", None) or mark
    for number, line in enumerate(text.splitlines()[context.line : mark.line + 1], context.line + 1):
        if _INDENT_TAB.match(line):
            fix = "Use spaces; YAML does not indent with tabs."
            return error("yaml-tab", "", f"line {number}: a tab in the indentation", fix)
    problem = shown_text(redact(getattr(broken, "problem", None) or "not YAML"))
    start = f" (in what starts on line {context.line + 1})" if context.line != mark.line else ""
    message = f"line {mark.line + 1}, column {mark.column + 1}: {problem}{start}"
    return error("yaml-syntax", "", message, next((fix for word, fix in _FIXES if word in problem), _FIX))


def second_document(text: str) -> bool:
    """Return whether anything but comments follows the end of the document."""
    lines = (line.strip() for line in text.splitlines())
    return any(line and not line.startswith(("#", "...")) for line in lines)


class Surprise(Struct, frozen=True):
    """A scalar that YAML parsers read differently, or that no field can hold."""

    message: str
    fix: str


def resolve_plain(text: str) -> YamlScalar | Surprise:
    """Return the value of an unquoted scalar, e.g. `1e-5` -> 0.00001, `no` -> "no"."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "-+.0123456789":
        return text
    return _surprise(text) or _parse_number(text)


def _parse_number(text: str) -> YamlScalar | Surprise:
    if _INT.fullmatch(text):
        return int(text) if len(text) <= _MAX_DIGITS and abs(int(text)) < _INT_LIMIT else _too_big(text)
    if not _FLOAT.fullmatch(text):
        return text
    value = float(text)
    return value if isfinite(value) else _too_big(text)


def _surprise(text: str) -> Surprise | None:
    if _LEADING_ZERO.fullmatch(text):
        number = shown_text(text[: text.startswith("-")] + (text.lstrip("+-0") or "0"))
        return Surprise(
            f"{quote_unless_secret(text)} starts with a zero: some YAML parsers read it as octal, others as decimal",
            f"Write {number} for the number, or quote it for text: '{shown_text(text)}'.",
        )
    if _RADIX.fullmatch(text) or _UNDERSCORES.fullmatch(text):
        return Surprise(
            f"{quote_unless_secret(text)} is a number for some YAML parsers and text for others",
            f"Write the number in plain decimal digits, or quote it for text: '{shown_text(text)}'.",
        )
    if _NOT_FINITE.fullmatch(text):
        fix = f"Give a finite number, or quote it for text: '{shown_text(text)}'."
        return Surprise(f"{quote_unless_secret(text)} is not a finite number", fix)
    return None


def quote_unless_secret(text: str) -> str:
    return "a value (not shown: it looks like a secret)" if looks_secret(text) else f"`{shown_text(text)}`"


def _too_big(text: str) -> Surprise:
    fix = f"Give a smaller number, or quote it for text: '{shown_text(text)}'."
    return Surprise(f"{quote_unless_secret(text)} is too large for a number", fix)


def same_value(a: Any, b: Any) -> bool:
    """Return whether two values of workloads or manifests are equal: 1 is 1.0, and neither is true, which Python calls
    equal."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same_value(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same_value, a, b))
    return bool(a == b)


def load_yaml(text: str) -> Any:
    """Return the parsed document. Raises yaml.YAMLError."""
    return yaml.load(text, Loader=SAFE_LOADER)  # noqa: S506 - a safe loader
