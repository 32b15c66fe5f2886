"""The table of verbs and the parser. Modules of verbs are imported late, only here.

Each verb has a function that declares its arguments, in a small module, which is all that `xsft VERB --help` imports.
A second module does the work. It is imported after the command line is parsed.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import re
import sys
from collections.abc import Sequence
from keyword import iskeyword
from typing import Any, NoReturn, Protocol

from xsft.base.errors import UsageError
from xsft.verbs.document import BOLD, CYAN, print_styled

GROUPS: dict[str, dict[str, str]] = {
    "start": {
        "init": "write a commented workload to start from",
        "import": "convert a pasted xpk command into a workload",
    },
    "before": {
        "check": "validate workloads: print all problems of all files",
        "plan": "show exactly what submit would create",
        "diff": "show the differences between two workloads",
        "fit": "compile for TPUs: does it fit in memory?",
        "data": "show, count or prepare training examples",
        "image": "build, push or show the image of runs",
    },
    "run": {
        "submit": "create a run on its cluster, or here",
        "run": "run the stages of a workload, each once",
        "cancel": "end a run; show first what is lost",
    },
    "watch": {
        "status": "show the state and progress of every run",
        "why": "explain a run's state, and the next step",
        "logs": "show the log of a run",
        "wait": "wait until a run is done or running",
    },
    "afterwards": {
        "compare": "plot the losses of several runs",
        "sample": "print a run's answer to a prompt, here",
        "checkpoint": "inspect, convert or export weights",
        "serve": "start an OpenAI-compatible server for a model",
    },
    "this machine": {
        "doctor": "check the installation, places and buckets",
        "setup": "install the environments of xpk and MaxText",
        "place": "show, add or create a cluster",
        "secret": "create the Kubernetes Secret that a workload names",
        "completion": "print the shell completion script",
    },
}
"""Group -> verb -> one line of help; the verb's module is `<verb>`, or `<verb>_` where Python keeps the word."""

VERBS = {verb: line for verbs in GROUPS.values() for verb, line in verbs.items()}

HIDDEN = {"receipt": "show how long chips were in each state; now `xsft status RUN --receipt`"}
"""Old names that work in this release; xsft.verbs.cli says what does their work."""

ARGUMENTS: dict[str, frozenset[str]] = {
    "workloads": frozenset({"plan", "fit", "check", "submit", "run", "diff", "init", "import"}),
    "runs": frozenset({"status", "why", "receipt", "logs", "wait", "cancel", "compare", "sample"}),
    "weights": frozenset({"data", "image", "serve", "checkpoint"}),
    "machine": frozenset({"secret", "place", "doctor", "setup", "completion"}),
}
"""Module `<key>_arguments` -> the verbs whose arguments it declares, each by `VERB_arguments`."""

ACTION_MODULES = frozenset({"checkpoint_convert", "checkpoint_export"})
"""Modules `<verb>_<action>`; the verb's own module does its other actions."""

DISCREET = frozenset({"secret"})
"""Verbs whose command line may contain a secret by mistake."""

INTERMIXED = frozenset({"place"})
"""Verbs whose last positional argument may be missing, or stand after options."""

HELP_STYLES = {r"^[a-z][\w ]*:$": BOLD, r"^  (-[-\w, ]*?|\w+)(?=  |$)": CYAN}
"""The titles of groups; the options or the verbs below them."""

EPILOG = """
`xsft help VERB` shows the options of a verb, `xsft --version` the version.
exit status: 0 ok · 1 a bug in xsft · 2 usage, spec or check · 3 environment missing · 4 refused · 5 unreachable ·
6 run failed or ended short · 7 timed out · 8 unknown · 130 interrupted
"""


class Verb(Protocol):
    """Interface of a module `xsft.verbs.<verb>`."""

    def run(self, args: argparse.Namespace) -> int: ...


class _Parser(argparse.ArgumentParser):
    """Parser without abbreviated options. It raises UsageError, which is reported like all errors (also as JSON)."""

    def __init__(self, **settings: object) -> None:
        settings.setdefault("allow_abbrev", False)
        super().__init__(**settings)  # type: ignore[arg-type]

    discreet = False
    """Whether an unexpected argument may be a secret, which the message must not show."""
    helps = ""
    """The command whose help an error names, if it is not this parser's own."""
    intermixed = False
    """Whether options may stand before an optional positional argument. Python < 3.12.7 decides that the argument is
    missing when it reads the one before the options, and refuses its value (python/cpython#59317)."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        if not self.intermixed:
            return super().parse_known_args(args, namespace)
        self.intermixed = False  # the method below calls this one for the options, then for the rest
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self.intermixed = True

    whole_help = ""
    """The help, if it is not argparse's."""

    def _print_message(self, message: str, file: Any = None) -> None:
        print_styled(message.splitlines(), HELP_STYLES, stream=file or sys.stderr)

    def format_help(self) -> str:
        return self.whole_help or super().format_help()

    def error(self, message: str) -> NoReturn:
        fix = f"see `{self.helps or self.prog} --help`"
        if unknown := re.match(r"argument VERB: invalid choice: '([^']*)'", message):
            near = difflib.get_close_matches(unknown[1], VERBS, n=1)
            question = f"Did you mean {near[0]}? " if near else ""
            raise UsageError(f"{question}{unknown[1]!r} is not a verb of xsft.", fix=fix)
        raise UsageError(_without_values(message) if self.discreet else message, fix=fix)


def _without_values(message: str) -> str:
    """Return argparse's message without the values it repeats."""
    return re.sub(r"(unrecognized arguments|invalid choice): .*", r"\1 (not shown)", message, flags=re.DOTALL)


def _help_by_group() -> str:
    lines = ["usage: xsft VERB …", "", "LLM fine-tuning runs on Cloud TPU slices."]
    for group, verbs in GROUPS.items():
        lines += ["", f"{group}:", *(f"  {verb:<12}{line}" for verb, line in verbs.items())]
    return "\n".join((*lines, EPILOG))


def parser(*, only: str | None = None, alone: bool = False) -> argparse.ArgumentParser:
    """Return the parser of the command line. With `only`, only that verb gets its arguments. With `alone`, the parser
    has no other verb: creating their parsers takes half of the start-up time.
    """
    top = _Parser(prog="xsft")
    top.whole_help = _help_by_group()
    top.discreet = only in DISCREET
    top.helps = f"xsft {only}" if only in VERBS else ""
    top.add_argument("--version", action="store_true", help="print the version")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", parser_class=_Parser)
    help_lines = {**VERBS, **HIDDEN}
    if alone and only in help_lines:
        help_lines = {only: help_lines[only]}
    for name, help_line in help_lines.items():
        sub = verbs.add_parser(name, help=help_line, description=f"{help_line[0].upper()}{help_line[1:]}.")
        sub.discreet, sub.intermixed = name in DISCREET, name in INTERMIXED
        if only is None or only == name:
            _add_arguments(name, sub)
    return top


def verb_module(verb: str, *, action: str | None = None) -> Verb:
    name = f"{verb}_{action}" if f"{verb}_{action}" in ACTION_MODULES else _module_name(verb)
    module: Verb = importlib.import_module(f"xsft.verbs.{name}")
    return module


def _add_arguments(verb: str, parser: argparse.ArgumentParser) -> None:
    module = next(module for module, verbs in ARGUMENTS.items() if verb in verbs)
    getattr(importlib.import_module(f"xsft.verbs.{module}_arguments"), f"{verb}_arguments")(parser)


def _module_name(verb: str) -> str:
    return f"{verb}_" if iskeyword(verb) else verb
