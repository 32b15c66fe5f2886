"""The table of runs on a terminal, with colour, by rich; imported only on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from rich.table import Table
from rich.text import Text

from xsft.runs.rows import Row
from xsft.verbs.console import console
from xsft.verbs.status_table import GAP, fitting_columns

STYLES = {
    "queued": "yellow",
    "starting": "cyan",
    "compiling": "cyan",
    "training": "green",
    "saving": "green",
    "serving": "green",
    "succeeded": "bold green",
    "failed": "bold red",
    "cancelled": "dim",
    "evicted": "yellow",
    "stalled": "bold red",
    "unknown": "magenta",
}


def draw(rows: Sequence[Row], stdout: TextIO) -> None:
    drawn = console(stdout)
    drawn.print(table(rows, width=drawn.width))


def table(rows: Sequence[Row], *, width: int) -> Table:
    columns = fitting_columns(rows, width=width)
    shown = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for column in columns:
        shown.add_column(column.head, justify="right" if column.right else "left", no_wrap=True, overflow="ellipsis")
    for row in rows:
        shown.add_row(
            *(Text(c.text(row), style=STYLES.get(row.state, "") if c.head == "STATE" else "") for c in columns)
        )
    return shown
