"""Compare the losses of several runs, from every place that holds them, and draw them: the record of a local run, the
metrics beside a run's output, the log of the process that prints steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.errors import Unknown, UsageError, XsftError
from xsft.base.names import RowOrder
from xsft.base.problems import Problem, note, warning
from xsft.base.reporting import Reporter
from xsft.cluster.observation import Observation
from xsft.machine.files import refuse_unless_free, write_atomic
from xsft.machine.regular import read_bytes
from xsft.records.record import Record
from xsft.records.record_files import RecordStore
from xsft.records.resumption import all_differences
from xsft.runs.lookup import FoldedRun, one_run, require_names
from xsft.runs.pictures import comparison_picture
from xsft.runs.read_all import RunAccess
from xsft.runs.read_progress import read_metrics
from xsft.runs.rows import doubts, order_of
from xsft.trainer.lines import CheckpointRestored, trainer_event
from xsft.trainer.metrics import event_losses, losses_of, tensorboard_folder
from xsft.trainer.progress import LossFold

MAX_FILES = 1000
"""Maximum number of metrics files; each holds 100 steps."""

ReadLines = Callable[[Observation], Iterable[str]]
"""Return the lines of the process that prints steps. Raises XsftError if they cannot be read."""


class LossCurve(Struct, frozen=True, kw_only=True):
    run_name: str
    output: str | None = None
    """Its base_output_directory; None if unknown."""
    points: Mapping[int, float] = {}
    """Loss by step."""
    resumed: Mapping[int, RowOrder | None] = {}
    """Steps from which the run is known to have resumed, and the order of the rows since then."""
    sources: tuple[str, ...] = ()
    """The sources that gave points: record, metrics, log."""
    problems: tuple[str, ...] = ()
    """`source: why`, one for each source that could not be read."""
    spec: Mapping[str, Any] = {}
    """The workload from its last record (`spec.digest.canonical`), with `hub_commits` if it has some; empty if there is
    no such record."""


def read_curve(observation: Observation, *, output: str | None, store: RecordStore, lines: ReadLines) -> LossCurve:
    """Return the run's loss curve. If two sources have the same step, the later source is used: the log is more precise
    than the metrics.
    """
    run_name = observation.run_name
    readers: dict[str, Callable[[], LossCurve]] = {"record": lambda: _recorded_losses(store, output, run_name)}
    if observation.on_cluster:
        readers["metrics"] = lambda: LossCurve(run_name=run_name, points=_losses_in_metrics(store, output, run_name))
        readers["log"] = lambda: _logged_losses(
            lines(observation), run_name=run_name, order=order_of(observation.jobset)
        )
    curve = LossCurve(run_name=run_name, output=output)
    for source, read in readers.items():
        try:
            source_curve = read()
        except XsftError as failed:
            curve = replace(curve, problems=(*curve.problems, f"{source}: {failed.clause}"))
            continue
        curve = replace(
            curve,
            points={**curve.points, **source_curve.points},
            resumed={**curve.resumed, **source_curve.resumed},
            spec=source_curve.spec or curve.spec,
            problems=(*curve.problems, *source_curve.problems),
            sources=(*curve.sources, source) if source_curve.points else curve.sources,
        )
    return curve


def _recorded_losses(store: RecordStore, output: str | None, run_name: str) -> LossCurve:
    """Return the losses in the records of a local run, and the attempts of any run. A cluster's log has only the latest
    start.
    """
    records = store.read_run(output, run_name) if output else ()
    attempts = [attempt for record in records for attempt in record.attempts]
    resumed = {one.resumed_from: one.order for one in attempts if one.resumed_from is not None}
    if not records:
        return LossCurve(run_name=run_name)
    last = records[-1]
    problems = tuple(f"record: {one.last.reason}" for one in records if one.unread)
    points = dict(last.losses)
    if last.on_this_machine and last.outcome == "running":  # or its xsft was killed, and the trainer went on
        points |= later_losses(Path(output or "") / run_name, after=max(points, default=0))
    return LossCurve(run_name=run_name, points=points, resumed=resumed, problems=problems, spec=_settings_of(last))


def _settings_of(record: Record) -> Mapping[str, Any]:
    if not (record.spec and record.hub_commits):
        return record.spec
    return {**record.spec, "hub_commits": record.hub_commits}


def recorded_curve(store: RecordStore, output: str, record: Record) -> LossCurve:
    """Return the losses of a run that has ended, from its record, and for a cluster's run from its metrics. Raises
    Unreachable if they cannot be read."""
    points = record.losses or _losses_in_metrics(store, output, record.run_name)
    source = "record" if record.losses else "metrics"
    settings = _settings_of(record)
    return LossCurve(run_name=record.run_name, output=output, points=points, sources=(source,), spec=settings)


def _losses_in_metrics(store: RecordStore, output: str | None, run_name: str) -> Mapping[int, float]:
    """Return the losses in the metrics files. A file that a resumed run wrote again counts with its current content."""
    return losses_of(read_metrics(store, output=output, run_name=run_name, at_most=MAX_FILES)) if output else {}


def _logged_losses(lines: Iterable[str], *, run_name: str, order: RowOrder | None) -> LossCurve:
    fold = LossFold()
    resumed: dict[int, RowOrder | None] = {}
    for line in lines:
        event = trainer_event(line)
        fold.take(event)
        if isinstance(event, CheckpointRestored):
            resumed[event.step] = order
    return LossCurve(run_name=run_name, points=fold.losses, resumed=resumed)


MAX_BYTES = 256 * 1024 * 1024
"""Limit of a file; a step writes about 2 KB."""


def later_losses(folder: Path, *, after: int) -> dict[int, float]:
    """Return the losses of steps after that one; a later file counts for a step in several. `folder`: the run's."""
    losses: dict[int, float] = {}
    for path in sorted(Path(tensorboard_folder(str(folder))).rglob("events.out.tfevents.*")):
        with suppress(OSError):
            losses |= event_losses(read_bytes(path, limit=MAX_BYTES))
    return {step: loss for step, loss in losses.items() if step > after}


NAMES = frozenset({"name", "run_name", "run_name_suffix", "output"})
"""Keys that differ between any two runs, and change no loss."""

ReadCurves = Callable[[tuple[FoldedRun, ...]], tuple[LossCurve, ...]]
"""Return the curve of each run, in that order. Never raises for a run that cannot be read: the curve says why."""


class RunComparison(Struct, frozen=True, kw_only=True):
    """Losses of several runs."""

    curves: tuple[LossCurve, ...]
    problems: tuple[Problem, ...]
    """Losses that could not be read, and runs that are not worth comparing."""


def compare_runs(
    names: Sequence[str], *, runs: RunAccess, read: ReadCurves, target: Path | None, listener: Reporter
) -> RunComparison:
    """Return the losses of the runs, drawn in the new file `target` (a PNG or an SVG) unless that is None.

    Raises UsageError for a name that no run has and for another kind of picture, Refused if the file exists, Unknown if
    no run has a loss.
    """
    if target is not None:
        if target.suffix not in (".png", ".svg"):
            raise UsageError(
                f"{target}: the picture is a PNG or an SVG.", fix=f"Name it {target.with_suffix('.png').name}."
            )
        refuse_unless_free(target, instead="without -o it only draws in the terminal")
    with listener.waiting("compare", "reading the losses") as say:
        runs.listen(say)
        curves, doubtful = curves_of(names, runs=runs, read=read)
    if target is not None:
        points = {curve.run_name: curve.points for curve in curves}
        write_atomic(target, comparison_picture(points, kind="svg" if target.suffix == ".svg" else "png"))
    return RunComparison(curves=curves, problems=(*_losses_unread(curves), *_read_again(curves), *doubtful))


def curves_of(
    names: Sequence[str], *, runs: RunAccess, read: ReadCurves
) -> tuple[tuple[LossCurve, ...], tuple[Problem, ...]]:
    """Return the curves, and warnings about runs that are not worth comparing."""
    answer = runs.look()
    require_names(names, answer)
    hits = tuple(one_run(name, answer) for name in names)
    curves = read(hits)
    if not any(one.points for one in curves):
        why = "; ".join(f"{one.run_name}: {', '.join(one.problems) or 'no output yet'}" for one in curves)
        raise Unknown(f"No loss could be read for any of these runs: {why}.", fix="xsft status shows their state.")
    return curves, tuple(one for hit in hits for one in doubts(hit.row))


def differing_keys(first: LossCurve, other: LossCurve) -> tuple[str, ...] | None:
    """Return lines `key: value of the first -> value of the other`; None without the records of both."""
    if not (first.spec and other.spec):
        return None
    return tuple(line for line in all_differences(first.spec, other.spec) if line.partition(":")[0] not in NAMES)


def resumptions(curve: LossCurve) -> list[tuple[int, RowOrder | None]]:
    return sorted(curve.resumed.items(), key=lambda resumption: resumption[0])


def _read_again(curves: Sequence[LossCurve]) -> Iterator[Problem]:
    """Yield warnings for rows that were trained on again in the same order, and notes for those in another order."""
    for curve in curves:
        repeated = [str(step) for step, order in resumptions(curve) if order == "repeated"]
        if repeated:
            message = (
                f"After step {', '.join(repeated)} it read the same rows again in the same order, so its losses "
                "are lower than those of an uninterrupted run."
            )
            fix = "Compare earlier steps; with restarts.data: reshuffle a resumed run reads the rows in another order."
            yield warning("resumed-repeated", curve.run_name, message, fix)
        elif curve.resumed:
            message = "It resumed and read its rows from the first one again, so it trained on some of them twice."
            yield note("resumed-rows", curve.run_name, message)


def _losses_unread(curves: Sequence[LossCurve]) -> Iterator[Problem]:
    for curve in curves:
        for why in curve.problems:
            yield warning("losses-not-read", curve.run_name, f"Not all losses could be read: {why}.", "Try again.")
