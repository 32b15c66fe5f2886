"""The verbs: one table, one parser. Only the verb that was asked for is imported, so that `xsft --help` is instant."""

from __future__ import annotations

import argparse
import difflib
import importlib
import re
from keyword import iskeyword
from typing import NoReturn, Protocol

from xsft.errors import UsageError
from xsft.spec.secrets import redact

VERBS: dict[str, str] = {
    "plan": "show exactly what submit would do: mode, xpk line, trainer line, checks, audit, manifest",
    "check": "validate workloads; all problems of all files",
    "submit": "put a workload on its cluster, or run it on this machine",
    "status": "show what every run is doing: state, step, loss, pace, and the age of that",
    "why": "explain a run's state: the one cause first, then the next step",
    "logs": "show a run's training log, or the logs of its other processes",
    "wait": "wait until a run is done, running or at a step; the exit status says which",
    "cancel": "end a run: delete exactly its JobSet, after saying what that loses",
    "compare": "plot the losses of several runs, in the terminal and as a picture",
    "diff": "show what two workloads would do differently: keys, argv, manifest",
    "init": "write a commented workload to start from",
    "import": "make a workload of a pasted xpk workload line, and say what differs",
    "secret": "make the Kubernetes Secret that a workload names, from stdin or a file",
    "data": "show or count what the model learns from: trained, masked and cut tokens",
    "image": "build, push, list or show the image that runs train in",
    "checkpoint": "inspect a checkpoint: whole or torn, its format, which models and modes it fits",
    "doctor": "check what is installed, and print the command that adds what is missing",
    "setup": "build the xpk and MaxText environments",
    "completion": "print the shell completion script",
}
"""Verb -> one line of help; the module is `xsft.commands.<verb>`, or `<verb>_` where Python keeps the word."""

DISCREET = frozenset({"secret"})
"""Verbs on whose command line a secret may stand by mistake."""

EPILOG = """\
exit status: 0 ok · 1 a bug in xsft · 2 usage, spec or check · 3 environment missing · 4 refused · 5 unreachable ·
6 run failed or ended short · 7 timed out · 8 unknown · 130 interrupted
"""


class Verb(Protocol):
    """What a module under xsft.commands offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> int: ...


class _Parser(argparse.ArgumentParser):
    """Options are written out in full, and a usage error goes through the one funnel: a document under `--json`."""

    def __init__(self, **settings: object) -> None:
        settings.setdefault("allow_abbrev", False)
        super().__init__(**settings)  # type: ignore[arg-type]

    discreet = False
    """Whether a value that was given in the wrong place may be a secret."""

    def error(self, message: str) -> NoReturn:
        said = _unquoted(message) if self.discreet else redact(message)
        raise UsageError(f"{said}{_near(message)}", fix=f"see `{self.prog} --help`")


def _unquoted(message: str) -> str:
    """argparse's words without the values it repeats."""
    return re.sub(r"(unrecognized arguments|invalid choice): .*", r"\1 (not shown)", message, flags=re.DOTALL)


def _near(message: str) -> str:
    """Did you mean, for a verb that is none."""
    given = re.match(r"argument VERB: invalid choice: '([^']*)'", message)
    near = difflib.get_close_matches(given[1], VERBS, n=1) if given else []
    return f". Did you mean {near[0]}?" if near else ""


def parser(*, only: str | None = None) -> argparse.ArgumentParser:
    """The whole command line; with `only`, the arguments of that verb alone are filled in."""
    top = _Parser(prog="xsft", description="LLM fine-tuning runs on Cloud TPU slices.", epilog=EPILOG)
    top.discreet = only in DISCREET
    top.formatter_class = argparse.RawDescriptionHelpFormatter
    top.add_argument("--version", action="store_true", help="print the version")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", parser_class=_Parser)
    for name, help_line in VERBS.items():
        sub = verbs.add_parser(name, help=help_line, description=f"{help_line[0].upper()}{help_line[1:]}.")
        sub.discreet = name in DISCREET
        if only is None or only == name:
            verb_module(name).add_arguments(sub)
    return top


def verb_module(name: str) -> Verb:
    module: Verb = importlib.import_module(f"xsft.commands.{name}{'_' if iskeyword(name) else ''}")
    return module
