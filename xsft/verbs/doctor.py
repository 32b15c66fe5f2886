"""`xsft doctor`: show what this machine has and lacks, whether the places can be used, and the commands that fix it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping

from msgspec import convert
from msgspec.structs import replace
from rich.table import Table
from rich.text import Text

from xsft.base.errors import EnvironmentMissing, UsageError
from xsft.base.names import ModeName
from xsft.checks.place_needs import ModeNeed, missing_needs
from xsft.verbs.console import console
from xsft.verbs.document import Document, VerbDocument, print_document
from xsft.verbs.progress import show_progress
from xsft.world import doctor
from xsft.world.check import check_place, place_checks
from xsft.world.tools import ToolCheck


class ModeGaps(Document, frozen=True, kw_only=True):
    """Ids of the missing needs of each mode."""

    mcjax: tuple[str, ...]
    pathways: tuple[str, ...]


class DoctorDocument(VerbDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.doctor/1"):
    """`xsft doctor --json`; with `--place` the checks are those of the place."""

    checks: tuple[ToolCheck, ...]
    needs: tuple[ModeNeed, ...] = ()
    """With `--place`: what each mode needs there; empty if its cluster did not answer."""
    modes: ModeGaps | None = None
    """With `--place`: what each mode lacks; a mode with an empty list is ready."""
    ok: bool
    """Whether everything required is present; with `--place`: whether a mode is ready."""


def run(args: argparse.Namespace) -> int:
    """Print the checks; return 0 if planning and local training can work, 3 if anything for them is missing."""
    if args.place:
        return _check_place(args.place, impersonate=args.impersonate, as_json=args.json)
    if args.impersonate:
        raise UsageError("--impersonate needs a place.", fix="Name it: xsft doctor --place NAME --impersonate")
    with show_progress("looking around"):
        here, places = doctor.examine(doctor.checked_machine()), place_checks()
    ok = doctor.is_ok(here)
    status = 0 if ok else EnvironmentMissing.exit_status
    if args.json:
        print_document(DoctorDocument(checks=_check_fields((*here, *places)), ok=ok, exit_status=status))
    else:
        _print_table(here, places)
    return status


def _check_place(name: str, *, impersonate: bool, as_json: bool) -> int:
    """Print what the place has and lacks; return 3 if no mode can run there."""
    with show_progress("place"):
        report = check_place(name, impersonate=impersonate)
    modes = missing_needs(report.needs) if report.needs else {}
    ok = bool(modes) and not all(modes.values())
    status = 0 if ok else EnvironmentMissing.exit_status
    if as_json:
        gaps = convert(modes, ModeGaps) if modes else None
        checks = _check_fields(report.checks)
        print_document(DoctorDocument(checks=checks, needs=report.needs, modes=gaps, ok=ok, exit_status=status))
    else:
        _print_table((), report.checks)
        _print_needs(report.needs, modes)
    return status


def _check_fields(checks: Iterable[ToolCheck]) -> tuple[ToolCheck, ...]:
    return tuple(replace(check, fix=check.next_step) for check in checks)


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
