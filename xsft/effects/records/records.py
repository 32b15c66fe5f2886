"""Records of submissions: kept beside each run's output, begun before anything is created, never overwritten.

`<output>/<run_name>/xsft/attempt-<n>.json` says what is about to be submitted; `attempt-<n>.<outcome>.json` says what
came of it. Each is written once, whole or not at all, so that a submitter that is killed leaves the truth. A local
run's `run.json` (`effects.local_run`) lies in the same folder and is read by the same function (`attempt_files`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from xsft.effects.machine import clock
from xsft.effects.machine.paths import state_dir
from xsft.effects.machine.process import own_environment
from xsft.effects.records.index import Index, entry_of, keep, read_index
from xsft.effects.records.objects import Objects, objects_for
from xsft.errors import UsageError, XsftError
from xsft.problems import Problem, warning

if TYPE_CHECKING:
    from xsft.records.model import Facts, Record

FOLDER = "xsft"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class RecordRef(Struct, frozen=True, kw_only=True):
    """An attempt that this process has begun."""

    path: str
    """Of the attempt's object."""
    record: Record
    problems: tuple[Problem, ...] = ()
    """The local index could not be written: a warning; the record itself is safe."""


class Taken(Struct, frozen=True, kw_only=True):
    """Somebody else began this attempt first, or a submitter that died did."""

    ref: RecordRef
    """Ours: kept beside the other one. A submitter that finds no JobSet on the cluster may create it (its name decides
    who is first) and finish this ref; the attempt is then read as ours.
    """
    there: Record
    """The one that was first."""


class RecordStore(Struct, frozen=True, kw_only=True):
    state: Path
    """The state folder; the index lies in `runs/` below."""
    objects_at: Callable[[str], Objects]
    now: Callable[[], str] = field(default=clock.now)

    def begin(self, record: Record) -> RecordRef | Taken:
        """Write the intent. `record` holds one attempt, `submitting`, with a `submitter` of its own.

        Call it before the create. Raises Unreachable or EnvironmentMissing where the output does not take it; nothing
        should be created then.
        """
        from xsft.effects.records.attempt_files import attempt_at, intent
        from xsft.records.document import to_json

        path = f"{_folder(record.output, record.run_name)}/attempt-{record.last.number}.json"
        objects = self.objects_at(path)
        if not objects.create(path, to_json(record).encode()):
            there = attempt_at(path, objects, run_name=record.run_name, number=record.last.number)
            if there.last.submitter != record.last.submitter:  # equal: our own try, whose answer was lost
                objects.create(intent(path, record.last.submitter), to_json(record).encode())
                return Taken(ref=RecordRef(path=path, record=record), there=there)
        return RecordRef(path=path, record=record, problems=self.index(record, path))

    def finish(self, ref: RecordRef, facts: Facts) -> RecordRef:
        """Add what came of it; the ref that comes back holds the whole record.

        Said twice, the first stays, and another submitter's word is kept beside it. Raises as `begin`: the run is as it
        is then, and only the record lacks it, so a caller warns.
        """
        from dataclasses import replace

        from xsft.effects.records.attempt_files import facts_at
        from xsft.records.document import facts_to_json
        from xsft.records.model import with_facts

        number = ref.record.last.number
        content = facts_to_json(facts, run_name=ref.record.run_name, number=number).encode()
        objects = self.objects_at(ref.path)
        stem = f"{ref.path.removesuffix('.json')}.{facts.outcome}"
        if not objects.create(f"{stem}.json", content) and facts.submitter:
            there = facts_at(f"{stem}.json", objects)
            if there is None or there.submitter != facts.submitter:
                objects.create(f"{stem}.{facts.submitter}.json", content)
        whole = replace(ref.record, attempts=(with_facts(ref.record.last, (facts,)),))
        return RecordRef(path=ref.path, record=whole, problems=self.index(whole, ref.path))

    def read_run(self, output: str, run_name: str) -> tuple[Record, ...]:
        """All attempts, the first one first: each a Record with exactly one attempt and its own spec.

        Empty where nothing is recorded. An attempt whose document is torn comes back as `unknown`, with the reason.
        Raises Unreachable where nobody can look.
        """

        from xsft.effects.records.attempt_files import attempts_in

        folder = _folder(output, run_name)
        return attempts_in(folder, self.objects_at(folder), run_name=run_name)

    def local_index(self) -> Index:
        """The runs that were submitted from this machine."""
        return read_index(self.state / "runs")

    def index(self, record: Record, path: str) -> tuple[Problem, ...]:
        """Put a run into the local index; a warning where it cannot be written."""
        try:
            keep(self.state / "runs", entry_of(record, path=path, at=self.now()))
        except (XsftError, OSError) as failed:
            message = f"The index of runs in {self.state} was not written: {failed}. The record itself is at {path}."
            return (warning("index-not-written", "", message, "Set XSFT_STATE_DIR to a folder you may write to."),)
        return ()


def record_store(env: Mapping[str, str] | None = None) -> RecordStore:
    """As this user and this environment have it. A bucket's client is made when a bucket is first asked for."""
    environment = own_environment() if env is None else env
    home = Path(environment.get("HOME") or Path.home())
    made: dict[str, Objects] = {}

    def objects_at(path: str) -> Objects:
        kind = path.partition("://")[0] if "://" in path else ""
        if kind not in made:
            made[kind] = objects_for(path, env=environment)
        return made[kind]

    return RecordStore(state=state_dir(environment, home=home), objects_at=objects_at)


def ref_of(record: Record) -> RecordRef:
    """The attempt of a record that was read (`RecordStore.read_run`). Raises UsageError as reading it does."""
    return RecordRef(path=f"{_folder(record.output, record.run_name)}/attempt-{record.last.number}.json", record=record)


def next_number(records: tuple[Record, ...]) -> int:
    """Of the attempt that comes after these."""
    return 1 + max((record.last.number for record in records), default=0)


def _folder(output: str | None, run_name: str) -> str:
    if not output or not _NAME.fullmatch(run_name):
        message = f"no record can be kept of run {run_name!r} in output {output!r}"
        raise UsageError(
            message, fix="A run has an output and a name of letters, digits, dots, dashes and underscores."
        )
    return f"{output.rstrip('/')}/{run_name}/{FOLDER}"
