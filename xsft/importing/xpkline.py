"""Find the xpk line of a paste among other text. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from xsft.base.errors import SpecError
from xsft.base.problems import Problem, error
from xsft.importing.notes import Notes
from xsft.importing.shell import SimpleCommand
from xsft.importing.trainer import head, modules, starts_trainer

VERBS = ("create", "create-pathways")
MAX_NAMED = 50
"""Limit on other commands of a paste that are listed."""
UNSAID = {
    "cluster": "GKE_CLUSTER",
    "project": "PROJECT_ID",
    "zone": "ZONE",
    "tpu-type": "TPU_TYPE",
    "docker-image": "DOCKER_IMAGE",
}
"""What a trainer's command does not say, by xpk's flag; the names of the tutorial's variables."""
_LAUNCHERS = frozenset({"uv", "uvx", "pipx", "poetry"})
_FIX = "Paste the command that starts with `xpk workload create` or `xpk workload create-pathways`."


class XpkLine(Struct, frozen=True, kw_only=True):
    verb: str
    arguments: tuple[str, ...]

    @property
    def trains(self) -> bool:
        return any(module in argument for argument in self.arguments for module in modules())

    @property
    def argv(self) -> tuple[str, ...]:
        """The command as `xsft plan` prints it."""
        return ("xpk", "workload", self.verb, *self.arguments)


def find_xpk_line(commands: Sequence[SimpleCommand], notes: Notes, *, line: int | None = None) -> XpkLine:
    """Return the xpk line that begins in `line`, or the only one that trains; of a paste without one, the line that
    would run a trainer's own command. Raises SpecError if there is none, or more than one; the other commands go to the
    notes.
    """
    every = [(command, xpk) for command in commands if (xpk := _xpk_line(command.argv))]
    if not every:
        trained = [command for command in commands if starts_trainer(command.argv)]
        every = [(command, _line_around(command, notes)) for command in trained]
    if not every:
        raise SpecError((_no_line_problem(commands, notes),))
    chosen = [(command, xpk) for command, xpk in every if line in (None, command.line)]
    if len(chosen) > 1:
        chosen = [(command, xpk) for command, xpk in chosen if xpk.trains] or chosen
    if len(chosen) != 1:
        raise SpecError((_not_one(every, line),))
    ours, xpk = chosen[0]
    for command in [command for command in commands if command is not ours][:MAX_NAMED]:
        _say_ignored(command, notes)
    if ours.after in ("|", "|&", "&&", "||", "&"):
        notes.differ(f"{ours.after} after the xpk line", why="the part after the xpk line is not imported")
    return xpk


def _line_around(command: SimpleCommand, notes: Notes) -> XpkLine:
    """Return the xpk line that runs a trainer's command, with holes for what the command does not say."""
    pathways = ("JAX_PLATFORMS", "proxy") in command.env or "enable_single_controller=True" in command.argv
    words = [f"{name}={shlex.quote(text)}" for name, text in command.env]
    words += [shlex.quote(word) for word in command.argv]
    unknown = [f"--{flag}={notes.holes.mark('variable', name)}" for flag, name in UNSAID.items()]
    verb = "create-pathways" if pathways else "create"
    return XpkLine(verb=verb, arguments=(*unknown, f"--command={' '.join(words)}"))


def _xpk_line(argv: tuple[str, ...]) -> XpkLine | None:
    """Parse `xpk workload create …`, `python3 xpk.py …`, `python3 -m xpk.main …`, `uvx xpk …` or `$XPK workload create
    …`.
    """
    if "workload" not in argv[1:6]:
        return None
    position = argv.index("workload", 1)
    verb = "".join(argv[position + 1 : position + 2])
    options = [word for word in argv[1:position] if word.startswith("--")]
    if verb not in VERBS or not _is_xpk([word for word in argv[:position] if word not in options]):
        return None
    return XpkLine(verb=verb, arguments=(*options, *argv[position + 2 :]))


def _is_xpk(words: list[str]) -> bool:
    last = PurePosixPath(words[-1]).name
    if len(words) == 1:
        return last == "xpk" or words[0].startswith("\0")
    first = PurePosixPath(words[0]).name
    if first in _LAUNCHERS:
        return re.fullmatch(r"xpk(==.*)?", last) is not None
    return first.startswith("python") and last in ("xpk.py", "xpk", "xpk.main", "main.py")


def _not_one(every: Sequence[tuple[SimpleCommand, XpkLine]], line: int | None) -> Problem:
    first = every[0][0].line
    if line is not None:
        message = f"No xpk line begins in line {line}; they begin in: {_lines_text(every)}."
        return error("import-several", "", message, f"Choose one of them: --line {first}.")
    message = f"{len(every)} xpk workload lines were pasted ({_lines_text(every)}); a workload is made from one."
    return error("import-several", "", message, f"Choose one by its line: --line {first}.")


def _lines_text(every: Sequence[tuple[SimpleCommand, XpkLine]]) -> str:
    return ", ".join(f"line {simple.line}: {read.verb}" for simple, read in every)


def _no_line_problem(commands: Sequence[SimpleCommand], notes: Notes) -> Problem:
    heads = tuple(
        dict.fromkeys(head(simple, notes) for simple in commands[:MAX_NAMED] if not simple.argv[0].endswith(":"))
    )
    if "gcluster" in heads:
        message = "This is a command of gcluster, Cluster Toolkit's launcher; xsft import supports only xpk."
        return error("import-no-line", "", message, "Start from a template: `xsft init`.")
    if any(simple.argv[0] == "xpk" for simple in commands):
        message = "The xpk line is of another verb than `workload create` and `workload create-pathways`."
        return error("import-no-line", "", message, _FIX)
    verbs = f"; it has: {', '.join(heads[:5])}" if heads else "; it has no command"
    return error("import-no-line", "", f"The paste contains no xpk line{verbs}.", _FIX)


def _say_ignored(simple: SimpleCommand, notes: Notes) -> None:
    name = head(simple, notes)
    why = "only the xpk line is imported"
    if "to_maxtext" in name:
        why += "; with model.hf instead of model.checkpoint `xsft plan` shows a conversion that both modes can read"
    elif name in ("source", "."):
        why += "; the values in that file are not imported"
    notes.differ(name, given=f"another command, line {simple.line}", why=why)
