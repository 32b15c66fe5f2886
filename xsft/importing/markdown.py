"""Extract the shell blocks of a Markdown page. Pure.

source: CommonMark 0.31 "Fenced code blocks"; MyST's `{code-block} bash` and Pandoc's `{.bash}` are recognised too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_FENCE = re.compile(r"(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})(?P<info>[^`\n]*)")
_SHELLS = frozenset({"bash", "sh", "shell", "zsh", "console", "shell-session", "text"})


def shell_lines(text: str) -> str:
    """Return only the shell blocks if the text is a page with an xpk line in one of them; else the whole text.

    All other lines become empty, so that line numbers stay those of the page.
    """
    lines = text.split("\n")
    kept = dict(_in_shell_blocks(lines))
    if not any("workload" in line for line in kept.values()):
        return text
    return "\n".join(kept.get(number, "") for number in range(len(lines)))


def _in_shell_blocks(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield (index, line without the fence's indentation)."""
    opened: re.Match[str] | None = None
    for number, line in enumerate(lines):
        fence = _FENCE.match(line)
        if opened is None:
            opened = fence
        elif fence and _closes(fence, opened):
            opened = None
        elif _is_shell(opened):
            yield number, line.removeprefix(opened["indent"])


def _closes(fence: re.Match[str], opened: re.Match[str]) -> bool:
    return fence["fence"].startswith(opened["fence"]) and not fence["info"].strip()


def _is_shell(opened: re.Match[str]) -> bool:
    """Return whether the block is shell; a block without a language counts."""
    words = re.findall(r"[A-Za-z][\w-]*", opened["info"])
    return not words or bool(_SHELLS & {word.lower() for word in words})
