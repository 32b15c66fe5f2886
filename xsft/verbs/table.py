"""The table of verbs and the parser. Modules of verbs are imported late, only here.

Each verb has a function that declares its arguments, in a small module, which is all that `xsft VERB --help` imports.
A second module does the work. It is imported after the command line is parsed.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import re
from collections.abc import Sequence
from keyword import iskeyword
from typing import NoReturn, Protocol

from xsft.base.errors import UsageError

VERBS: dict[str, str] = {
    "plan": "show exactly what submit would create: mode, xpk command, trainer command, checks, audit, manifest",
    "fit": "compile a workload for its TPUs, without a TPU, and report whether it fits in memory",
    "check": "validate workloads: print all problems of all files",
    "submit": "create a run on its cluster, or train on this machine",
    "run": "run the stages of a workload, each once: convert, train, evaluate, export, serve",
    "status": "show the state of every run: step, loss, step time, and the age of the information",
    "why": "explain a run's state: the most likely cause first, then the next step",
    "receipt": "show how long a run's chips were in each state, and the number of tokens trained",
    "logs": "show a run's training log, or the logs of its other processes",
    "wait": "wait until a run is done, running or at a step; the exit status says which",
    "cancel": "end a run: show how many steps would be lost, then delete its JobSet",
    "compare": "plot the losses of several runs, in the terminal and as a picture",
    "diff": "show the differences between two workloads: keys, arguments, manifest",
    "init": "write a commented workload to start from",
    "import": "convert a pasted xpk command into a workload, and list the differences",
    "secret": "create the Kubernetes Secret that a workload names, from stdin or a file",
    "data": "show or count training examples, or write them as files for many hosts",
    "image": "build, push or show the image in which runs train",
    "sample": "print the answer of a run's weights to a prompt, on this machine",
    "serve": "start an OpenAI-compatible server for a model, on this machine or on a cluster",
    "checkpoint": "inspect a checkpoint, convert Hugging Face weights, or export a run's weights",
    "place": "show a cluster, add one to places.yaml, or print the command that creates one",
    "doctor": "check the installation, places and buckets, and print the command that fixes each problem",
    "setup": "install the environments of xpk, MaxText, the engine and the TPU compiler",
    "completion": "print the shell completion script",
}
"""Verb -> one line of help; its module is `<verb>`, or `<verb>_` where Python keeps the word."""

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

EPILOG = """\
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

    def error(self, message: str) -> NoReturn:
        text = _without_values(message) if self.discreet else message
        raise UsageError(f"{text}{_did_you_mean(message)}", fix=f"see `{self.helps or self.prog} --help`")


def _without_values(message: str) -> str:
    """Return argparse's message without the values it repeats."""
    return re.sub(r"(unrecognized arguments|invalid choice): .*", r"\1 (not shown)", message, flags=re.DOTALL)


def _did_you_mean(message: str) -> str:
    """Return "Did you mean …?" for an unknown verb, or nothing."""
    given = re.match(r"argument VERB: invalid choice: '([^']*)'", message)
    near = difflib.get_close_matches(given[1], VERBS, n=1) if given else []
    return f". Did you mean {near[0]}?" if near else ""


def parser(*, only: str | None = None, alone: bool = False) -> argparse.ArgumentParser:
    """Return the parser of the command line. With `only`, only that verb gets its arguments. With `alone`, the parser
    has no other verb: creating their parsers takes half of the start-up time.
    """
    top = _Parser(prog="xsft", description="LLM fine-tuning runs on Cloud TPU slices.", epilog=EPILOG)
    top.discreet = only in DISCREET
    top.helps = f"xsft {only}" if only in VERBS else ""
    top.formatter_class = argparse.RawDescriptionHelpFormatter
    top.add_argument("--version", action="store_true", help="print the version")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", parser_class=_Parser)
    known = {only: VERBS[only]} if alone and only in VERBS else VERBS
    for name, help_line in known.items():
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
