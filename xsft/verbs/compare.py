"""`xsft compare RUN…`: the losses of several runs in one plot, in the terminal and as a picture."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from math import isfinite
from pathlib import Path

from msgspec.structs import replace

from xsft.base.errors import UsageError
from xsft.base.names import RowOrder
from xsft.cluster.sources import PlaceQuery
from xsft.records.record_files import RecordStore
from xsft.runs.compare import LossCurve, ReadCurves, RunComparison, compare_runs, differing_keys, resumptions
from xsft.runs.compare_baseline import Measure, curve_in_folder, earlier_curves, judge_run
from xsft.runs.log_sources import RunLogs
from xsft.runs.read_all import RunAccess, runs_for
from xsft.spec.keypath import printable
from xsft.verbs.card import LETTERS, drawable_text, terminal_comparison
from xsft.verbs.document import (
    Document,
    VerbDocument,
    print_lines,
    problem_documents,
    report_document,
    request_of,
)
from xsft.verbs.terminal import terminal


class Point(Document, frozen=True, kw_only=True):
    step: int
    loss: float


class Resumed(Document, frozen=True, kw_only=True):
    """A later start of a run."""

    step: int
    """Step of the checkpoint from which it resumed."""
    order: RowOrder | None
    """Order of the rows it read since, starting with the first row: another order than before, or the same; null if
    unknown."""


class Curve(Document, frozen=True, kw_only=True):
    """The losses of one run."""

    run_name: str
    sources: tuple[str, ...]
    """Sources of the losses: record, metrics, log."""
    resumed: tuple[Resumed, ...]
    """Later starts by step; for a run on a cluster, those that are still in its log or records."""
    points: tuple[Point, ...]
    """Losses by step; NaN and infinite values are left out."""
    unread: tuple[str, ...]
    """Sources that could not be read, as `source: reason`."""
    differs: tuple[str, ...] | None = None
    """`key: value -> value`: the workload of the first run against this one's, without names; null unless the records
    of both could be read."""


class CompareDocument(VerbDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.compare/1"):
    """`xsft compare RUN… --json`."""

    runs: tuple[Curve, ...]
    """Curves of the runs, in the order given."""
    plot: str | None
    """Path of the picture; null without `-o`."""
    measures: tuple[Measure, ...] = ()
    """With `--baseline`: the first run against the others, which are its last successful runs; empty with too few."""


def run(args: argparse.Namespace) -> int:
    target = Path(args.output) if args.output else None
    runs = runs_for(request_of(args, PlaceQuery), names=args.runs, everything=True)
    names = tuple(dict.fromkeys(args.runs))
    read = RunLogs(runs=runs).curves
    if args.last is None:
        return compare(names, runs=runs, read=read, target=target, json=args.json)
    if len(names) > 1 or target:
        raise UsageError("--baseline judges one run, and draws no picture.", fix="Give one RUN, without -o.")
    if "/" in names[0]:
        comparison = RunComparison(curves=(curve_in_folder(runs.store, names[0]),), problems=())
    else:
        comparison = compare_runs(names, runs=runs, read=read, target=None, listener=terminal())
    return judge(comparison, store=runs.store, count=args.last, json=args.json)


def judge(comparison: RunComparison, *, store: RecordStore, count: int, json: bool) -> int:
    """Plot the losses of the run and its earlier ones, and return 0. Raises RunFailed if it is worse."""
    (run,) = comparison.curves
    earlier = earlier_curves(run, store=store, count=count)
    judgement = judge_run(run, earlier)
    problems = (*comparison.problems, *judgement.problems)
    with_earlier = RunComparison(curves=(run, *earlier), problems=problems)
    document = replace(_compare_document(with_earlier, target=None), measures=judgement.measures)
    if judgement.failed and not json:
        print_lines(_comparison_lines(document))
    return report_document(document, _comparison_lines, as_json=json, failed=judgement.failed)


def compare(names: Sequence[str], *, runs: RunAccess, read: ReadCurves, target: Path | None, json: bool) -> int:
    """Plot the losses and return 0. Raises UsageError for more runs than letters, and as `compare_runs`."""
    if len(names) > len(LETTERS):
        raise UsageError(f"{len(names)} runs: at most {len(LETTERS)} fit into one plot.", fix="Give fewer runs.")
    comparison = compare_runs(names, runs=runs, read=read, target=target, listener=terminal())
    return report_document(_compare_document(comparison, target=target), _comparison_lines, as_json=json)


def _compare_document(comparison: RunComparison, *, target: Path | None) -> CompareDocument:
    first = comparison.curves[0]
    return CompareDocument(
        runs=tuple(_curve_document(curve, first=first) for curve in comparison.curves),
        plot=str(target) if target else None,
        problems=problem_documents(comparison.problems),
    )


def _curve_document(curve: LossCurve, *, first: LossCurve) -> Curve:
    return Curve(
        run_name=curve.run_name,
        sources=curve.sources,
        resumed=tuple(Resumed(step=step, order=order) for step, order in resumptions(curve)),
        points=tuple(Point(step=step, loss=loss) for step, loss in sorted(curve.points.items()) if isfinite(loss)),
        unread=curve.problems,
        differs=differing_keys(first, curve),
    )


def _comparison_lines(document: CompareDocument) -> Iterator[str]:
    """Yield the plot, a line for each run, the differences of the runs, and the file of the picture."""
    curves = document.runs
    if plot := terminal_comparison([{point.step: point.loss for point in curve.points} for curve in curves]):
        yield drawable_text(plot, sys.stdout)
    width = max(len(curve.run_name) for curve in curves)
    for letter, curve in zip(LETTERS, curves, strict=False):
        yield f"{letter}  {printable(curve.run_name):<{width}}  {_curve_text(curve)}"
    for letter, curve in zip(LETTERS[1:], curves[1:], strict=False):
        differences = curve.differs or ("the same workload",)
        if curve.differs is None:
            differences = ("no record, so differences are unknown",)
        yield from (f"{letter} against a: {printable(line)}" for line in differences)
    yield from (measure.text for measure in document.measures)
    if document.plot:
        yield f"picture  {document.plot}"


def _curve_text(curve: Curve) -> str:
    """Return e.g. `120 losses from metrics and log, steps 1 to 120, 6.675 -> 2.346, resumed from step 40`."""
    if not curve.points:
        return "no loss could be read" if curve.unread else "no loss yet"
    first, last = curve.points[0], curve.points[-1]
    source = " and ".join(curve.sources)
    starts = (
        f", resumed from step {start.step}{f' ({start.order})' if start.order else ''}" for start in curve.resumed
    )
    span = f"steps {first.step} to {last.step}, {first.loss:.3f} -> {last.loss:.3f}"
    return f"{len(curve.points)} losses from {source}, {span}{''.join(starts)}"
