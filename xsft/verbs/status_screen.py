"""The runs on a terminal, by rich: the table with colour, and `xsft status --watch`, which refreshes it in place and
prints a line per change elsewhere. Imported only for these.

If a cluster stops answering, its last rows stay, with their growing age.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import TextIO

from msgspec import Struct
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from xsft.base.amounts import duration_text, seconds_between
from xsft.base.errors import Unreachable
from xsft.base.lenient import Pause
from xsft.base.problems import Problem
from xsft.runs.lookup import RowFilter
from xsft.runs.read_all import RunAccess, read_status
from xsft.runs.rows import Row, aged, state_line
from xsft.spec.keypath import printable
from xsft.verbs.console import console
from xsft.verbs.document import problem_lines
from xsft.verbs.status_table import GAP, NOTHING, fitting_columns, one_line_each

EVERY_S = 5.0

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


class StatusView(Struct, frozen=True, kw_only=True):
    """The result of one read."""

    rows: tuple[Row, ...]
    at: str
    """Time of the read; UTC, ISO 8601."""
    said: tuple[str, ...] = ()
    """What could not be read, one line each."""
    stale: bool = False
    """Whether nothing could be read: the rows are those of an earlier read."""


def watch(
    runs: RunAccess,
    row_filter: RowFilter,
    *,
    every_s: float,
    pause: Pause,
    stdout: TextIO | None = None,
    rounds: int | None = None,
) -> int:
    """Refresh until Ctrl-C (exit status 130), or for `rounds` reads. Raises as `report` does at the first read only."""
    stream = stdout or sys.stdout
    drawn = console(stream)
    views = _looks(partial(next_look, runs, row_filter), every_s=every_s, pause=pause, rounds=rounds)
    if drawn.is_terminal and not drawn.is_dumb_terminal and not drawn.no_color:
        with Live(console=drawn, auto_refresh=False, transient=False) as live:
            for view in views:
                live.update(_picture(view, console=drawn, now=runs.now(), every_s=every_s), refresh=True)
        return 0
    before: StatusView | None = None
    for view in views:
        stream.writelines(f"{runs.now()}  {line}\n" for line in changes(before, view))
        stream.flush()
        before = view
    return 0


def _looks(
    look: Callable[[StatusView | None], StatusView], *, every_s: float, pause: Pause, rounds: int | None
) -> Iterator[StatusView]:
    """Yield `rounds` reads, or reads without end, with a pause between two."""
    before: StatusView | None = None
    for _ in repeat(None) if rounds is None else repeat(None, rounds):
        if before is not None:
            pause(every_s)
        before = look(before)
        yield before


def next_look(runs: RunAccess, row_filter: RowFilter, before: StatusView | None) -> StatusView:
    """Read the runs. The first read raises if nothing can be read, or a name is missing; later ones keep the earlier
    rows with their age."""
    now = runs.now()
    try:
        status = read_status(runs, row_filter)
    except Unreachable as silent:
        if before is None:
            raise
        return StatusView(rows=_older(before, now), at=now, said=lines_of(silent.problems), stale=True)
    if before is None and status.missing:
        raise status.missing
    rows = status.rows
    if before is not None and not status.found.whole:  # a run missing from an incomplete answer may still exist
        read_keys = {_row_key(run.row) for run in status.found.rows}
        rows = (*rows, *(row for row in _older(before, now) if _row_key(row) not in read_keys))
    return StatusView(rows=rows, at=now, said=lines_of(status.problems))


def changes(before: StatusView | None, after: StatusView) -> tuple[str, ...]:
    """Return a line per run whose state, reason or step changed, and per run that appeared or disappeared."""
    old = {} if before is None else {_row_key(row): row for row in before.rows}
    new = {_row_key(row): row for row in after.rows}
    lines = [state_line(row) for key, row in new.items() if key not in old or state_line(old[key]) != state_line(row)]
    lines += [f"{printable(row.run_name)}  no longer shown" for key, row in old.items() if key not in new]
    before_said = before.said if before else ()
    return (*lines, *(line for line in after.said if line not in before_said))


def _picture(shown: StatusView, *, console: Console, now: str, every_s: float) -> RenderableType:
    """Return the picture with at most the terminal's lines: the newest runs stay, and a line counts the hidden ones."""
    messages = shown.said[:4]
    room, rows = max(1, console.height - len(messages) - 3), one_line_each(shown.rows)
    left_out = max(0, len(rows) - room)
    parts: list[RenderableType] = [table(rows[:room], width=console.width)] if rows else [Text("no runs")]
    parts += [Text(line, style="yellow", no_wrap=True, overflow="ellipsis") for line in messages]
    more = f" · {left_out} more runs do not fit" if left_out else ""
    state = "not answering, older rows" if shown.stale else "read"
    parts.append(Text(f"{state} at {now[11:19]} UTC, every {duration_text(every_s)}{more} · Ctrl-C ends", style="dim"))
    return Group(*parts)


def lines_of(problems: Iterable[Problem]) -> tuple[str, ...]:
    return tuple(line for problem in problems for line in problem_lines(problem))


def _older(before: StatusView, now: str) -> tuple[Row, ...]:
    seconds = max(0.0, seconds_between(before.at, now) or 0.0)
    return tuple(aged(row, seconds=seconds) for row in before.rows)


def _row_key(row: Row) -> tuple[str, ...]:
    where = (row.cluster if row.on_cluster else row.output) or NOTHING
    return (row.target, where, row.namespace or NOTHING, row.run_name)
