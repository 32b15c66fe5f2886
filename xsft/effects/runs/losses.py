"""The loss of a run over its steps, from wherever it is written: the record of a local run, the metrics beside a run's
output, the log of the process that prints steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from xsft.effects.records.records import RecordStore
from xsft.errors import XsftError
from xsft.naming import RowOrder
from xsft.states.model import Observation
from xsft.states.rows import order_of
from xsft.trainers.lines import Restored, Step, StepLoss, parse
from xsft.trainers.metrics import FOLDER, losses_of, newest_files, rows_of

MAX_FILES = 1000
"""Of metrics; 100 steps each."""
MAX_BYTES = 16 * 1024 * 1024

Lines = Callable[[Observation], Iterable[str]]
"""The lines of the process that prints steps. Raises XsftError where they cannot be read."""


class Curve(Struct, frozen=True, kw_only=True):
    run_name: str
    points: Mapping[int, float]
    """Step to loss."""
    resumed: Mapping[int, RowOrder | None] = {}
    """Steps from which it is known to have resumed, and the order of its rows since."""
    sources: tuple[str, ...] = ()
    """record | metrics | log, those that gave points."""
    problems: tuple[str, ...] = ()
    """`source: why` of those that could not be read."""
    spec: Mapping[str, Any] = {}
    """The workload as its last record has it (`spec.digest.canonical`); empty where none tells."""


class Part(Struct, frozen=True, kw_only=True):
    """What one source tells."""

    points: Mapping[int, float] = {}
    resumed: Mapping[int, RowOrder | None] = {}
    spec: Mapping[str, Any] = {}


def read_curve(seen: Observation, *, output: str | None, store: RecordStore, lines: Lines) -> Curve:
    """A step that two sources have counts with the later one's loss: the log is exacter than the metrics."""
    readers: dict[str, Callable[[], Part]] = {"record": lambda: _recorded(store, output, seen.run_name)}
    if seen.on_cluster:
        readers["metrics"] = lambda: Part(points=_metrics(store, output, seen.run_name))
        readers["log"] = lambda: _logged(lines(seen), order=order_of(seen.jobset))
    return _curve(seen.run_name, readers)


def _curve(run_name: str, readers: Mapping[str, Callable[[], Part]]) -> Curve:
    points: dict[int, float] = {}
    resumed: dict[int, RowOrder | None] = {}
    sources: list[str] = []
    problems: list[str] = []
    spec: Mapping[str, Any] = {}
    for source, read in readers.items():
        try:
            found = read()
        except XsftError as failed:
            problems.append(f"{source}: {failed.message}")
            continue
        points |= found.points
        resumed |= found.resumed
        spec = found.spec or spec
        sources += [source] if found.points else []
    return Curve(
        run_name=run_name,
        points=points,
        resumed=resumed,
        sources=tuple(sources),
        problems=tuple(problems),
        spec=spec,
    )


def _recorded(store: RecordStore, output: str | None, run_name: str) -> Part:
    """Losses of a local run; of every run its attempts. A cluster's log has only the latest start of one."""
    records = store.read_run(output, run_name) if output else ()
    attempts = [attempt for record in records for attempt in record.attempts]
    resumed = {one.resumed_from: one.order for one in attempts if one.resumed_from is not None}
    last = records[-1] if records else None
    return Part(points=last.losses if last else {}, resumed=resumed, spec=last.spec if last else {})


def _metrics(store: RecordStore, output: str | None, run_name: str) -> Mapping[int, float]:
    """Files that a resumed run wrote again count as they are now."""
    if not output:
        return {}
    folder = f"{output.rstrip('/')}/{run_name}/{FOLDER}"
    objects = store.objects_at(folder)
    names = newest_files(objects.written(folder), at_most=MAX_FILES)
    texts = (objects.read(f"{folder}/{name}", limit=MAX_BYTES) or b"" for name in names)
    return losses_of(row for text in texts for row in rows_of(text.decode("utf-8", "replace")))


def _logged(lines: Iterable[str], *, order: RowOrder | None) -> Part:
    """Tunix's six decimals where it printed the step as well; what a resumed run does again counts."""
    losses: dict[int, float] = {}
    exact: dict[int, float] = {}
    resumed: dict[int, RowOrder | None] = {}
    for line in lines:
        match parse(line):
            case StepLoss(step=step, loss=loss):
                exact[step] = loss
            case Step(step=step, loss=loss):
                losses[step] = exact.get(step, loss)
            case Restored(step=step):
                losses = {s: loss for s, loss in losses.items() if s <= step}
                resumed[step] = order
            case _:
                pass
    return Part(points=losses, resumed=resumed)
