"""Whether a run ended worse than the last successful runs of its workload, by the records and metrics in its output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from math import exp, inf, isfinite, log, sqrt
from statistics import fmean, stdev
from typing import Any, Literal

from msgspec import Struct

from xsft.base.amounts import counted_text
from xsft.base.errors import RunFailed, Unknown
from xsft.base.lenient import mapping
from xsft.base.problems import Problem, note, warning
from xsft.machine.parallel import all_answers
from xsft.records import records_folder
from xsft.records.record import Outcome, Record
from xsft.records.record_files import RecordStore, attempts_in
from xsft.records.resumption import all_differences
from xsft.runs.compare import LossCurve, recorded_curve

LEAST = 3
"""Minimum number of earlier runs: the spread of fewer is not known."""
T_QUANTILES = (
    *(15.76, 8.053, 5.951, 5.030, 4.524, 4.207, 3.991, 3.835, 3.716, 3.624, 3.550, 3.489),
    *(3.438, 3.395, 3.358, 3.326, 3.298, 3.273, 3.251, 3.231, 3.214, 3.198, 3.183),
)
"""The 0.998 quantiles of Student's t with 2, 3, … degrees of freedom, for 3, 4, … earlier runs."""
MOST = LEAST + len(T_QUANTILES) - 1
TOLERANCE = 0.005
"""Relative difference that is never worse: runs with the same seeds may have no spread at all."""
READERS = 16
"""Records read at once; a bucket takes a tenth of a second for each request."""
BAD_ENDS: frozenset[Outcome] = frozenset({"not-created", "short", "failed", "interrupted", "cancelled"})
"""Outcomes of a run that did not succeed. The record of one that succeeded on a cluster has no outcome, but its metrics
have the loss of its last step."""
SAME_WORKLOAD = ("model", "data", "train", "lora", "overrides")
"""Sections of the workload in which the runs are equal, but for the seed."""


class Measure(Struct, frozen=True, kw_only=True):
    """One number of the run against the same number of the earlier runs."""

    name: Literal["level", "rise"]
    """level: the mean loss of the last fifth of the steps · rise: the level over the mean loss of the two fifths
    before. Means are geometric."""
    above: float
    """How far the run's is above the mean of the earlier runs': 0.03 is 3 %."""
    limit: float
    """The run is worse if it is further above."""

    @property
    def worse(self) -> bool:
        return not self.above <= self.limit  # also for NaN

    @property
    def text(self) -> str:
        return f"{self.name} {self.above:+.1%}, limit {self.limit:+.1%}"


def curve_in_folder(store: RecordStore, folder: str) -> LossCurve:
    """Return the curve of the run whose folder this is, in a bucket too; empty without a record. Raises Unreachable if
    it cannot be read."""
    output, _, run_name = folder.rstrip("/").rpartition("/")
    record = _last_record(store, output, run_name)
    return recorded_curve(store, output, record) if record else LossCurve(run_name=run_name)


def earlier_curves(run: LossCurve, *, store: RecordStore, count: int) -> tuple[LossCurve, ...]:
    """Return the curves of the last `count` successful runs of the run's workload that began before it, the newest
    first. Raises Unknown if it has no record or no loss of its last step, Unreachable if its output cannot be read."""
    output = run.output or ""
    record = _last_record(store, output, run.run_name) if output else None
    if record is None or record.steps not in run.points:
        message = f"{run.run_name} has no record beside its output, or no loss of its last step."
        raise Unknown(message, fix=f"xsft status {run.run_name} shows its state; a folder of a run can be given, too.")
    names = [name.rstrip("/") for name in store.objects_at(output).names(output) if name.endswith("/")]
    looks = [partial(_last_record, store, output, name) for name in names if name != record.run_name]
    earlier = [other for other in all_answers(looks, threads=READERS) if other and _is_earlier(other, record)]
    earlier.sort(key=lambda other: other.last.started_at, reverse=True)
    curves = (recorded_curve(store, output, other) for other in earlier)
    complete = (curve for curve in curves if record.steps in curve.points)
    return tuple(islice((curve for curve in complete if all(map(isfinite, measured(curve)))), count))


def _last_record(store: RecordStore, output: str, run_name: str) -> Record | None:
    folder = records_folder(output, run_name)
    records = attempts_in(folder, store.objects_at(folder), run_name=run_name)
    return records[-1] if records else None


def _is_earlier(other: Record, record: Record) -> bool:
    """Return whether it is an earlier run of the same workload that did not fail."""
    if other.outcome in BAD_ENDS or other.last.started_at >= record.last.started_at:
        return False
    return _compared(other.spec) == _compared(record.spec)


def _compared(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    sections = (spec.get(section) or {} for section in SAME_WORKLOAD)
    return [{key: setting for key, setting in section.items() if key != "shuffle_seed"} for section in sections]


def measures_against(run: LossCurve, earlier: Sequence[LossCurve]) -> tuple[Measure, ...]:
    """Return the two measures of the run; none with fewer than LEAST earlier runs.

    A limit is the prediction limit for one more value of the same normal distribution, t·s·√(1 + 1/n) above the mean of
    the logarithms: a run like the others exceeds it once in 500. The level alone would be simplest, but runs of
    tiny_local with other seeds differ by 2.5 % in it all along, so it cannot show 3 %. That cancels in the rise, which
    has the noise of single steps only, 2.8 % each: 0.35 % over the steps of a run of 500. In one of 40 steps it is
    1.7 %, where no statistic can show 3 % in 95 of 100. A run that is worse all along shows in its level.
    """
    if len(earlier) < LEAST:
        return ()
    width = T_QUANTILES[len(earlier) - LEAST] * sqrt(1 + 1 / len(earlier))
    names: tuple[Literal["level", "rise"], ...] = ("level", "rise")
    columns = zip(names, measured(run), zip(*map(measured, earlier), strict=True), strict=True)
    return tuple(
        Measure(name=name, above=exp(mine - fmean(others)) - 1, limit=max(TOLERANCE, exp(width * stdev(others)) - 1))
        for name, mine, others in columns
    )


def measured(curve: LossCurve) -> tuple[float, float]:
    """Return the logarithms of level and rise; infinite or NaN if a loss is not a positive number."""
    steps = max(curve.points)
    fifth = max(1, steps // 5)
    level = _mean_logarithm(curve.points, after=steps - fifth, last=steps)
    return level, level - _mean_logarithm(curve.points, after=steps - 3 * fifth, last=steps - fifth)


def _mean_logarithm(losses: Mapping[int, float], *, after: int, last: int) -> float:
    window = [loss for step, loss in losses.items() if after < step <= last]
    if not window or not all(0 < loss < inf for loss in window):
        return inf
    return fmean(map(log, window))


class BaselineJudgement(Struct, frozen=True, kw_only=True):
    """The run against its earlier ones."""

    measures: tuple[Measure, ...]
    problems: tuple[Problem, ...] = ()
    """A note if the earlier runs are too few; a warning if the last of them read other commits of the hub."""
    failed: RunFailed | None = None
    """The error of a run that is worse."""


def judge_run(run: LossCurve, earlier: Sequence[LossCurve]) -> BaselineJudgement:
    """Return whether the run is worse than the earlier ones in a measure."""
    measures = measures_against(run, earlier)
    runs = f"{counted_text(len(earlier), 'earlier successful run')} of its workload"
    if not measures:
        message = f"{runs} in its output, and at least {LEAST} are needed, so the run was not judged."
        return BaselineJudgement(measures=(), problems=(note("baseline-short", run.run_name, message),))
    before, now = (mapping(curve.spec, "hub_commits") for curve in (earlier[0], run))
    moved = all_differences({**now, **before}, {**before, **now})  # a commit that one of them did not record is unknown
    message = f"Other commits of the hub than in {earlier[0].run_name}: {', '.join(moved)}."
    fix = "To compare nights, pin model.tokenizer_revision, and train on the rows of xsft data prepare."
    problems = (warning("hf-revision-moved", run.run_name, message, fix),) if moved else ()
    reasons = "; ".join(measure.text for measure in measures if measure.worse)
    if not reasons:
        return BaselineJudgement(measures=measures, problems=problems)
    fix = f"xsft compare {run.run_name} {earlier[0].run_name} shows what differs."
    failed = RunFailed(f"{run.run_name} is worse than {runs}: {reasons}.", fix=fix, id="run-worse")
    return BaselineJudgement(measures=measures, problems=problems, failed=failed)
