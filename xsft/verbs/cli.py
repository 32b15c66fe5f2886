"""argv -> verb -> exit status: the names of the verbs, whose work is in modules of their own, and the report of every
error.
"""

from __future__ import annotations

import argparse
import difflib
import errno
import importlib
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from msgspec import Struct

from xsft.base.errors import INTERRUPTED, EnvironmentMissing, UsageError, UserRefusal, XsftError
from xsft.base.problems import Problem, error
from xsft.machine.streams import prepare_streams, silence_stdout
from xsft.verbs.document import (
    BOLD,
    CYAN,
    ErrorDocument,
    counts_text,
    print_document,
    print_problems,
    print_styled,
    problem_documents,
)

READER_GONE = 141
"""Exit status for a closed pipe, as a shell reports SIGPIPE (128 + 13)."""
RunVerb = Callable[[argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit status."""
    arguments = tuple(sys.argv[1:] if argv is None else argv)
    prepare_streams()
    try:
        status = _run_reported(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # A reader such as `head` closed the pipe: no traceback now, and none when the interpreter exits.
        silence_stdout()
        return READER_GONE
    return status


def _run_reported(arguments: tuple[str, ...]) -> int:
    """Return the verb's status, or that of its error, which is reported."""
    try:
        status = _run_verb(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt as stop:
        sys.stderr.writelines(f"{line}\n" for line in ("interrupted", *getattr(stop, "__notes__", ())))
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as problem:  # noqa: BLE001 - the one funnel
        return report_failure(problem, arguments)
    return status


def _run_verb(arguments: tuple[str, ...]) -> int:
    if arguments[:1] == ("help",):
        arguments = (*arguments[1:], "--help")
    verb = next((a for a in arguments if not a.startswith("-")), "")
    top = parser(only=verb, alone=arguments[:1] == (verb,))  # an option before the verb may print them all
    try:
        args = top.parse_args(arguments)
    except SystemExit as stop:  # --help
        return stop.code if isinstance(stop.code, int) else 2
    if args.version:
        from importlib.metadata import version

        sys.stdout.write(f"xsft {version('xsft')}\n")
        return 0
    if args.verb is None:
        top.print_help(sys.stderr)
        return 2
    _use_present_name(args)
    verb_run = _verb_function(args.verb, action=getattr(args, "action", None))
    if getattr(args, "notify", None) is None:
        return verb_run(args)
    from xsft.verbs.notify import run_and_notify

    return run_and_notify(verb_run, args)


def _use_present_name(args: argparse.Namespace) -> None:
    """Replace an old name by the verb that does its work, and say so on stderr."""
    if args.verb == "receipt":
        sys.stderr.write("`xsft receipt RUN` is now `xsft status RUN --receipt`\n")
        vars(args).update(verb="status", runs=[args.run], receipt=True)
    elif args.verb == "submit" and args.dry_run:
        sys.stderr.write("`xsft submit FILE --dry-run` is now `xsft plan FILE`\n")
        vars(args).update(verb="plan", files=[args.file], offline=False, part="screen", notify=None)


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
"""Group -> verb -> one line of help."""

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

FUNCTIONS = {
    "import": "init:import_command",
    "run": "submit:run_all_stages",
    "logs": "wait:logs",
    "setup": "doctor:setup",
    "secret": "place:secret",
    "checkpoint convert": "checkpoint_jobs:convert",
    "checkpoint export": "checkpoint_jobs:export",
}
"""Verb, or verb and action -> `module:function`; the others are `<verb>:run`."""

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
        if self.actions and args:
            index = self._index_of_action(args)
            args = (args[index], *args[:index], *args[index + 1 :])
        if not self.intermixed:
            return super().parse_known_args(args, namespace)
        self.intermixed = False  # the method below calls this one for the options, then for the rest
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self.intermixed = True

    actions: Mapping[str, argparse.ArgumentParser] = {}
    """The parser of each of the verb's actions, which may stand after its options."""

    def _index_of_action(self, words: Sequence[str]) -> int:
        """Return where the action stands; a value of an option may be the name of an action, too."""
        actions = [action for parser in self.actions.values() for action in parser._actions]  # noqa: SLF001
        with_value = {option for action in actions if action.nargs != 0 for option in action.option_strings}
        for index, word in enumerate(words):
            if word in self.actions and (index == 0 or words[index - 1] not in with_value):
                return index
        return 0

    whole_help = ""
    """The help, if it is not argparse's."""

    def _print_message(self, message: str, file: Any = None) -> None:
        print_styled(message.splitlines(), HELP_STYLES, stream=file or sys.stderr)

    def format_help(self) -> str:
        return self.whole_help or super().format_help()

    def error(self, message: str) -> NoReturn:
        fix = f"see `{self.helps or self.prog} --help`"
        if unknown := re.match(r"argument VERB: invalid choice: '([^']*)'", message):
            similar = difflib.get_close_matches(unknown[1], VERBS, n=1)
            question = f"Did you mean {similar[0]}? " if similar else ""
            raise UsageError(f"{question}{unknown[1]!r} is not a verb of xsft.", fix=fix)
        if self.discreet:  # argparse repeats the values
            message = re.sub(
                r"(unrecognized arguments|invalid choice): .*", r"\1 (not shown)", message, flags=re.DOTALL
            )
        raise UsageError(message, fix=fix)


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
        sub.discreet = name in DISCREET
        if only is None or only == name:
            key = next(key for key, verb_names in ARGUMENTS.items() if name in verb_names)
            getattr(importlib.import_module(f"xsft.verbs.{key}_arguments"), f"{name}_arguments")(sub)
        sub.actions = actions_of(sub)
        for action in sub.actions.values():
            action.intermixed = name in INTERMIXED
    return top


def actions_of(parser: argparse.ArgumentParser) -> dict[str, Any]:
    """Return the parser of each action of a verb (argparse has no other way to them)."""
    choices = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]  # noqa: SLF001
    return dict(*choices)


def _verb_function(verb: str, *, action: str | None) -> RunVerb:
    usual = FUNCTIONS.get(verb, f"{verb}:run")
    module, _, name = FUNCTIONS.get(f"{verb} {action}", usual).partition(":")
    function: RunVerb = getattr(importlib.import_module(f"xsft.verbs.{module}"), name)
    return function


def report_failure(problem: Exception, arguments: Sequence[str]) -> int:
    """Print the error and return its exit status."""
    if isinstance(problem, OSError | ModuleNotFoundError):
        problem = _known_failure(problem) or problem
    if not isinstance(problem, XsftError):
        return _report_bug(problem, arguments)
    if isinstance(problem, UserRefusal):
        sys.stderr.write(f"{problem.message}\n")
        return problem.exit_status
    _print_error(problem.problems, arguments, exit_status=problem.exit_status, document=problem.document)
    return problem.exit_status


def _print_error(
    problems: tuple[Problem, ...], arguments: Sequence[str], *, exit_status: int, document: Struct | None = None
) -> None:
    if "--json" in arguments:
        verb = next((word for word in arguments if not word.startswith("-")), "xsft")
        fields = problem_documents(problems)
        print_document(document or ErrorDocument(schema_=f"xsft.{verb}/1", problems=fields, exit_status=exit_status))
    print_problems(problems)
    if len(problems) > 1:
        sys.stderr.write(f"{counts_text(problems)}\n")


def _known_failure(problem: OSError | ModuleNotFoundError) -> XsftError | None:
    """Return the error for a package that is not installed, a full disk, a missing current folder or a name that is too
    long; None for any other, which is a bug."""
    if isinstance(problem, ModuleNotFoundError):
        if str(problem.name).startswith("xsft"):
            return None
        fix = "In a checkout, run make setup (after each pull); else install xsft again."
        return EnvironmentMissing(f"the Python package {problem.name} is not installed.", fix=fix)
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        # If stdout is a file on the full disk, its buffered text must not fail again at exit.
        silence_stdout()
        where = problem.filename or "standard output"
        return EnvironmentMissing(f"No space left on device ({where}).", fix="Free some space, and run it again.")
    if problem.errno == errno.ENOENT and problem.filename is None:
        return EnvironmentMissing("the current folder is gone.", fix="Change to a folder that exists.")
    if problem.errno == errno.ENAMETOOLONG:
        name = str(problem.filename)
        return UsageError(f"File name too long: {name[:60]}… ({len(name)} characters).", fix="Correct the path.")
    return None


def _report_bug(problem: Exception, arguments: Sequence[str]) -> int:
    """Report a bug in xsft: print the traceback once, with what to do about it."""
    text = f"{type(problem).__name__}: {problem}"
    bug = error("internal", "", f"a bug in xsft: {text}", fix="Please report it with the lines above.")
    sys.stderr.write("".join(traceback.format_exception(problem)))
    _print_error((bug,), arguments, exit_status=1)
    return 1
