"""Records of submissions: kept beside each run's output, begun before anything is created, never overwritten.

`<output>/<run_name>/xsft/attempt-<n>.json` holds what is about to be submitted; `attempt-<n>.<outcome>.json` holds the
outcome. Each is written once and atomically, so the records stay correct if a submitter is killed. A local run's
`run.json` (`effects.local`) is in the same folder and is read by the same function (`attempts_in`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from msgspec import Struct, field

from xsft.base.errors import UsageError, XsftError
from xsft.base.problems import Problem, warning
from xsft.machine import clock
from xsft.machine.objects import Objects, objects_for
from xsft.machine.paths import state_dir
from xsft.machine.process import own_environment
from xsft.records import LOCAL_RECORD, attempt_stem, records_folder
from xsft.records.document import facts_to_json, read_facts, read_record, to_json, unreadable
from xsft.records.index import Index, entry_of, keep_entry, read_index
from xsft.records.record import AttemptFacts, Record, with_facts

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
MAX_BYTES = 16 * 1024 * 1024
"""Limit for reading one record; a local run of 100,000 steps has 3 MB of losses."""

_INTENT = "intent"
_ATTEMPT = re.compile(r"attempt-[1-9][0-9]{0,5}\.json")
_FACTS = re.compile(r"attempt-[1-9][0-9]{0,5}\.[a-z-]+(?:\.[0-9a-f]+)?\.json")


class RecordRef(Struct, frozen=True, kw_only=True):
    """An attempt that this process has begun."""

    path: str
    """The path of the attempt's object."""
    record: Record
    problems: tuple[Problem, ...] = ()
    """A warning if the local index could not be written; the record itself is safe."""


class TakenAttempt(Struct, frozen=True, kw_only=True):
    """Another submitter began this attempt first; it may have died since."""

    ref: RecordRef
    """The record of this process, kept beside the other one. A submitter that finds no JobSet on the cluster may create
    it (the JobSet's name decides which submitter is first) and finish this ref; the attempt then counts as its own.
    """
    there: Record
    """The record that was first."""


class RecordStore(Struct, frozen=True, kw_only=True):
    state: Path
    """The state folder; the index is in `runs/` below it."""
    objects_at: Callable[[str], Objects]
    now: Callable[[], str] = field(default=clock.now)

    def begin(self, record: Record) -> RecordRef | TakenAttempt:
        """Write the intent. `record` holds one attempt, `submitting`, with a `submitter` of its own. Call this before
        the create.

        Raises Unreachable or EnvironmentMissing if the output does not accept it; nothing should be created then.
        """
        path = ref_of(record).path
        objects = self.objects_at(path)
        if not objects.create(path, to_json(record).encode()):
            existing = attempt_at(path, objects, run_name=record.run_name, number=record.last.number)
            if (
                existing.last.submitter != record.last.submitter
            ):  # equal: an earlier try of this submitter whose answer was lost
                objects.create(intent(path, record.last.submitter), to_json(record).encode())
                return TakenAttempt(ref=RecordRef(path=path, record=record), there=existing)
        return RecordRef(path=path, record=record, problems=self.index(record, path))

    def finish(self, ref: RecordRef, facts: AttemptFacts) -> RecordRef:
        """Add the outcome. The returned ref holds the complete record. If it is called twice, the first outcome is
        kept, and another submitter's is kept beside it.

        Raises as `begin`. The run itself is not affected then, only its record is incomplete, so a caller warns.
        """
        number = ref.record.last.number
        content = facts_to_json(facts, run_name=ref.record.run_name, number=number).encode()
        objects = self.objects_at(ref.path)
        stem = f"{ref.path.removesuffix('.json')}.{facts.outcome}"
        if not objects.create(f"{stem}.json", content) and facts.submitter:
            existing = facts_at(f"{stem}.json", objects)
            if existing is None or existing.submitter != facts.submitter:
                objects.create(f"{stem}.{facts.submitter}.json", content)
        whole = replace(ref.record, attempts=(with_facts(ref.record.last, (facts,)),))
        return RecordRef(path=ref.path, record=whole, problems=self.index(whole, ref.path))

    def read_run(self, output: str, run_name: str) -> tuple[Record, ...]:
        """Return all attempts, the first one first: each is a Record with exactly one attempt and its own spec. Empty
        if nothing is recorded. An attempt whose document is cut off is returned as `unknown`, with the reason.

        Raises Unreachable if the output cannot be read.
        """
        folder = records_folder(_require_output(output, run_name), run_name)
        return attempts_in(folder, self.objects_at(folder), run_name=run_name)

    def local_index(self) -> Index:
        """Return the index of the runs that were submitted from this machine."""
        return read_index(self.state / "runs")

    def index_found(self, record: Record, path: str) -> tuple[Problem, ...]:
        """Add a run that this call did not create to the local index, unless it is there. Returns as `index`."""
        attempt = (record.output or "", record.run_name, record.last.number, record.last.uid)
        indexed = ((entry.output, entry.run_name, entry.attempt, entry.uid) for entry in self.local_index().entries)
        return () if attempt in indexed else self.index(record, path)

    def index(self, record: Record, path: str) -> tuple[Problem, ...]:
        """Add a run to the local index. Returns a warning if it cannot be written."""
        try:
            keep_entry(self.state / "runs", entry_of(record, path=path, at=self.now()))
        except (XsftError, OSError) as failed:
            message = f"The index of runs in {self.state} was not written: {failed}. The record itself is at {path}."
            return (warning("index-not-written", "", message, "Set XSFT_STATE_DIR to a writable folder."),)
        return ()


def record_store(env: Mapping[str, str] | None = None) -> RecordStore:
    """Return the record store of this user and environment. A bucket's client is created on first use of a bucket."""
    environment = own_environment() if env is None else env
    home = Path(environment.get("HOME") or Path.home())
    made: dict[bool, Objects] = {}

    def objects_at(path: str) -> Objects:
        in_bucket = path.startswith("gs://")
        if in_bucket not in made:
            made[in_bucket] = objects_for(path, env=environment)
        return made[in_bucket]

    return RecordStore(state=state_dir(environment, home=home), objects_at=objects_at)


def ref_of(record: Record) -> RecordRef:
    """Return the ref of a record that was read (`RecordStore.read_run`). Raises UsageError as reading it does."""
    output = _require_output(record.output, record.run_name)
    return RecordRef(path=f"{attempt_stem(output, record.run_name, record.last.number)}.json", record=record)


def _require_output(output: str | None, run_name: str) -> str:
    if not output or not _NAME.fullmatch(run_name):
        message = f"no record can be stored for run {run_name!r} in output {output!r}"
        raise UsageError(
            message, fix="A run needs an output and a name of letters, digits, dots, dashes and underscores."
        )
    return output


def attempts_in(folder: str, objects: Objects, *, run_name: str) -> tuple[Record, ...]:
    """Return the attempts, the first one first. An attempt whose document is cut off is returned as `unknown`, with the
    reason.
    """
    names = objects.names(folder)
    submitted = [
        _read_whole_record(folder, name, names, objects, run_name) for name in names if _ATTEMPT.fullmatch(name)
    ]
    local = _local_attempts(folder, objects, run_name) if LOCAL_RECORD in names else ()
    return tuple(sorted((*submitted, *local), key=lambda record: record.last.number))


def intent(path: str, submitter: str) -> str:
    """Return the path at which a submitter that was not the first records what it is about to submit."""
    return f"{path.removesuffix('.json')}.{_INTENT}.{submitter}.json"


def attempt_at(path: str, objects: Objects, *, run_name: str, number: int) -> Record:
    name = path.rpartition("/")[2]
    try:
        record = read_record(objects.read(path, limit=MAX_BYTES) or b"")
    except ValueError as broken:
        return unreadable(run_name=run_name, number=number, name=name, reason=str(broken))
    if not record.attempts:
        return unreadable(run_name=run_name, number=number, name=name, reason="it contains no attempt")
    return replace(record, attempts=(replace(record.attempts[0], number=number),))


def facts_at(path: str, objects: Objects) -> AttemptFacts | None:
    try:
        return read_facts(objects.read(path, limit=MAX_BYTES) or b"")
    except ValueError:
        return None


def _read_whole_record(folder: str, name: str, names: tuple[str, ...], objects: Objects, run_name: str) -> Record:
    stem = name.removesuffix(".json")
    record = attempt_at(f"{folder}/{name}", objects, run_name=run_name, number=int(stem.partition("-")[2]))
    later = [other for other in names if other.startswith(f"{stem}.") and _FACTS.fullmatch(other)]
    later = [other for other in later if not other.startswith(f"{stem}.{_INTENT}.")]
    later_facts = [facts_at(f"{folder}/{other}", objects) for other in later]
    unread = tuple(other for other, facts in zip(later, later_facts, strict=True) if facts is None)
    known = tuple(facts for facts in later_facts if facts is not None)
    creator = with_facts(record.last, known).created_by
    if creator and creator != record.last.submitter and intent(name, creator) in names:
        path = f"{folder}/{intent(name, creator)}"
        record = attempt_at(path, objects, run_name=run_name, number=record.last.number)
    attempt = with_facts(record.last, known)
    return replace(record, attempts=(attempt,), unread=(*record.unread, *unread))


def _local_attempts(folder: str, objects: Objects, run_name: str) -> tuple[Record, ...]:
    """Return the attempts of a local run. The losses are of the whole run; they are stored with its last attempt."""
    try:
        record = read_record(objects.read(f"{folder}/{LOCAL_RECORD}", limit=MAX_BYTES) or b"")
    except ValueError as broken:
        return (unreadable(run_name=run_name, number=1, name=LOCAL_RECORD, reason=str(broken)),)
    if not record.attempts:
        return (unreadable(run_name=run_name, number=1, name=LOCAL_RECORD, reason="it contains no attempt"),)
    *earlier, last = record.attempts
    return (*(replace(record, attempts=(one,), losses={}) for one in earlier), replace(record, attempts=(last,)))
