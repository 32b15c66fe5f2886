"""`xsft doctor`: show what this machine has and lacks, whether the places can be used, and the commands that fix it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping

from msgspec import to_builtins
from rich.table import Table
from rich.text import Text

from xsft.base.errors import EnvironmentMissing
from xsft.base.names import ModeName
from xsft.checks.place_needs import ModeNeed, missing_needs
from xsft.verbs.console import console
from xsft.verbs.plan_document import print_json
from xsft.verbs.progress import show_progress
from xsft.world import doctor
from xsft.world.check import check_place, place_checks
from xsft.world.tools import ToolCheck


def run(args: argparse.Namespace) -> int:
    """Print the checks; return 0 if planning and local training can work, 3 if anything for them is missing."""
    if args.place:
        return _check_place(args.place, as_json=args.json)
    with show_progress("looking around"):
        here, places = doctor.examine(doctor.checked_machine()), place_checks()
    ok = doctor.is_ok(here)
    if args.json:
        rows = [check.as_json() for check in (*here, *places)]
        print_json("doctor", {"checks": rows, "needs": [], "modes": None, "ok": ok})
    else:
        _print_table(here, places)
    return 0 if ok else EnvironmentMissing.exit_status


def _check_place(name: str, *, as_json: bool) -> int:
    """Print what the place has and lacks; return 3 if no mode can run there."""
    with show_progress("place"):
        report = check_place(name)
    modes = missing_needs(report.needs) if report.needs else None
    ok = modes is not None and not all(modes.values())
    if as_json:
        rows, needs = [check.as_json() for check in report.checks], to_builtins(report.needs)
        print_json("doctor", {"checks": rows, "needs": needs, "modes": modes, "ok": ok})
    else:
        _print_table((), report.checks)
        _print_needs(report.needs, modes or {})
    return 0 if ok else EnvironmentMissing.exit_status


def _print_needs(needs: tuple[ModeNeed, ...], modes: Mapping[ModeName, tuple[str, ...]]) -> None:
    drawn = console(sys.stdout)
    if needs:
        drawn.print(Text(""))
        drawn.print(_needs_table(needs))
    for need in needs:
        if need.ok is False:
            drawn.print(Text(f"\n{need.id}: {need.detail}\n  fix: {need.fix}"), soft_wrap=True)
    if modes:
        drawn.print(Text(""))
    for mode, ids in modes.items():
        state = f"needs {', '.join(ids)}" if ids else "ready"
        drawn.print(Text(f"{mode}: {state}"), soft_wrap=True)


def _needs_table(needs: tuple[ModeNeed, ...]) -> Table:
    table = Table("NEED", "STATE", "MODES", "FOUND", box=None, pad_edge=False)
    words = {True: "ok", False: "MISSING", None: "unknown"}
    for need in needs:
        table.add_row(*map(Text, (need.id, words[need.ok], ", ".join(need.modes), need.detail)))
    return table


def _print_table(here: tuple[ToolCheck, ...], places: tuple[ToolCheck, ...]) -> None:
    """Print the checks of this machine, and of places."""
    table = Table("CHECK", "STATE", "VERSION", "NEEDED FOR", box=None, pad_edge=False)
    tools = ((check, "MISSING" if check.required else "absent (optional)") for check in here)
    for check, failed in (*tools, *((place, "FAILS") for place in places)):
        state = "ok" if check.ok else failed
        table.add_row(*map(Text, (check.id, state, check.version, check.needed_for)))
    drawn = console(sys.stdout)
    drawn.print(table)
    for check in (check for check in (*here, *places) if not check.ok):
        words = f"\n{check.id}: {check.detail}\n  fix: {check.next_step}"
        drawn.print(Text(words), soft_wrap=True)
