"""BuildKit's plain progress, as both kinds of client print it (recorded from 20.10.24 and 28.2.2 with buildx)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.image.progress import BuildEvent, BuildOutput, StepDone, StepLine, StepStarted

OLD = """\
#1 [internal] load remote build context
#1 sha256:9a0b2e5acf1e7ae50cf33272e0ceaddab19f551309ebf9a20a43f06d520a4d49
#1 DONE 0.0s

#4 [1/2] FROM docker.io/library/tinybase:1
#4 sha256:3e28bd63371ee565d80e16e8c7af3cdf79f3e23032f00b9ccc98b2b80d86a30f
#4 CACHED

#5 [2/2] RUN echo one; echo two >&2; exit 3
#5 sha256:a645683b47401277464a6a71aae71a4561d9c015647e1c8fd89fcddbf29ae8b5
#5 0.283 one
#5 0.285 two
#5 ERROR: executor failed running [/bin/sh -c echo one; echo two >&2; exit 3]: exit code: 3
------
 > [2/2] RUN echo one; echo two >&2; exit 3:
------
executor failed running [/bin/sh -c echo one; echo two >&2; exit 3]: exit code: 3
"""
NEW = """\
#0 building with "default" instance using docker driver

#1 [internal] load remote build context
#1 DONE 0.0s

#4 [1/2] FROM docker.io/library/tinybase:1
#4 CACHED

#5 [2/2] RUN echo one; echo two >&2; exit 3
#5 0.283 one
#5 0.285 two
#5 ERROR: process "/bin/sh -c echo one; echo two >&2; exit 3" did not complete successfully: exit code: 3
------
 > [2/2] RUN echo one; echo two >&2; exit 3:
0.283 one
0.285 two
------
ERROR: failed to solve: process "/bin/sh -c echo one; echo two >&2; exit 3" did not complete successfully: exit code: 3
"""
COMMON = [
    StepStarted(id=1, name="load remote build context"),
    StepDone(id=1, outcome="done", seconds=0.0),
    StepStarted(id=4, name="FROM docker.io/library/tinybase:1", number=1, total=2),
    StepDone(id=4, outcome="cached"),
    StepStarted(id=5, name="RUN echo one; echo two >&2; exit 3", number=2, total=2),
    StepLine(id=5, text="one"),
    StepLine(id=5, text="two"),
    StepDone(id=5, outcome="failed"),
]


def read(text: str) -> tuple[BuildOutput, list[BuildEvent]]:
    reading = BuildOutput()
    return reading, [event for line in text.splitlines() for event in reading.events(line)]


@pytest.mark.parametrize("text", [OLD, NEW])
def test_both_clients_give_the_same_events(text: str) -> None:
    reading, events = read(text)
    assert events == COMMON
    assert reading.failed == "RUN echo one; echo two >&2; exit 3"
    assert reading.error.endswith("exit code: 3")
    assert not any("sha256:" in line for line in reading.tail)


def test_step_that_is_named_again_starts_once() -> None:
    _, events = read("#5 [2/2] RUN a\n#5 0.1 x\n\n#6 [x 1/3] RUN b\n\n#5 [2/2] RUN a\n#5 0.2 y\n")
    assert [event for event in events if isinstance(event, StepStarted)] == [
        StepStarted(id=5, name="RUN a", number=2, total=2),
        StepStarted(id=6, name="RUN b", number=1, total=3),
    ]


def test_error_before_any_step_is_kept() -> None:
    reading, _ = read(
        "failed to solve with frontend dockerfile.v0: dockerfile parse error line 1: unknown instruction: FRM"
    )
    assert "unknown instruction: FRM" in reading.error
    assert reading.failed == ""


@given(st.lists(st.text(max_size=40)))
def test_any_lines_are_read_and_the_tail_is_bounded(lines: list[str]) -> None:
    reading = BuildOutput()
    for line in lines:
        list(reading.events(line))
    assert len(reading.tail) <= 30
