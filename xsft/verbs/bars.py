"""Progress bars and spinners on a terminal, by rich; imported once there is something to show."""

from __future__ import annotations

from typing import TextIO

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from xsft.verbs.console import console


def spinner(stream: TextIO) -> Progress:
    """Return a spinner with a description and the seconds."""
    return Progress(SpinnerColumn(), _description(), TimeElapsedColumn(), console=console(stream), transient=True)


def training_bar(stream: TextIO) -> Progress:
    """Return a bar of steps, followed by a description."""
    columns = (SpinnerColumn(), BarColumn(bar_width=14), _description(), TimeElapsedColumn())
    return Progress(*columns, console=console(stream), transient=True)


def _description() -> TextColumn:
    return TextColumn("{task.description}", markup=False)
