"""`xsft compare RUN…`: the losses of several runs in one plot, in the terminal and as a picture."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from xsft.actions.new_file import refuse_unless_free
from xsft.actions.pictures import comparison_picture
from xsft.actions.runs.compare import CompareWorld, compare_world, curves_of
from xsft.actions.runs.selection import runs_of
from xsft.effects.machine.files import write_atomic
from xsft.effects.runs.losses import LossCurve
from xsft.errors import UsageError
from xsft.naming import RowOrder
from xsft.problems import Problem, note, warning
from xsft.screen.documents import print_json
from xsft.screen.failure import print_problems, problem_documents
from xsft.screen.loss_plot import LETTERS, terminal_comparison
from xsft.screen.progress import spinning
from xsft.spec.keypath import printable
from xsft.trainers.record import all_differences

NAMES = frozenset({"name", "run_name", "run_name_suffix", "output"})
"""Keys that differ between any two runs, and change no loss."""


def run(args: argparse.Namespace) -> int:
    target = Path(args.output) if args.output else None
    runs = runs_of(args.runs, place=args.place, context=args.context, namespace=args.namespace)
    return compare(tuple(dict.fromkeys(args.runs)), world=compare_world(runs), target=target, json=args.json)


def compare(names: Sequence[str], *, world: CompareWorld, target: Path | None, json: bool) -> int:
    """Plot the losses and return 0.

    Raises UsageError for a name that no run has and for more runs than letters, Unknown if no run has a loss.
    """
    _refuse_odd(names, target)
    if target is not None:
        refuse_unless_free(target, instead="without -o it only draws in the terminal")
    with spinning("compare", "reading the losses") as say:
        world.query.listen(say)
        curves, doubtful = curves_of(names, world)
    problems = (*_losses_unread(curves), *_read_again(curves), *doubtful)
    print_problems(() if json else problems)
    if target is not None:
        points = {one.run_name: one.points for one in curves}
        write_atomic(target, comparison_picture(points, kind="svg" if target.suffix == ".svg" else "png"))
    if json:
        _print_curves(curves, target, problems)
        return 0
    plot = terminal_comparison([one.points for one in curves])
    text = (*_legend(curves), *_differences(curves))
    lines = (*((plot,) if plot else ()), *text, *((f"picture  {target}",) if target else ()))
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.writelines([line.encode(encoding, "replace").decode(encoding) + "\n" for line in lines])
    return 0


def _refuse_odd(names: Sequence[str], target: Path | None) -> None:
    if len(names) > len(LETTERS):
        raise UsageError(f"{len(names)} runs: at most {len(LETTERS)} fit into one plot.", fix="Give fewer runs.")
    if target is not None and target.suffix not in (".png", ".svg"):
        raise UsageError(
            f"{target}: the picture is a PNG or an SVG.", fix=f"Name it {target.with_suffix('.png').name}."
        )


def _legend(curves: Sequence[LossCurve]) -> Iterator[str]:
    """Yield lines such as `a gemma 120 losses from metrics and log, steps 1 to 120, 6.675 -> 2.346, resumed from step
    40 (repeated)`."""
    width = max(len(one.run_name) for one in curves)
    for letter, one in zip(LETTERS, curves, strict=False):
        yield f"{letter}  {printable(one.run_name):<{width}}  {_curve_text(one)}"


def _differences(curves: Sequence[LossCurve]) -> Iterator[str]:
    """Yield a line for each key that differs: `b against a: train.learning_rate: 2e-05 -> 0.0001`."""
    for letter, one in zip(LETTERS[1:], curves[1:], strict=False):
        found = _differing(curves[0], one)
        nothing = "the same workload" if found == () else "no record, so differences are unknown"
        yield from (f"{letter} against a: {printable(line)}" for line in found or (nothing,))


def _differing(first: LossCurve, one: LossCurve) -> tuple[str, ...] | None:
    """Return lines `key: value of the first -> value of the other`; None without the records of both."""
    if not (first.spec and one.spec):
        return None
    return tuple(line for line in all_differences(first.spec, one.spec) if line.partition(":")[0] not in NAMES)


def _curve_text(one: LossCurve) -> str:
    if not one.points:
        return "no loss could be read" if one.problems else "no loss yet"
    first, last = min(one.points), max(one.points)
    source = " and ".join(one.sources)
    span = f"steps {first} to {last}, {one.points[first]:.3f} -> {one.points[last]:.3f}"
    resumed = "".join(f", resumed from step {step}{f' ({order})' if order else ''}" for step, order in _resumed(one))
    return f"{len(one.points)} losses from {source}, {span}{resumed}"


def _resumed(one: LossCurve) -> list[tuple[int, RowOrder | None]]:
    return sorted(one.resumed.items(), key=lambda found: found[0])


def _read_again(curves: Sequence[LossCurve]) -> Iterator[Problem]:
    """Yield warnings for rows that were trained on again in the same order, and notes for those in another order."""
    for one in curves:
        repeated = [str(step) for step, order in _resumed(one) if order == "repeated"]
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


def _print_curves(curves: Sequence[LossCurve], target: Path | None, problems: Sequence[Problem]) -> None:
    document = {
        "runs": [_curve_document(one, first=curves[0]) for one in curves],
        "plot": str(target) if target else None,
        "problems": problem_documents(problems),
    }
    print_json("compare", document)


def _curve_document(one: LossCurve, *, first: LossCurve) -> dict[str, Any]:
    """Return the curve as JSON fields; losses that are not numbers are left out, because JSON has none."""
    differs = _differing(first, one)
    points = sorted((step, loss) for step, loss in one.points.items() if abs(loss) < float("inf"))
    return {
        "run_name": one.run_name,
        "sources": list(one.sources),
        "resumed": [{"step": step, "order": order} for step, order in _resumed(one)],
        "points": [{"step": step, "loss": loss} for step, loss in points],
        "unread": list(one.problems),
        "differs": None if differs is None else list(differs),
    }
