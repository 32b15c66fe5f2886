"""`xsft compare RUN…`: the losses of several runs in one plot, in the terminal and as a picture."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from xsft.base.errors import UsageError
from xsft.runs.compare import ReadCurves, compare_runs
from xsft.runs.log_sources import RunLogs
from xsft.runs.read_all import runs_of
from xsft.runs.run_access import RunAccess
from xsft.verbs.compare_text import comparison_document, comparison_lines
from xsft.verbs.failure import print_problems
from xsft.verbs.loss_plot import LETTERS
from xsft.verbs.plan_document import print_json
from xsft.verbs.terminal import terminal


def run(args: argparse.Namespace) -> int:
    target = Path(args.output) if args.output else None
    runs = runs_of(args.runs, place=args.place, context=args.context, namespace=args.namespace)
    names, read = tuple(dict.fromkeys(args.runs)), RunLogs(runs=runs).curves
    return compare(names, runs=runs, read=read, target=target, json=args.json)


def compare(names: Sequence[str], *, runs: RunAccess, read: ReadCurves, target: Path | None, json: bool) -> int:
    """Plot the losses and return 0. Raises UsageError for more runs than letters, and as `compare_runs`."""
    if len(names) > len(LETTERS):
        raise UsageError(f"{len(names)} runs: at most {len(LETTERS)} fit into one plot.", fix="Give fewer runs.")
    made = compare_runs(names, runs=runs, read=read, target=target, listener=terminal())
    if json:
        print_json("compare", comparison_document(made, target=target))
        return 0
    print_problems(made.problems)
    encoding = sys.stdout.encoding or "utf-8"
    lines = comparison_lines(made.curves, target=target)
    sys.stdout.writelines([line.encode(encoding, "replace").decode(encoding) + "\n" for line in lines])
    return 0
