"""Find the xpk line of a paste among other text. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from types import MappingProxyType

from msgspec import Struct

from xsft.base.errors import SpecError
from xsft.base.problems import Problem, error
from xsft.importing import gcluster
from xsft.importing.gcluster import SUBMIT
from xsft.importing.notes import Notes
from xsft.importing.shell import SimpleCommand
from xsft.importing.trainer import head, modules, purpose, starts_trainer

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
_FIX = "Paste a line of `xpk workload create`, `xpk workload create-pathways` or `gcluster job submit`."


class XpkLine(Struct, frozen=True, kw_only=True):
    verb: str
    arguments: tuple[str, ...]
    fields: Mapping[str, str] = MappingProxyType({})
    """Workload fields for which xpk has no flag."""
    is_xpks: bool = True
    """Whether xpk would run it; False for a line of another launcher, in xpk's flags."""

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
        every = [(command, _line_around(command, notes)) for command in commands if starts_trainer(command.argv)]
    if not every:
        raise SpecError((_no_line_problem(commands, notes),))
    chosen = [(command, xpk) for command, xpk in every if line in (None, command.line)]
    if len(chosen) > 1:  # pages show conversions and RL beside the SFT: the only line that trains is meant
        chosen = [(command, xpk) for command, xpk in chosen if xpk.trains] or chosen
    if len(chosen) != 1:
        raise SpecError((_not_one(every, line),))
    ours, xpk = chosen[0]
    if xpk.verb == SUBMIT:
        saved = gcluster.saved_settings([command.argv for command in commands])
        verb, arguments, fields = gcluster.translate(xpk.arguments, saved, notes)
        xpk = XpkLine(verb=verb, arguments=arguments, fields=fields, is_xpks=False)
    for command in [command for command in commands if command is not ours][:MAX_NAMED]:
        _say_ignored(command, notes)
    if ours.after in ("|", "|&", "&&", "||", "&"):
        notes.differ(f"{ours.after} after the line", why="the part after it is not imported")
    return xpk


def _line_around(command: SimpleCommand, notes: Notes) -> XpkLine:
    """Return the xpk line that runs a trainer's command, with holes for what the command does not say."""
    pathways = ("JAX_PLATFORMS", "proxy") in command.env or "enable_single_controller=True" in command.argv
    # Quoted, because bash reads the words once more inside of --command.
    words = [f"{name}={shlex.quote(text)}" for name, text in command.env]
    words += [shlex.quote(word) for word in command.argv]
    unknown = [f"--{flag}={notes.holes.mark('variable', name)}" for flag, name in UNSAID.items()]
    verb = "create-pathways" if pathways else "create"
    return XpkLine(verb=verb, arguments=(*unknown, f"--command={' '.join(words)}"))


def _xpk_line(argv: tuple[str, ...]) -> XpkLine | None:
    """Parse `xpk workload create …`, `python3 xpk.py …`, `python3 -m xpk.main …`, `uvx xpk …`, `$XPK workload create
    …` or `gcluster job submit …`.
    """
    if gcluster.is_submission(argv):
        return XpkLine(verb=SUBMIT, arguments=argv[3:])
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
    programs = (re.search(r"-m ([A-Za-z0-9_.]+)", " ".join(xpk.arguments)) for _, xpk in every)
    modules = (f" ({program[1]})" if program else "" for program in programs)
    lines = ", ".join(
        f"line {command.line}: {xpk.verb}{module}" for (command, xpk), module in zip(every, modules, strict=True)
    )
    message = f"{len(every)} lines that submit a run were pasted ({lines}); a workload is made from one."
    if line is not None:
        message = f"No line that submits a run begins in line {line}; they begin in: {lines}."
    return error("import-several", "", message, f"Choose one by its line: --line {every[0][0].line}.")


def _no_line_problem(commands: Sequence[SimpleCommand], notes: Notes) -> Problem:
    heads = tuple(
        dict.fromkeys(head(simple, notes) for simple in commands[:MAX_NAMED] if not simple.argv[0].endswith(":"))
    )
    if any(simple.argv[0] in ("xpk", "gcluster") for simple in commands):
        message = "The line submits no run: it is of another verb than `xpk workload create` or `gcluster job submit`."
        return error("import-no-line", "", message, _FIX)
    verbs = f"; it has: {', '.join(heads[:5])}" if heads else "; it has no command"
    purposes = "".join(f" {text}" for name in heads if (text := purpose(name)))
    return error("import-no-line", "", f"The paste contains no line that submits a run{verbs}.{purposes}", _FIX)


def _say_ignored(simple: SimpleCommand, notes: Notes) -> None:
    name = head(simple, notes)
    why = "only the line that submits the run is imported"
    if "to_maxtext" in name:
        why += "; with model.hf instead of model.checkpoint `xsft plan` shows a conversion that both modes can read"
    elif name in ("source", "."):
        why += "; the values in that file are not imported"
    notes.differ(name, given=f"another command, line {simple.line}", why=why)
