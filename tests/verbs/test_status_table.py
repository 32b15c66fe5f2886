from __future__ import annotations

import io
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tests.goldens import Golden
from tests.observations import NOW, jobset, judged, local, observed, queued, said
from tests.runs.test_rows import observations
from xsft.base.state_names import STATES
from xsft.cluster.observation import Observation, Recorded, Status, Unread
from xsft.runs.lookup import fold
from xsft.runs.rows import Row
from xsft.trainer.progress import Progress
from xsft.verbs.status_screen import table
from xsft.verbs.status_table import COLUMNS, fitting_columns, one_line_each, plain_lines

STORY = (
    observed("gemma", cluster="lab"),
    queued("next", position=3),
    observed("silent", cluster="lab", progress=None, unread=(Unread(what="log", why="deadline"),)),
    local("tiny", progress=said(40, source="record", resumed_from=10, resumed_order="repeated")),
)


def rows(*observation: Observation) -> tuple[Row, ...]:
    return tuple(folded_run.row for folded_run in fold(observation, classify=judged, now=NOW))


def test_a_piped_table_has_every_column(golden: Golden) -> None:
    golden.check("status.txt", "\n".join(plain_lines(rows(*STORY))) + "\n")


def test_a_narrow_terminal_drops_the_least_needed_columns() -> None:
    shown = rows(*STORY)
    heads = {width: [column.head for column in fitting_columns(shown, width=width)] for width in (200, 100, 60, 10)}
    assert heads[200] == [column.head for column in COLUMNS]
    assert heads[100] == ["RUN", "STATE", "REASON", "STEP", "LOSS", "STEP TIME", "QUEUE/ETA", "AGE", "EVIDENCE"]
    assert heads[60] == ["RUN", "STATE", "REASON", "STEP", "LOSS", "AGE"]
    assert heads[10] == ["RUN", "STATE"]


def test_a_terminal_table_has_no_empty_columns() -> None:
    assert "MFU" not in [column.head for column in fitting_columns(rows(local()), width=300)]


def on_terminal(shown: tuple[Row, ...], *, width: int, **how: Any) -> str:
    console = Console(file=io.StringIO(), force_terminal=True, width=width, **how)
    console.print(table(shown, width=width))
    written: str = console.file.getvalue()  # type: ignore[attr-defined]
    return written


def test_a_terminal_has_colour_and_never_a_longer_line() -> None:
    written = on_terminal(rows(*STORY), width=60, color_system="standard")
    assert "\x1b[32mtraining" in written
    plain = on_terminal(rows(*STORY), width=60, color_system=None)
    assert "\x1b[3" not in plain
    assert max(map(len, plain.splitlines())) <= 60


def test_control_codes_are_removed_from_the_table() -> None:
    (line,) = plain_lines(rows(observed("x\x1b[2J", cluster="y\n\rz")))[1:]
    assert "x\\x1b[2J" in line
    assert line.isprintable()


@given(st.lists(observations(), max_size=3), st.sampled_from(STATES), st.integers(0, 200))
def test_every_row_is_printed_at_every_width(seen: list[Observation], state: Any, width: int) -> None:
    shown = tuple(folded_run.row for folded_run in fold(seen, classify=lambda _seen: Status(state=state), now=NOW))
    lines = plain_lines(shown)
    assert len(lines) == len(shown) + 1
    assert all(line.isprintable() for line in lines)
    assert on_terminal(shown, width=max(width, 1), color_system=None).count("\n") == len(shown) + 1


def test_a_loss_of_nan_is_reported() -> None:
    (line,) = plain_lines(rows(observed(progress=said(loss=float("nan")))))[1:]
    assert " nan " in line


def test_progress_without_a_step_is_printed_as_none_yet() -> None:
    compiling = Progress(source="log", read_at=NOW, phase="compiling")
    (line,) = plain_lines(rows(observed(progress=compiling)))[1:]
    assert " -/1000 " in line


def stage(name: str, work: str | None, *, at: str) -> Observation:
    record = Recorded(outcome="completed", started_at=f"2026-11-21T{at}:00Z", finished_at=f"2026-11-21T{at}:30Z")
    return local(name, record=msgspec.structs.replace(record, work=work), output="/runs")


def test_the_stages_of_a_pipeline_are_one_line_and_a_row_each() -> None:
    shown = rows(
        stage("tiny-convert", "convert", at="09:00"),
        stage("tiny", None, at="09:10"),
        stage("tiny-export", "export", at="09:20"),
        stage("other", None, at="09:15"),
        observed("by-hand-export", jobset=jobset("by-hand-export", ours=False)),
    )
    assert [(row.run_name, row.pipeline, row.stage) for row in shown] == [
        ("by-hand-export", None, None),
        ("tiny-export", "tiny", "export"),
        ("other", "other", "train"),
        ("tiny", "tiny", "train"),
        ("tiny-convert", "tiny", "convert"),
    ]
    lines = [row.run_name for row in one_line_each(shown)]
    assert lines == ["by-hand-export", "tiny (convert succeeded, export succeeded)", "other"]


def test_runs_of_one_name_in_two_folders_are_two_lines() -> None:
    shown = rows(stage("tiny", None, at="09:00"), local("tiny-convert", output="/elsewhere"))
    assert len(one_line_each(shown)) == 2
