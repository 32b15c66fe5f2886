"""The time that a push waits for a registry that fails: pauses count, until a layer gets further."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from xsft.effects.images.docker_push import FURTHER, PATIENCE_S, _follow_push, _Pauses

Line = Mapping[str, Any]


def moving(layer: str, size: int) -> Line:
    return {"id": layer, "status": "Pushing", "progressDetail": {"current": size, "total": 100 * FURTHER}}


def pausing(layer: str, seconds: int) -> Iterator[Line]:
    for left in range(seconds, 0, -1):
        yield {"id": layer, "status": f"Retrying in {left} second{'s' if left > 1 else ''}"}


def ended(*lines: Line) -> str:
    """Return the error of a push that prints a line a second, and ends with its digest."""
    times = iter(map(float, range(1, len(lines) + 2)))
    done = {"aux": {"Digest": "sha256:1"}}
    return _follow_push((*lines, done), lambda _event: None, _Pauses(clock=lambda: next(times)))[0]


def test_pauses_without_upload_progress_end_a_push() -> None:
    assert ended(moving("a", FURTHER), *pausing("a", 5), moving("a", FURTHER), *pausing("a", 10)) == ""
    assert ended(moving("a", FURTHER), *pausing("a", 20), moving("a", FURTHER), *pausing("a", 20)) != ""
    assert ended(*pausing("a", int(PATIENCE_S) + 2)) != ""


def test_upload_time_does_not_count_as_a_pause() -> None:
    hours = [moving("a", n * FURTHER) for n in range(1, 50)]
    assert ended(*hours, *pausing("a", 5), *hours, *pausing("a", 10), *hours, *pausing("a", 15), *hours) == ""


def test_a_layer_that_progresses_or_completes_resets_the_pauses() -> None:
    twenty = tuple(pausing("a", 20))
    assert ended(*twenty, moving("a", FURTHER), *twenty, moving("a", 2 * FURTHER), *twenty) == ""
    assert ended(*twenty, {"id": "b", "status": "Pushed"}, *twenty) == ""
    assert ended(*twenty, moving("a", FURTHER // 2), *twenty) != ""
