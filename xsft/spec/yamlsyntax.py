"""Problems of a text that is not YAML. Pure. The text is never quoted: it may hold a secret."""

from __future__ import annotations

import re

import yaml

from xsft.base.problems import Problem, error
from xsft.base.secrets import redact
from xsft.spec.keypath import shown_text

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
    if found := _ILLEGAL.search(text):
        name = f"U+{ord(found.group()):04X}"
        message = f"{_position(text, found.start())}: character {name} is not allowed in YAML"
        return error("yaml-character", "", message, "Remove it; save the file as UTF-8 text.")
    if _DIRECTIVE.match(text):
        return error("yaml-directive", "", "the file starts with a % directive", "Remove the %YAML or %TAG line.")
    return None


def explain_syntax(broken: yaml.YAMLError, text: str) -> Problem:
    mark = getattr(broken, "problem_mark", None)
    if mark is None:
        return error("yaml-syntax", "", "the file is not YAML", _FIX)
    context = getattr(broken, "context_mark", None) or mark
    if (tab := _tab_line(text, context.line, mark.line)) is not None:
        fix = "Use spaces; YAML does not indent with tabs."
        return error("yaml-tab", "", f"line {tab + 1}: a tab in the indentation", fix)
    problem = shown_text(redact(getattr(broken, "problem", None) or "not YAML"))
    start = f" (in what starts on line {context.line + 1})" if context.line != mark.line else ""
    message = f"line {mark.line + 1}, column {mark.column + 1}: {problem}{start}"
    return error("yaml-syntax", "", message, next((fix for word, fix in _FIXES if word in problem), _FIX))


def second_document(rest: str) -> bool:
    """Return whether anything but comments follows the end of the document."""
    lines = (line.strip() for line in rest.splitlines())
    return any(line and not line.startswith(("#", "...")) for line in lines)


def _tab_line(text: str, first: int, last: int) -> int | None:
    lines = text.splitlines()
    return next((n for n in range(first, min(last + 1, len(lines))) if _INDENT_TAB.match(lines[n])), None)


def _position(text: str, index: int) -> str:
    before = text[:index]
    line = before.count("\n") + 1
    column = index - before.rfind("\n")
    return f"line {line}, column {column}"
