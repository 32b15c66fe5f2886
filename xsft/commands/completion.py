"""`xsft completion SHELL`: print a completion script; `eval "$(xsft completion bash)"`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

SHELLS = ("bash", "zsh", "fish", "tcsh")
RUNS = "runs"
NAMES = f"xsft completion {RUNS}"
"""What the scripts call where a verb takes a run's name; it asks nobody, so that a Tab takes a tenth of a second."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    told = f"whose completion script; {RUNS}: the names it offers, of runs that were submitted from this machine"
    parser.add_argument("shell", choices=(*SHELLS, RUNS), help=told)


def run(args: argparse.Namespace) -> int:
    if args.shell == RUNS:
        sys.stdout.writelines(f"{name}\n" for name in run_names(_index()))
        return 0
    import shtab

    from xsft.commands.verbs import parser

    whole = parser()
    for action in _named_runs(whole):
        action.complete = shtab.cmd(NAMES)  # type: ignore[attr-defined]
    sys.stdout.write(shtab.complete(whole, shell=args.shell))
    return 0


def run_names(index: Path) -> tuple[str, ...]:
    """Each once, sorted. Names that a shell would expand are none of ours: an index is a file like others."""
    from xsft.effects.recordindex import read_index

    names = {entry.run_name for entry in read_index(index).entries}
    return tuple(sorted(name for name in names if _NAME.fullmatch(name)))


def _index() -> Path:
    from xsft.effects.paths import state_dir
    from xsft.effects.process import own_environment

    return state_dir(own_environment(), home=Path.home()) / "runs"


def _named_runs(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """What takes the name of a run that is there (argparse has no other way to its arguments)."""
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for verb in action.choices.values():
                yield from _named_runs(verb)
        elif action.metavar == "RUN" and not action.option_strings:
            yield action
