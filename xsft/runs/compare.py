"""Compare the losses of several runs, and draw them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from xsft.base.errors import Unknown, UsageError
from xsft.base.names import RowOrder
from xsft.base.problems import Problem, note, warning
from xsft.base.reporting import Reporter
from xsft.machine.files import write_atomic
from xsft.machine.new_file import refuse_unless_free
from xsft.records.resumption import all_differences
from xsft.runs.lookup import FoldedRun, one_run, require_names
from xsft.runs.losses import LossCurve
from xsft.runs.pictures import comparison_picture
from xsft.runs.read_all import RunAccess
from xsft.runs.rows import doubts

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
        _refuse_target(target)
    with listener.waiting("compare", "reading the losses") as say:
        runs.listen(say)
        curves, doubtful = curves_of(names, runs=runs, read=read)
    if target is not None:
        points = {one.run_name: one.points for one in curves}
        write_atomic(target, comparison_picture(points, kind="svg" if target.suffix == ".svg" else "png"))
    return RunComparison(curves=curves, problems=(*_losses_unread(curves), *_read_again(curves), *doubtful))


def _refuse_target(target: Path) -> None:
    if target.suffix not in (".png", ".svg"):
        raise UsageError(
            f"{target}: the picture is a PNG or an SVG.", fix=f"Name it {target.with_suffix('.png').name}."
        )
    refuse_unless_free(target, instead="without -o it only draws in the terminal")


def curves_of(
    names: Sequence[str], *, runs: RunAccess, read: ReadCurves
) -> tuple[tuple[LossCurve, ...], tuple[Problem, ...]]:
    """Return the curves, and warnings about runs that are not worth comparing."""
    found = runs.look()
    require_names(names, found)
    hits = tuple(one_run(name, found) for name in names)
    curves = read(hits)
    if not any(one.points for one in curves):
        why = "; ".join(f"{one.run_name}: {', '.join(one.problems) or 'no output yet'}" for one in curves)
        raise Unknown(f"No loss could be read for any of these runs: {why}.", fix="xsft status shows their state.")
    return curves, tuple(one for hit in hits for one in doubts(hit.row))


def differing_keys(first: LossCurve, one: LossCurve) -> tuple[str, ...] | None:
    """Return lines `key: value of the first -> value of the other`; None without the records of both."""
    if not (first.spec and one.spec):
        return None
    return tuple(line for line in all_differences(first.spec, one.spec) if line.partition(":")[0] not in NAMES)


def resumptions(one: LossCurve) -> list[tuple[int, RowOrder | None]]:
    return sorted(one.resumed.items(), key=lambda found: found[0])


def _read_again(curves: Sequence[LossCurve]) -> Iterator[Problem]:
    """Yield warnings for rows that were trained on again in the same order, and notes for those in another order."""
    for one in curves:
        repeated = [str(step) for step, order in resumptions(one) if order == "repeated"]
        if repeated:
            message = (
                f"After step {', '.join(repeated)} it read the same rows again in the same order, so its losses "
                "are lower than those of an uninterrupted run."
            )
            fix = "Compare earlier steps; with restarts.data: reshuffle a resumed run reads the rows in another order."
            yield warning("resumed-repeated", one.run_name, message, fix)
        elif one.resumed:
            message = "It resumed and read its rows from the first one again, so it trained on some of them twice."
            yield note("resumed-rows", one.run_name, message)


def _losses_unread(curves: Sequence[LossCurve]) -> Iterator[Problem]:
    for one in curves:
        for why in one.problems:
            yield warning("losses-not-read", one.run_name, f"Not all losses could be read: {why}.", "Try again.")
