"""`xsft doctor`: show what this machine has and lacks, whether the places can be used, and the commands that fix it.
`xsft setup`: build, verify and repair the environments of xpk, MaxText, the engine and the TPU compiler."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from msgspec import convert
from msgspec.structs import asdict, replace
from rich.table import Table
from rich.text import Text

from xsft.base.errors import EnvironmentMissing, UsageError
from xsft.checks.place_needs import ModeNeed, missing_needs
from xsft.environments import environments
from xsft.verbs.console import console
from xsft.verbs.document import Document, VerbDocument, document_of, report_document, show_progress, show_spinner
from xsft.world import doctor
from xsft.world.check import check_place, place_checks
from xsft.world.tools import ToolCheck

PLACES_FILE = "places.yaml"
"""The check of that file as a whole."""


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


class Environment(Document, frozen=True, kw_only=True):
    """An environment that is ready."""

    name: Literal["xpk", "maxtext", "engine", "compiler"]
    version: str
    """Version of xpk, MaxText, mlx-lm or libtpu."""
    digest: str
    """sha256 of the lock file from which it was installed."""
    python: str
    """Path of its Python interpreter."""


class SetupDocument(VerbDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.setup/1"):
    """`xsft setup --json`."""

    environments: tuple[Environment, ...]


def setup(args: argparse.Namespace) -> int:
    bring = environments.repair if args.verify else environments.ensure
    with show_progress("setting up") as progress:
        ready = [bring(name, progress=progress) for name in args.names or environments.USUAL]
    rows = tuple(document_of(Environment, built, python=str(built.python)) for built in ready)
    return report_document(SetupDocument(environments=rows), _setup_lines, as_json=args.json)


def _setup_lines(document: SetupDocument) -> Iterator[str]:
    for environment in document.environments:
        yield f"{environment.name} {environment.version}: {Path(environment.python).parents[1]}"


def run(args: argparse.Namespace) -> int:
    """Print the checks; return 0 if planning and local training can work, 3 if anything for them is missing."""
    if args.impersonate and not args.place:
        raise UsageError("--impersonate needs a place.", fix="Name it: xsft doctor --place NAME --impersonate")
    document = _place_document(args.place, impersonate=args.impersonate) if args.place else _machine_document()
    if not document.ok:
        document = replace(document, exit_status=EnvironmentMissing.exit_status)
    return report_document(document, _draw_report, as_json=args.json)


def _machine_document() -> DoctorDocument:
    with show_spinner("doctor", "asking the tools and the clusters"):
        here = doctor.examine(doctor.checked_machine())
        places = place_checks()
    return DoctorDocument(checks=_with_next_steps((*here, *places)), ok=doctor.is_ok(here))


def _place_document(name: str, *, impersonate: bool) -> DoctorDocument:
    """Return what the place has and lacks; it is ok if a mode can run there."""
    with show_spinner("doctor", f"asking the place {name}"):
        report = check_place(name, impersonate=impersonate)
    document = DoctorDocument(checks=_with_next_steps(report.checks), needs=report.needs, ok=False)
    if not report.needs:  # its cluster did not answer
        return document
    modes = missing_needs(report.needs)
    return replace(document, modes=convert(modes, ModeGaps), ok=not all(modes.values()))


def _with_next_steps(checks: Iterable[ToolCheck]) -> tuple[ToolCheck, ...]:
    return tuple(replace(check, fix=check.next_step) for check in checks)


def _draw_report(document: DoctorDocument) -> None:
    """Draw the checks of this machine, and of places, whose ids name what was checked (`place:main`); then the needs of
    the place."""
    screen = console(sys.stdout)
    table = Table("CHECK", "STATE", "VERSION", "NEEDED FOR", box=None, pad_edge=False)
    for check in document.checks:
        state = "absent (optional)"
        if check.ok:
            state = "ok"
        elif check.required:
            state = "MISSING"
        elif ":" in check.id or check.id == PLACES_FILE:
            state = "FAILS"
        table.add_row(*map(Text, (check.id, state, check.version, check.needed_for)))
    screen.print(table)
    for check in document.checks:
        if not check.ok:
            screen.print(Text(f"\n{check.id}: {check.detail}\n  fix: {check.fix}"), soft_wrap=True)
    if document.needs:
        screen.print(Text(""))
        _draw_needs(document.needs)
    if document.modes:
        screen.print(Text(""))
        for mode, ids in asdict(document.modes).items():
            state = f"needs {', '.join(ids)}" if ids else "ready"
            screen.print(Text(f"{mode}: {state}"), soft_wrap=True)


def _draw_needs(needs: Iterable[ModeNeed]) -> None:
    screen = console(sys.stdout)
    table = Table("NEED", "STATE", "MODES", "FOUND", box=None, pad_edge=False)
    words = {True: "ok", False: "MISSING", None: "unknown"}
    for need in needs:
        table.add_row(*map(Text, (need.id, words[need.ok], ", ".join(need.modes), need.detail)))
    screen.print(table)
    for need in needs:
        if need.ok is False:
            screen.print(Text(f"\n{need.id}: {need.detail}\n  fix: {need.fix}"), soft_wrap=True)
