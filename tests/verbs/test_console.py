"""Drawings of rich with foreign texts in them; nothing draws without the screen."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.live import Live
from rich.progress import Progress, TextColumn
from rich.table import Table
from rich.text import Text

from xsft.machine.streams import ScreenedStream
from xsft.verbs.console import console

ROOT = Path(__file__).parents[2]
CLEAR = "\x1b[2J\x1b[Hall checks passed\x9b1m\u202e"
TOKEN = "hf" + "_" + "aB3" * 12


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drawn(draw: object) -> str:
    under = Terminal()
    to = console(ScreenedStream(under))
    to._force_terminal = True
    draw(to)  # type: ignore[operator]
    return under.getvalue()


class Closed(io.StringIO):
    """A pipe whose reader is gone, as after `| head`."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_closed_pipe_is_not_reported_as_a_bug() -> None:
    with pytest.raises(BrokenPipeError):
        console(Closed()).print("a table")


def test_control_codes_of_foreign_text_are_removed_and_own_colours_kept() -> None:
    table = Table("A")
    table.add_row(Text(CLEAR, style="red"))
    shown = drawn(lambda to: to.print(table))
    assert "\x1b[31m" in shown
    assert "\\u001b[2J" in shown
    assert not {"\x1b[2J", "\x1b[H", "\x9b", "\u202e"} & set(re.findall(r"\x1b\[[0-9]*[A-Za-z]|\x9b|\u202e", shown))


def test_control_codes_are_removed_from_bars_and_live_displays() -> None:
    def bar(to: object) -> None:
        with Progress(TextColumn("{task.description}", markup=False), console=to) as progress:  # type: ignore[arg-type]
            progress.add_task(f"{CLEAR} {TOKEN}")

    def live(to: object) -> None:
        with Live(Text(CLEAR), console=to, auto_refresh=False):  # type: ignore[arg-type]
            pass

    for draw in (bar, live):
        shown = drawn(draw)
        assert "\x1b[2J" not in shown
        assert "\x9b" not in shown
        assert TOKEN not in shown


def test_every_rich_console_is_made_by_this_module() -> None:
    files = [f for f in (ROOT / "xsft").rglob("*.py") if f.name != "console.py"]
    assert [f.name for f in files if re.search(r"\bConsole\(|__stdout__|__stderr__", f.read_text())] == []
