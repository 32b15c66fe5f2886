"""Match paths against `.dockerignore` rules. Pure.

source: moby v28 pkg/patternmatcher: the last rule that matches wins, `!` re-includes, a rule for a folder applies to
everything below it. The Docker SDK's own matcher (docker 7.1.0 utils/build.py) ignores case, and misses files below a
folder that a `**` rule names; tests/image/test_ignore.py compares with a real build.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator

IgnoreMatcher = Callable[[str], bool]
"""Whether a path in the context (with `/`) is ignored."""


_WILDCARDS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
"""Go's wildcards as regular expressions; longer ones precede their prefixes."""


def ignore_matcher(*texts: str) -> IgnoreMatcher:
    """Return a matcher for the rules of all texts, in order."""
    rules = [rule for text in texts for rule in _ignore_rules(text)]

    def ignored(path: str) -> bool:
        lines = (path, *_parents(path))
        verdict = False
        for pattern, takes_back in rules:
            if verdict == takes_back and any(pattern.fullmatch(line) for line in lines):
                verdict = not takes_back
        return verdict

    return ignored


def _ignore_rules(text: str) -> Iterator[tuple[re.Pattern[str], bool]]:
    for line in text.removeprefix("\ufeff").splitlines():
        rule = line.strip()
        if not rule or line.startswith("#"):
            continue
        takes_back = rule.startswith("!")
        path = posixpath.normpath(rule[1:].strip() if takes_back else rule).lstrip("/")
        if path not in {"", "."}:
            yield re.compile(_expression(path), re.DOTALL), takes_back


def _expression(path: str) -> str:
    parts, at = [], 0
    while at < len(path):
        piece, at = _piece(path, at)
        parts.append(piece)
    return "".join(parts)


def _piece(path: str, at: int) -> tuple[str, int]:
    """Translate one element of a Go path pattern to a regular expression; return it and the next position."""
    for wildcard, expression in _WILDCARDS.items():
        if path.startswith(wildcard, at):
            return expression, at + len(wildcard)
    if path[at] == "[" and (end := path.find("]", at + 2)) > 0:
        return path[at : end + 1].replace("\\", "\\\\"), end + 1
    if path[at] == "\\" and at + 1 < len(path):
        return re.escape(path[at + 1]), at + 2
    return re.escape(path[at]), at + 1


def _parents(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
