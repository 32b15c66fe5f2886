"""`xsft completion SHELL`: print a completion script; `eval "$(xsft completion bash)"`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

SHELLS = ("bash", "zsh", "fish", "tcsh")
RUNS, PLACES = "runs", "places"
ASKED = "xsft completion"
"""What the scripts call, with RUNS or PLACES, where a name of one is taken; it asks nobody, so that a Tab takes a tenth
of a second.
"""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    told = f"whose completion script; {RUNS}: the names it offers, of runs that were submitted from this machine;"
    parser.add_argument("shell", choices=(*SHELLS, RUNS, PLACES), help=f"{told} {PLACES}: those of places.yaml")


def run(args: argparse.Namespace) -> int:
    if args.shell == RUNS:
        sys.stdout.writelines(f"{name}\n" for name in run_names(_index()))
        return 0
    if args.shell == PLACES:
        sys.stdout.writelines(f"{name}\n" for name in place_names(Path.cwd()))
        return 0
    import shtab

    from xsft.commands.verbs import parser

    whole = parser()
    for action in _actions(whole):
        if asked := _asked(action):
            action.complete = shtab.cmd(f"{ASKED} {asked}")  # type: ignore[attr-defined]
    sys.stdout.write(shtab.complete(whole, shell=args.shell))
    return 0


def run_names(index: Path) -> tuple[str, ...]:
    """Each once, sorted. Names that a shell would expand are none of ours: an index is a file like others."""
    from xsft.effects.records.index import read_index

    names = {entry.run_name for entry in read_index(index).entries}
    return tuple(sorted(name for name in names if _NAME.fullmatch(name)))


def _index() -> Path:
    from xsft.effects.machine.paths import state_dir
    from xsft.effects.machine.process import own_environment

    return state_dir(own_environment(), home=Path.home()) / "runs"


def place_names(start: Path) -> tuple[str, ...]:
    """Of places.yaml, as `effects.places` finds it; none where it is wrong, which other verbs say."""
    from xsft.effects.inputs.places_file import places_file
    from xsft.effects.machine.files import read_workload_text
    from xsft.effects.machine.process import own_environment
    from xsft.errors import XsftError
    from xsft.spec.yamltext import parse_yaml

    file = places_file(start, env=own_environment(), home=Path.home())
    try:
        found = parse_yaml(read_workload_text(file)).data if file else {}
    except XsftError:
        return ()
    return tuple(sorted(name for name in map(str, found) if _NAME.fullmatch(name)))


def _asked(action: argparse.Action) -> str | None:
    """Which names it takes."""
    if action.metavar == "RUN" and not action.option_strings:
        return RUNS
    return PLACES if "--place" in action.option_strings else None


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Of all verbs (argparse has no other way to its arguments)."""
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for verb in action.choices.values():
                yield from _actions(verb)
        else:
            yield action
