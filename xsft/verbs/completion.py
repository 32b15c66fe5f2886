"""`xsft completion SHELL`: print a completion script; `eval "$(xsft completion bash)"`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from xsft.base.errors import XsftError
from xsft.machine.files import read_workload_text
from xsft.machine.paths import places_file, state_dir
from xsft.machine.process import own_environment
from xsft.records.index import read_index
from xsft.verbs.cli import parser
from xsft.verbs.machine_arguments import PLACES, RUNS

ASKED = "xsft completion"
"""Command that the scripts call with RUNS or PLACES to complete a name; it makes no request, so that a Tab takes a
tenth of a second."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)


def run(args: argparse.Namespace) -> int:
    if args.shell == RUNS:
        sys.stdout.writelines(
            f"{name}\n" for name in run_names(state_dir(own_environment(), home=Path.home()) / "runs")
        )
        return 0
    if args.shell == PLACES:
        sys.stdout.writelines(f"{name}\n" for name in place_names(Path.cwd()))
        return 0
    import shtab

    command_line = parser()
    for action in _actions(command_line):
        if kind := _completed_kind(action):
            action.complete = shtab.cmd(f"{ASKED} {kind}")  # type: ignore[attr-defined]
    sys.stdout.write(shtab.complete(command_line, shell=args.shell))
    return 0


def run_names(index: Path) -> tuple[str, ...]:
    """Return the names of known runs, each once, sorted. Names that a shell would expand are skipped: the index may
    have been edited."""
    names = {entry.run_name for entry in read_index(index).entries}
    return tuple(sorted(name for name in names if _NAME.fullmatch(name)))


def place_names(start: Path) -> tuple[str, ...]:
    """Return the names in places.yaml, as `effects.places` finds it; none if it is invalid, which other verbs
    report.
    """
    from xsft.spec.yamltext import parse_yaml

    file = places_file(start, env=own_environment(), home=Path.home())
    try:
        places = parse_yaml(read_workload_text(file)).data if file else {}
    except XsftError:
        return ()
    return tuple(sorted(name for name in map(str, places) if _NAME.fullmatch(name)))


def _completed_kind(action: argparse.Action) -> str | None:
    """Return whether the argument takes RUNS or PLACES; None if neither."""
    if action.metavar == "RUN" and not action.option_strings:
        return RUNS
    return PLACES if "--place" in action.option_strings or action.metavar == "PLACE" else None


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the arguments of all verbs (argparse has no other way to them)."""
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for verb in action.choices.values():
                yield from _actions(verb)
        else:
            yield action
