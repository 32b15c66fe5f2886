"""`xsft doctor`: show what this machine has and lacks, whether the places can be used, and the commands that fix it."""

from __future__ import annotations

import argparse
import sys

from rich.table import Table
from rich.text import Text

from xsft.commands.console import console
from xsft.commands.documents import print_json
from xsft.commands.progress import shown
from xsft.effects.environments import doctor
from xsft.effects.environments.tools import ToolCheck
from xsft.effects.runs.placecheck import place_checks
from xsft.errors import EnvironmentMissing

PLACES = frozenset({"place", "bucket", "places.yaml"})
"""First words of the ids of checks that are not about this machine."""


def run(args: argparse.Namespace) -> int:
    """Print the checks; return 0 if planning and local training can work, 3 if something they need is missing."""
    with shown("looking around"):
        checks = (*doctor.examine(doctor.this_machine()), *place_checks())
    ok = doctor.is_ok(checks)
    if args.json:
        rows = [check.as_json() for check in checks]
        print_json("doctor", {"checks": rows, "ok": ok})
    else:
        _print_table(checks)
    return 0 if ok else EnvironmentMissing.exit_status


def _print_table(checks: tuple[ToolCheck, ...]) -> None:
    table = Table("CHECK", "STATE", "VERSION", "NEEDED FOR", box=None, pad_edge=False)
    for check in checks:
        table.add_row(*map(Text, (check.id, _state(check), check.version, check.needed_for)))
    drawn = console(sys.stdout)
    drawn.print(table)
    for check in (check for check in checks if not check.ok):
        words = f"\n{check.id}: {check.detail}\n  fix: {check.next_step}"
        drawn.print(Text(words), soft_wrap=True)


def _state(check: ToolCheck) -> str:
    if check.ok:
        return "ok"
    if check.id.partition(":")[0] in PLACES:
        return "FAILS"
    return "MISSING" if check.required else "absent (optional)"
