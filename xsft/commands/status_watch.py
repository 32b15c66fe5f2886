"""`xsft status --watch`: the table again and again in place on a terminal, a line per change elsewhere. A cluster that
stops answering leaves what was last read on the query, growing older.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TextIO

from msgspec import Struct

from xsft.commands.durations import duration_text
from xsft.commands.failure import problem_lines
from xsft.commands.status_table import NOTHING, table
from xsft.errors import Unreachable
from xsft.problems import Problem
from xsft.run_query import RunQuery, look, pick
from xsft.spec.keypath import printable
from xsft.states.folding import chosen
from xsft.states.rows import Row, aged

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

EVERY_S = 5.0

Pause = Callable[[float], None]


class Shown(Struct, frozen=True, kw_only=True):
    """One look."""

    rows: tuple[Row, ...]
    said: tuple[str, ...] = ()
    """What could not be read, a line each."""
    stale: bool = False
    """Nothing could be read: the rows are those of an earlier look."""


def watch(
    query: RunQuery, *, every_s: float, pause: Pause, stdout: TextIO | None = None, rounds: int | None = None
) -> int:
    """Until Ctrl-C (exit status 130), or for so many rounds. Raises as `report` does at the first look only."""
    from xsft.commands.console import console

    stream = stdout or sys.stdout
    drawn = console(stream)
    pace = _Pace(query=query, every_s=every_s, pause=pause, rounds=rounds)
    if drawn.is_terminal and not drawn.is_dumb_terminal and not drawn.no_color:
        _in_place(pace, drawn)
    else:
        _line_by_line(pace, stream)
    return 0


class _Pace(Struct, kw_only=True):
    """One look after another; a pause between two, none after the last."""

    query: RunQuery
    every_s: float
    pause: Pause
    rounds: int | None
    before: Shown | None = None

    def __iter__(self) -> _Pace:
        return self

    def __next__(self) -> Shown:
        if self.rounds == 0:
            raise StopIteration
        if self.before is not None:
            self.pause(self.every_s)
        self.rounds = None if self.rounds is None else self.rounds - 1
        self.before = next_look(self.query, self.before)
        return self.before


def next_look(query: RunQuery, before: Shown | None) -> Shown:
    """The first look raises where nothing can be read; later ones keep what was there, older."""
    if before is None:
        found, rows = look(query)
        return Shown(rows=pick(query, rows, found), said=lines_of(found.problems))
    try:
        found, rows = look(query)
    except Unreachable as silent:
        return Shown(rows=_older(before.rows, query.now()), said=lines_of(silent.problems), stale=True)
    picked = tuple(one.row for one in chosen(rows, query.wanted))
    if not found.whole:  # what is not in half an answer is not gone
        there = {_key(one.row) for one in rows}
        picked = (*picked, *_older((row for row in before.rows if _key(row) not in there), query.now()))
    return Shown(rows=picked, said=lines_of(found.problems))


def changes(before: Shown | None, after: Shown) -> tuple[str, ...]:
    """A line per run whose state, reason or step is another one, and per run that came or went."""
    old = {} if before is None else {_key(row): row for row in before.rows}
    new = {_key(row): row for row in after.rows}
    lines = [change(row) for key, row in new.items() if key not in old or change(old[key]) != change(row)]
    lines += [f"{printable(row.run_name)}  no longer shown" for key, row in old.items() if key not in new]
    before_said = before.said if before else ()
    return (*lines, *(line for line in after.said if line not in before_said))


def _line_by_line(pace: _Pace, stream: TextIO) -> None:
    before: Shown | None = None
    for after in pace:
        stream.writelines(f"{pace.query.now()}  {line}\n" for line in changes(before, after))
        stream.flush()
        before = after


def _in_place(pace: _Pace, console: Console) -> None:
    from rich.live import Live

    with Live(console=console, auto_refresh=False, transient=False) as live:
        for after in pace:
            live.update(_picture(after, console=console, now=pace.query.now(), every_s=pace.every_s), refresh=True)


def _picture(shown: Shown, *, console: Console, now: str, every_s: float) -> RenderableType:
    """Never more lines than the terminal has: the newest runs stay, how many are left out is said."""
    from rich.console import Group
    from rich.text import Text

    said = shown.said[:4]
    room = max(1, console.height - len(said) - 3)
    left_out = len(shown.rows) - room if len(shown.rows) > room else 0
    parts: list[RenderableType] = [table(shown.rows[:room], width=console.width)] if shown.rows else [Text("no runs")]
    parts += [Text(line, style="yellow", no_wrap=True, overflow="ellipsis") for line in said]
    more = f" · {left_out} more runs do not fit" if left_out else ""
    state = "not answering, older rows" if shown.stale else "read"
    parts.append(Text(f"{state} at {now[11:19]} UTC, every {duration_text(every_s)}{more} · Ctrl-C ends", style="dim"))
    return Group(*parts)


def change(row: Row) -> str:
    """`gemma  training  step 120/1000  loss 2.346`."""
    reason = f" ({row.reason})" if row.reason else ""
    step = "" if row.step is None else f"  step {row.step}{f'/{row.steps}' if row.steps else ''}"
    loss = "" if row.loss is None else f"  loss {row.loss:.4g}"
    return f"{printable(row.run_name)}  {row.state}{printable(reason)}{step}{loss}"


def lines_of(problems: Iterable[Problem]) -> tuple[str, ...]:
    return tuple(line for problem in problems for line in problem_lines(problem))


def _older(rows: Iterable[Row], now: str) -> tuple[Row, ...]:
    return tuple(aged(row, now=now) for row in rows)


def _key(row: Row) -> tuple[str, ...]:
    where = (row.cluster if row.on_cluster else row.output) or NOTHING
    return (row.target, where, row.namespace or NOTHING, row.run_name)
