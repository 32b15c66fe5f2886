"""`xsft submit --wait` and `--follow` on a cluster: wait for the end of the run that was just submitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.errors import XsftError
from xsft.base.lenient import ShowLine
from xsft.base.reporting import Reporter, WorkEvent
from xsft.cluster.evidence import Evidence
from xsft.cluster.observation import Observation
from xsft.launch.submission import Submission
from xsft.machine.parallel import start
from xsft.planning.steps import Plan, Planned
from xsft.runs.cause_rule import Cause
from xsft.runs.causes import explain_state
from xsft.runs.log_sources import RunLogs
from xsft.runs.lookup import FoldedRun, one_run
from xsft.runs.read_all import runs_at_place
from xsft.runs.read_evidence import evidence_of
from xsft.runs.rows import is_worthless
from xsft.runs.run_receipts import record_wait_end
from xsft.runs.waiting import DONE, Clock, Goal, LookAtRuns, RecordWait, WaitLimits, WaitResult, note_result, wait_for

DRAIN_S = 10.0
"""Seconds to read the last lines of the log after the run has ended."""


class UnexpectedEnd(WorkEvent, frozen=True, kw_only=True):
    """Event: the run that is waited for cannot succeed any more."""

    evidence: Evidence
    cause: Cause


class WaitOptions(Struct, frozen=True, kw_only=True):
    """The options of waiting for a run that was submitted."""

    look: LookAtRuns
    """Reads the run's cluster and namespace alone."""
    patience: WaitLimits
    clock: Clock
    say: ShowLine
    lines: Callable[[Observation], Iterator[str]] | None
    """Yields the log of the process that prints steps, until the run has ended; None: the log is not requested."""
    log: ShowLine | None
    """Shows a line of the log, if it is requested."""
    explain: Callable[[Evidence, Cause], None] = lambda _evidence, _cause: None
    """Shows why the run ended otherwise than expected."""
    gather: Callable[[FoldedRun], Evidence] | None = None
    """Reads what may explain another end than the expected one; None: it is not explained."""
    record: RecordWait = lambda _row: ()

    def wait(self, done: Submission) -> WaitResult:
        """Wait until the run succeeded or cannot succeed, and show why it cannot."""
        name = done.jobset or done.plan.run_name
        waiter = replace(self, say=_in_a_row(self.say))
        if done.action == "finished":
            waited = self._glance(name)
        else:
            waited = waiter.until_end(name)
        if waited.outcome == "ended" and waited.row is not None and waited.row.state != "cancelled":
            self._explain(name)
        return replace(waited, problems=note_result(waited, self.record))

    def _glance(self, name: str) -> WaitResult:
        """Read a finished run once, only to see whether its steps trained anything."""
        row = None
        with suppress(XsftError):
            row = one_run(name, self.look()).row
        worthless = row is not None and is_worthless(row.reason)
        return WaitResult(outcome="ended" if worthless else "reached", row=row, seconds=0.0)

    def until_end(self, name: str) -> WaitResult:
        """Wait for the run's end, and follow its log meanwhile if that is requested."""
        if self.lines is None:
            return self._wait_until(DONE, name, self.patience)
        running = self._wait_until(Goal(kind="running"), name, self.patience)
        if running.outcome != "reached":
            return running
        return self._follow_log(name, spent_s=running.seconds)

    def _follow_log(self, name: str, *, spent_s: float) -> WaitResult:
        """Follow the log in a thread of its own and wait: the end is read from the cluster, however long the log is
        silent."""

        def follow() -> None:
            try:
                if self.lines is not None and self.log is not None:
                    for line in self.lines(one_run(name, self.look()).seen):
                        self.log(line)
            except XsftError as failed:
                self.say(f"The log cannot be followed: {failed.message}")

        following = start(follow)
        limit = self.patience.timeout_s
        remaining = replace(self.patience, timeout_s=None if limit is None else max(0.0, limit - spent_s))
        waited = self._wait_until(DONE, name, remaining)
        with suppress(XsftError):  # not read to its end yet, or unreadable
            following.result(0.0 if waited.outcome in ("timeout", "unreachable") or waited.goes_on else DRAIN_S)
        return replace(waited, seconds=waited.seconds + spent_s)

    def _explain(self, name: str) -> None:
        """Show the failed process's last log lines and the cause: the log may not have been shown, or be another
        process's."""
        if self.gather is None:
            return
        try:
            evidence = self.gather(one_run(name, self.look()))
        except XsftError:
            return  # the error raised then names the next step
        self.explain(evidence, explain_state(evidence).cause)

    def _wait_until(self, goal: Goal, name: str, patience: WaitLimits) -> WaitResult:
        return wait_for(name, goal=goal, look=self.look, patience=patience, clock=self.clock, say=self.say, known=True)


def after_plan(plan: Planned, *, patience: WaitLimits, log: ShowLine | None, listener: Reporter) -> WaitOptions:
    """Return how to wait for the plan's run; only its cluster and namespace are read. `log`: also show its log."""
    runs = runs_at_place(plan.run.required_place(), namespace=plan.run.namespace, name=plan.run_name)
    return WaitOptions(
        look=runs.look,
        patience=patience,
        clock=Clock(),
        say=listener.say,
        lines=None if log is None else RunLogs(runs=runs, trouble=listener.say).follow,
        log=log,
        explain=lambda evidence, cause: listener.tell(UnexpectedEnd(evidence=evidence, cause=cause)),
        gather=partial(evidence_of, runs),
        record=partial(record_wait_end, runs) if isinstance(plan, Plan) else lambda _row: (),
    )


def _in_a_row(say: ShowLine) -> ShowLine:
    """Return a function that prints repeated lines once: two waits follow each other, and the second begins where the
    first ended."""
    last = ""

    def tell(line: str) -> None:
        nonlocal last
        if line != last:
            last = line
            say(line)

    return tell
