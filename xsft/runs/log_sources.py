"""The logs that `xsft logs`, `compare` and `submit --follow` read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.errors import Unknown, UsageError
from xsft.base.moments import before
from xsft.cluster.observation import Observation, RunObject
from xsft.machine.kept_log import follow_log, read_log
from xsft.machine.lock_holder import is_held
from xsft.records.record import Record
from xsft.runs.folding import FoldedRun, folder
from xsft.runs.local_runs import lock_of
from xsft.runs.log_roles import LogRequest, ProcessRole, chosen_roles
from xsft.runs.logstream import LogLine
from xsft.runs.losses import LossCurve, read_curve
from xsft.runs.read_all import Runs
from xsft.runs.read_logs import follow_logs, read_logs


class RunLogs(Struct, frozen=True, kw_only=True):
    runs: Runs
    trouble: Callable[[str], None] = lambda _line: None
    """Function that gets a line on what following waits for."""

    def lines(
        self, seen: Observation, jobset: RunObject, roles: tuple[ProcessRole, ...], request: LogRequest
    ) -> Iterator[LogLine]:
        """Yield the lines of these processes. Raises as `read_logs` and `follow_logs`."""
        cluster = self.runs.cluster(seen.cluster or "")
        since = None if request.since_s is None else before(seen.observed_at, request.since_s)
        if request.follow:
            return follow_logs(
                cluster, jobset=jobset, roles=roles, since=since, tail=request.tail, trouble=self.trouble
            )
        return read_logs(cluster, jobset=jobset, roles=roles, since=since, tail=request.tail)

    def local_lines(self, seen: Observation, request: LogRequest) -> Iterator[str]:
        """Yield the lines of a local run. Raises Unknown if no record names the file, UsageError for an attempt that
        never existed."""
        output = self.runs.output_of(seen)
        records = self.runs.records(seen)
        _require_attempt(seen, records, request.attempt)
        wanted = [one for one in records if request.attempt in (None, one.last.number) and one.last.log]
        if not output or not wanted:
            raise Unknown(
                f"No record of {seen.run_name} contains the path of its log.",
                fix="Look in its output folder: xsft/trainer-*.log.",
            )
        log = Path(wanted[-1].last.log)
        lock = lock_of(output, seen.run_name)
        if request.follow:
            return follow_log(log, tail=request.tail, alive=lambda: is_held(lock))
        return read_log(log, tail=request.tail)

    def follow(self, seen: Observation) -> Iterator[str]:
        """Yield the lines of the process that prints steps, from its start to the run's end."""
        return self._printed_texts(seen, request=LogRequest(follow=True))

    def curves(self, hits: tuple[FoldedRun, ...]) -> tuple[LossCurve, ...]:
        """Return the curves; if two runs share a name, each is named by its folder."""
        called = [hit.row.run_name for hit in hits]
        names = [
            folder(hit.row) or name if called.count(name) > 1 else name for hit, name in zip(hits, called, strict=True)
        ]
        return tuple(replace(self._curve(hit.seen), run_name=name) for hit, name in zip(hits, names, strict=True))

    def _curve(self, seen: Observation) -> LossCurve:
        lines = partial(self._printed_texts, request=LogRequest())
        return read_curve(seen, output=self.runs.output_of(seen), store=self.runs.store, lines=lines)

    def printed(self, seen: Observation, request: LogRequest | None = None) -> Iterator[LogLine]:
        """Yield the lines of the process that prints steps, all of them so far by default; none if the JobSet is
        gone.
        """
        if seen.jobset is not None:
            roles = chosen_roles(seen.jobset, slice_index=None, host=None, every=False)
            yield from self.lines(seen, seen.jobset, roles, request or LogRequest())

    def _printed_texts(self, seen: Observation, request: LogRequest) -> Iterator[str]:
        return (line.text for line in self.printed(seen, request))


def _require_attempt(seen: Observation, records: Sequence[Record], attempt: int | None) -> None:
    known = sorted({one.last.number for one in records})
    if attempt is not None and known and attempt not in known:
        raise UsageError(
            f"{seen.run_name} has no attempt {attempt}. Known attempts: {', '.join(map(str, known))}.",
            fix="Pass one of them to --attempt, or omit it for the newest.",
        )
