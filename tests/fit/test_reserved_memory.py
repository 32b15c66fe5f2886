from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from xsft.base.errors import EnvironmentMissing
from xsft.fit.reserved_memory import needed_gib, reserved_memory


def nothing(_line: str) -> None: ...


def test_memory_for_a_compilation_depends_on_the_model() -> None:
    assert (needed_gib(params_b=8.0), needed_gib(params_b=671.0), needed_gib(params_b=None)) == (4.0, 7.0, 4.0)


def test_a_second_compilation_starts_where_both_fit(tmp_path: Path) -> None:
    lines: list[str] = []
    both = reserved_memory(tmp_path, needed=4.0, say=lines.append, free_gib=lambda: 8.0)
    with reserved_memory(tmp_path, needed=4.0, say=lines.append, free_gib=lambda: 8.0), both:
        assert lines == []


def test_a_second_reservation_waits_for_the_first_and_reports_it_once(tmp_path: Path) -> None:
    lines: list[str] = []
    first = ExitStack()
    first.enter_context(reserved_memory(tmp_path, needed=4.0, say=lines.append, free_gib=lambda: 6.0))
    pauses = iter((ExitStack(), first))
    with reserved_memory(
        tmp_path, needed=4.0, say=lines.append, free_gib=lambda: 6.0, pause=lambda _s: next(pauses).close()
    ):
        assert lines == ["waiting: 6.0 GiB of memory free, 4 needed, and 1 other compilation may take 4 GiB"]
    assert len(list(tmp_path.glob("[0-9]*"))) <= 1, "reservations that ended are removed by the next"


def test_too_little_memory_is_reported_with_both_sizes(tmp_path: Path) -> None:
    reservation = reserved_memory(tmp_path, needed=7.0, say=nothing, free_gib=lambda: 5.2)
    with pytest.raises(EnvironmentMissing, match=r"5\.2 GiB of memory free, 7 needed") as caught, reservation:
        pytest.fail("nothing may start")
    assert caught.value.problem_id == "fit-memory"
