"""The index of runs that were submitted from this machine: one small file each, in the state folder.

A convenience only. The records beside each run's output and the cluster are authoritative.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from msgspec import Struct, ValidationError, convert, to_builtins
from msgspec.json import Decoder

from xsft.base.problems import Problem, warning
from xsft.base.targets import TargetProperties
from xsft.machine.filelock import exclusive
from xsft.machine.files import sweep, write_atomic
from xsft.machine.paths import PRIVATE_FILE
from xsft.machine.regular import read_text
from xsft.records.document import scrub
from xsft.records.record import MeasuredPace, Record, measured_pace
from xsft.records.run_cluster import ClusterAddress

SCHEMA = "xsft.run/1"
_FAMILY = "xsft.run/"


class IndexEntry(TargetProperties, Struct, frozen=True, kw_only=True):
    """The location of a run. Its state is not kept here, since it would be outdated."""

    run_name: str
    target: str
    output: str
    """base_output_directory; the run's folder is `<output>/<run_name>`."""
    record: str = ""
    """The path of the last attempt's record."""
    spec_digest: str = ""
    steps: int = 0
    mode: str | None = None
    attempt: int = 1
    jobset: str | None = None
    namespace: str | None = None
    cluster: ClusterAddress | None = None
    uid: str | None = None
    work: str | None = None
    """`naming.StageWork`, if it is not a training."""
    updated_at: str = ""
    """UTC, ISO 8601."""
    pace: MeasuredPace | None = None
    """Pace of its steps; None until its receipt was computed."""


Decoder(IndexEntry)  # at import: msgspec@0.22.0 crashes if two threads do this for one type


class Index(Struct, frozen=True, kw_only=True):
    entries: tuple[IndexEntry, ...]
    """Sorted by time, the oldest first."""
    problems: tuple[Problem, ...]
    """Files of the index that could not be read."""


def entry_of(record: Record, *, path: str, at: str) -> IndexEntry:
    last = record.last
    return IndexEntry(
        run_name=record.run_name,
        target=record.target,
        output=record.output or "",
        record=path,
        spec_digest=record.spec_digest,
        steps=record.steps,
        mode=record.mode,
        attempt=last.number,
        jobset=last.jobset,
        namespace=last.namespace,
        cluster=last.cluster,
        uid=last.uid,
        work=work if isinstance(work := last.resolved.get("work"), str) else None,
        updated_at=at,
        pace=measured_pace(record),
    )


def keep_entry(folder: Path, entry: IndexEntry) -> None:
    """Write the entry. An earlier attempt does not replace a later one. Raises OSError or EnvironmentMissing if it
    cannot be written.
    """
    # runs of one name in two outputs are two runs
    where = hashlib.sha256(f"{entry.output.rstrip('/')}/{entry.run_name}".encode()).hexdigest()
    path = folder / f"{entry.run_name[:100]}-{where[:12]}.json"
    with exclusive(folder / ".lock", waiting=lambda: None):
        sweep(folder, older_s=0.0)  # whoever wrote there holds the lock no more
        before = _read_index_entry(path)
        if before is None or before.attempt <= entry.attempt:
            document = {key: value for key, value in to_builtins(entry).items() if value is not None}
            text = json.dumps({"schema": SCHEMA, **scrub(document)}, indent=1, ensure_ascii=False) + "\n"
            write_atomic(path, text, mode=PRIVATE_FILE)


def read_index(folder: Path) -> Index:
    entries: list[IndexEntry] = []
    problems: list[Problem] = []
    for path in sorted(folder.glob("*.json")):
        entry = _read_index_entry(path)
        if entry is None:
            fix = "Submit the workload again: xsft finds the run by its record and writes the file anew."
            problems.append(warning("index-unreadable", "", f"{path} is not an entry of the index of runs.", fix))
        else:
            entries.append(entry)
    return Index(entries=tuple(sorted(entries, key=lambda e: e.updated_at)), problems=tuple(problems))


def _read_index_entry(path: Path) -> IndexEntry | None:
    """Return the entry; None for a file that is not one. Unknown keys of a newer xsft are ignored."""
    try:
        document = json.loads(read_text(path))
        is_entry = isinstance(document, dict) and str(document.get("schema")).startswith(_FAMILY)
        return convert(document, IndexEntry) if is_entry else None
    except (OSError, ValueError, ValidationError, RecursionError):
        return None
