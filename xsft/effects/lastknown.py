"""What was known of runs when their cluster last answered: for when it does not, and for runs it has forgotten.

One small file per cluster and namespace in the state folder, written whole or not at all. What is in it is old, is said
to be old, and never makes a run failed that was not.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xsft.effects.files import write_atomic
from xsft.errors import XsftError
from xsft.launchers.lenient import integer, mapping, rows, text, texts, whole
from xsft.launchers.observed import conditions_of
from xsft.states.model import ENDED, STATES, JobSet, Observation, Progress, Status, Unread
from xsft.states.moments import seconds_between

SCHEMA = "xsft.known/1"
_FAMILY = SCHEMA.partition("/")[0]
FORGET_AFTER_S = 14 * 24 * 3600.0
"""Of a run that the cluster has forgotten."""
MAX_RUNS = 3000
MAX_BYTES = 16 * 1024 * 1024
LEFT_OUT = frozenset({"jobs", "suspended", "has_status", "deleting_at", "image", "conditions"})
"""Of a JobSet: what was true for a moment only."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """One attempt of a run, as it was."""

    jobset: JobSet
    status: Status
    observed_at: str
    progress: Progress | None = None
    steps: int | None = None
    mode: str | None = None

    @property
    def ended(self) -> bool:
        return self.status.state in ENDED

    def observation(self, cluster: str, *, unread: tuple[Unread, ...]) -> Observation:
        """As it was then, with its age."""
        return Observation(
            run_name=self.jobset.run_name,
            target="xpk",
            observed_at=self.observed_at,
            mode=self.mode,
            cluster=cluster,
            steps=self.steps,
            jobset=self.jobset,
            progress=self.progress,
            unread=unread,
            last_known=self.status,
        )


def remember(state: Path, seen: Iterable[tuple[Observation, Status]], *, now: str) -> None:
    """Keep what was read of each run now. A file that cannot be written is no fault of the runs: nothing is said."""
    by_place: dict[tuple[str, str], list[Known]] = defaultdict(list)
    for one, status in seen:
        if one.cluster and one.jobset and one.last_known is None and status.state != "unknown":
            by_place[one.cluster, one.jobset.namespace].append(_known(one, one.jobset, status))
    for (cluster, namespace), known in by_place.items():
        path = _path(state, cluster, namespace)
        fresh = {one.jobset.uid for one in known}
        older = [one for one in _read(path) if one.jobset.uid not in fresh and not _forgotten(one, now)]
        _write(path, (*known, *older), cluster=cluster, namespace=namespace, now=now)


def forget(state: Path, *, cluster: str, namespace: str, there: Collection[str], now: str) -> None:
    """`there`: UIDs of all JobSets, the cluster having answered. What lived when it was seen last and is not among them
    lives no more: it must not be shown as living once the cluster is silent. How a run ended stays known.
    """
    path = _path(state, cluster, namespace)
    known = _read(path)
    left = [one for one in known if one.ended or one.jobset.uid in there]
    if len(left) < len(known):
        _write(path, left, cluster=cluster, namespace=namespace, now=now)


def recall(state: Path, *, cluster: str, namespace: str) -> Mapping[str, Known]:
    """By the JobSet's UID; empty where nothing was kept, or where that makes no sense any more."""
    return {one.jobset.uid: one for one in _read(_path(state, cluster, namespace))}


def _write(path: Path, known: Iterable[Known], *, cluster: str, namespace: str, now: str) -> None:
    ordered = sorted(known, key=lambda one: one.observed_at, reverse=True)[:MAX_RUNS]
    document = {"schema": SCHEMA, "cluster": cluster, "namespace": namespace, "at": now}
    with suppress(XsftError, OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomic(path, json.dumps({**document, "runs": [_json(one) for one in ordered]}) + "\n")


def _forgotten(known: Known, now: str) -> bool:
    age = seconds_between(known.observed_at, now)
    return age is None or age > FORGET_AFTER_S


def _path(state: Path, cluster: str, namespace: str) -> Path:
    where = hashlib.sha256(f"{cluster}\0{namespace}".encode()).hexdigest()[:12]
    return state / "known" / f"{re.sub(r'[^A-Za-z0-9.-]+', '_', cluster)[:80]}-{where}.json"


def _known(seen: Observation, jobset: JobSet, status: Status) -> Known:
    return Known(
        jobset=jobset,
        status=status,
        observed_at=seen.observed_at,
        progress=seen.progress,
        steps=seen.steps,
        mode=seen.mode,
    )


def _json(known: Known) -> dict[str, Any]:
    ends = [c for c in known.jobset.conditions if c.type in ("Completed", "Failed") and c.status == "True"]
    return {
        "jobset": {key: value for key, value in _said(known.jobset).items() if key not in LEFT_OUT},
        "ends": [{"type": c.type, "status": c.status, "reason": c.reason, "at": c.at} for c in ends],
        "status": _said(known.status),
        "progress": _said(known.progress) if known.progress else {},
        "observed_at": known.observed_at,
        "steps": known.steps,
        "mode": known.mode,
    }


def _said(part: JobSet | Status | Progress) -> dict[str, Any]:
    """Its fields, without those that say nothing; `asdict` would copy a thousand of them deeply."""
    return {key: value for key, value in vars(part).items() if value is not None}


def _read(path: Path) -> list[Known]:
    """Leniently: a file of another version, or half a file, is read as far as it goes."""
    try:
        with path.open("rb") as file:
            document = json.loads(file.read(MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return []
    if not isinstance(document, dict) or str(document.get("schema")).partition("/")[0] != _FAMILY:
        return []
    return [one for row in rows(document.get("runs")) if (one := _from_json(row)) is not None]


def _from_json(row: dict[str, Any]) -> Known | None:
    jobset, status = _jobset(row), _status(mapping(row, "status"))
    observed_at = text(row.get("observed_at"))
    if jobset is None or status is None or observed_at is None:
        return None
    return Known(
        jobset=jobset,
        status=status,
        observed_at=observed_at,
        progress=_progress(mapping(row, "progress")),
        steps=whole(row.get("steps")),
        mode=text(row.get("mode")),
    )


def _jobset(row: dict[str, Any]) -> JobSet | None:
    said = mapping(row, "jobset")
    name, uid = text(said.get("name")), text(said.get("uid"))
    if name is None or uid is None:
        return None
    ends = [{**one, "lastTransitionTime": one.get("at")} for one in rows(row.get("ends"))]
    return JobSet(
        name=name,
        uid=uid,
        namespace=text(said.get("namespace")) or "default",
        created_at=text(said.get("created_at")) or "",
        run_name=text(said.get("run_name")) or name,
        ours=said.get("ours") is True,
        mode=text(said.get("mode")),
        tpu=text(said.get("tpu")),
        num_slices=whole(said.get("num_slices")),
        steps=whole(said.get("steps")),
        output=text(said.get("output")),
        spec_digest=text(said.get("spec_digest")),
        queue=text(said.get("queue")),
        terminal=text(said.get("terminal")),
        conditions=conditions_of({"conditions": ends}),
        restarts=whole(said.get("restarts")) or 0,
        max_restarts=whole(said.get("max_restarts")),
    )


def _status(row: dict[str, Any]) -> Status | None:
    state = next((known for known in STATES if known == row.get("state")), None)
    evidence = texts(row.get("evidence"))
    return Status(state=state, reason=text(row.get("reason")) or "", evidence=evidence) if state else None


_SOURCES = ("log", "metrics", "record", "checkpoints")


def _progress(row: dict[str, Any]) -> Progress | None:
    source: Any = next((known for known in _SOURCES if known == row.get("source")), None)
    read_at = text(row.get("read_at"))
    if source is None or read_at is None:
        return None
    numbers = {key: row.get(key) for key in ("loss", "step_seconds", "tflops_per_device", "tokens_per_second")}
    floats: Any = {k: float(v) for k, v in numbers.items() if isinstance(v, int | float) and not isinstance(v, bool)}
    steps: Any = {key: integer(row.get(key)) for key in ("step", "saved_step", "resumed_from")}
    return Progress(
        source=source,
        read_at=read_at,
        said_at=text(row.get("said_at")),
        data_ended=row.get("data_ended") is True,
        aborted=text(row.get("aborted")),
        **floats,
        **steps,
    )
