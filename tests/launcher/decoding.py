"""Undo `launcher.encoding.encode_command`, so that a test sees what bash makes of a line."""

from __future__ import annotations

import re

from xsft.launcher.encoding import RESTARTS, CountedArgument, EnvPairs, encode_command

_ANSI = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def decode_command(encoded: str) -> tuple[EnvPairs, tuple[str, ...]]:
    """Return (env, argv) of a line that `encode_command` wrote, as at the first start; ValueError for every other
    line.
    """
    words = _bash_words(_undouble(encoded))
    start_time = next((i for i, (raw, _) in enumerate(words) if raw == "exec"), None)
    if start_time is None:
        raise ValueError(f"no `exec` in the command {encoded[:80]!r}")
    pairs = [value.partition("=") for _, value in words[:start_time]]
    env = tuple((name, value) for name, _, value in pairs)
    argv = tuple(value for _, value in words[start_time + 1 :])
    counted = next((_counted(match) for raw, _ in words if (match := _COUNTED.fullmatch(raw))), None)
    written = (encode_command(argv=argv, env=env, mode=mode, counted=counted) for mode in ("mcjax", "pathways"))
    if encoded not in written:
        raise ValueError(f"xsft did not write the command {encoded[:80]!r}")
    return env, argv


def _undouble(encoded: str) -> str:
    if "$" in encoded.replace("$$", ""):
        raise ValueError(f"a single `$`, which Kubernetes may expand, in {encoded[:80]!r}")
    return encoded.replace("$$", "$")


_PART = re.compile(
    r"""(?P<plain>[^\s'"\\$]+) | '(?P<single>[^']*)' | "(?P<double>')" | \$'(?P<ansi>(?:[^'\\]|\\.)*)'""", re.VERBOSE
)
_COUNTED = re.compile(rf'(\w+)="\$\(\(([0-9]+)\+([0-9]+)\*\$\{{{RESTARTS}:-0\}}\)\)"', re.ASCII)
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|(.))")
_UNANSI = {escape[1]: character for character, escape in _ANSI.items()}


def _bash_words(line: str) -> list[tuple[str, str]]:
    """Return (as written, as bash reads it) for each word, in the subset of bash's quoting that `_bash_word` uses."""
    words, position = [], 0
    while position < len(line):
        start, value = position, ""
        if match := _COUNTED.match(line, position):
            value, position = _counted(match).argument, match.end()
        while part := _PART.match(line, position):
            value, position = value + _part_value(part), part.end()
        if start == position or line[position : position + 1] not in ("", " "):
            raise ValueError(f"xsft does not write {line[start : start + 40]!r}")
        words.append((line[start:position], value))
        position += 1
    return words


def _counted(match: re.Match[str]) -> CountedArgument:
    return CountedArgument(key=match[1], first=int(match[2]), each=int(match[3]))


def _part_value(part: re.Match[str]) -> str:
    ansi = part.group("ansi")
    if ansi is None:
        return str(part.group("plain") or part.group("single") or part.group("double") or "")
    return _ESCAPE.sub(_unescape, ansi).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _unescape(match: re.Match[str]) -> str:
    """Return an escape as text; bytes above 0x7f are lone surrogates until the whole string is decoded."""
    if match.group(1):
        return bytes.fromhex(match.group(1)).decode("utf-8", "surrogateescape")
    return _UNANSI.get(match.group(2), match.group(0))
