"""The one xpk line of a paste, among whatever else was copied with it. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from xsft.errors import SpecError
from xsft.importer.notes import Notes
from xsft.importer.shell import Simple
from xsft.importer.trainer import head
from xsft.problems import Problem, error

VERBS = ("create", "create-pathways")
MAX_NAMED = 50
"""Other commands of a paste that are named."""
_LAUNCHERS = frozenset({"uv", "uvx", "pipx", "poetry"})
_FIX = "Paste the command that starts with `xpk workload create` or `xpk workload create-pathways`."


class XpkLine(Struct, frozen=True, kw_only=True):
    verb: str
    arguments: tuple[str, ...]

    @property
    def argv(self) -> tuple[str, ...]:
        """As `xsft plan` writes it."""
        return ("xpk", "workload", self.verb, *self.arguments)


def find_xpk_line(commands: Sequence[Simple], notes: Notes) -> XpkLine:
    """Raises SpecError where there is none, or more than one; names the other commands in the notes."""
    found = [(one, line) for one in commands if (line := _xpk_line(one.argv))]
    if not found:
        raise SpecError((_none(commands, notes),))
    if len(found) > 1:
        lines = ", ".join(str(one.line) for one, _ in found)
        message = f"{len(found)} xpk workload lines were pasted (lines {lines}); one workload is one of them."
        raise SpecError((error("import-several", "", message, "Import them one by one."),))
    ours = found[0][0]
    for one in [one for one in commands if one is not ours][:MAX_NAMED]:
        _say_ignored(one, notes)
    if ours.after in ("|", "|&", "&&", "||", "&"):
        notes.differ(f"{ours.after} after the xpk line", why="what follows the xpk line does not become a workload")
    return found[0][1]


def _xpk_line(argv: tuple[str, ...]) -> XpkLine | None:
    """`xpk workload create …`, `python3 xpk.py …`, `python3 -m xpk.main …`, `uvx xpk …`, `$XPK workload create …`."""
    at = next((i for i, word in enumerate(argv[:6]) if word == "workload"), None)
    if at is None or at == 0 or at + 1 >= len(argv) or argv[at + 1] not in VERBS:
        return None
    options = [word for word in argv[1:at] if word.startswith("--")]
    if not _is_xpk([word for word in argv[:at] if word not in options]):
        return None
    return XpkLine(verb=argv[at + 1], arguments=(*options, *argv[at + 2 :]))


def _is_xpk(words: list[str]) -> bool:
    last = PurePosixPath(words[-1]).name
    if len(words) == 1:
        return last == "xpk" or words[0].startswith("\0")
    first = PurePosixPath(words[0]).name
    if first in _LAUNCHERS:
        return re.fullmatch(r"xpk(==.*)?", last) is not None
    return first.startswith("python") and last in ("xpk.py", "xpk", "xpk.main", "main.py")


def _none(commands: Sequence[Simple], notes: Notes) -> Problem:
    heads = tuple(dict.fromkeys(head(one, notes) for one in commands[:MAX_NAMED]))
    if "gcluster" in heads:
        message = "This is a line of gcluster, Cluster Toolkit's launcher; import reads lines of xpk."
        return error("import-no-line", "", message, "Start from a template: `xsft init`.")
    if any(one.argv[0] == "xpk" for one in commands):
        message = "The xpk line is of another verb than `workload create` and `workload create-pathways`."
        return error("import-no-line", "", message, _FIX)
    said = f"; it has: {', '.join(heads[:5])}" if heads else "; it has no command at all"
    return error("import-no-line", "", f"There is no xpk line in the paste{said}.", _FIX)


def _say_ignored(one: Simple, notes: Notes) -> None:
    name = head(one, notes)
    why = "only the xpk line becomes a workload"
    if "to_maxtext" in name:
        why += "; with model.hf instead of model.checkpoint `xsft plan` shows a conversion that both modes can read"
    elif name in ("source", "."):
        why += "; what that file sets is not known here"
    notes.differ(name, given=f"another command, line {one.line}", why=why)
