"""The last known state of one attempt, as a line of JSON: written completely, read leniently. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from xsft.reading.jobsets import conditions_of
from xsft.reading.lenient import count, integer, mapping, rows, text, texts, whole
from xsft.states.model import Before, JobSet, Observation, Progress, Status, Unread
from xsft.states.names import ENDED, STATES

LEFT_OUT = frozenset({"jobs", "suspended", "has_status", "deleting_at", "image", "conditions"})
"""Fields of a JobSet that are not kept, because they change quickly."""

AGES_S = 1e9
"""Limit on the age of an entry in seconds; NaN fails the comparison too."""
_FRONT = re.compile(r'\{"uid": "([^"\\]*)", "ended": (true|false), "observed_at": "([^"\\]*)", ')
"""The beginning of a line that this xsft wrote: enough to keep, drop and find a line without parsing the rest."""


class LastKnown(Struct, frozen=True, kw_only=True):
    """The last known state of one attempt of a run."""

    jobset: JobSet
    status: Status
    observed_at: str
    ahead_s: float = 0.0
    """Clock offset at that time, as `Observation.ahead_s`."""
    progress: Progress | None = None
    steps: int | None = None
    mode: str | None = None
    before: Before | None = None
    """State before its latest restart."""
    found: str = ""
    """Why one of its processes failed, as `why` found."""
    ended_at: str | None = None
    """End from its record, if its JobSet does not give it."""
    unheard: bool = False
    """True if it ended and its last log lines were not read: `progress` is older."""
    gone: bool = False
    """True if it was last seen active, and its cluster no longer has the JobSet."""

    @property
    def ended(self) -> bool:
        return self.status.state in ENDED

    def observation(self, cluster: str, *, unread: tuple[Unread, ...]) -> Observation:
        """Return the observation of that time, with its age."""
        return Observation(
            run_name=self.jobset.run_name,
            target="xpk",
            observed_at=self.observed_at,
            ahead_s=self.ahead_s,
            mode=self.mode,
            cluster=cluster,
            steps=self.steps,
            jobset=self.jobset,
            progress=self.progress,
            unread=unread,
            last_known=self.status,
            before=self.before,
        )

    def as_before(self) -> Before:
        said = self.progress
        step, saved = (said.step, said.saved_step) if said else (None, None)
        return Before(
            at=self.observed_at,
            state=self.status.state,
            reason=self.status.reason,
            step=step,
            saved_step=saved,
            found=self.found,
        )


class Line(Struct, frozen=True, kw_only=True):
    uid: str
    """UID of the JobSet."""
    ended: bool
    """Whether it ended or is gone."""
    observed_at: str
    text: str
    """The whole line, without its newline."""

    @property
    def has_found(self) -> bool:
        return '"found": ' in self.text

    @property
    def has_progress(self) -> bool:
        return '"progress": {}' not in self.text

    def known(self) -> LastKnown | None:
        """Return the parsed line, or None if it is invalid."""
        return _from_json(_object(self.text))

    def as_gone(self) -> Line:
        """Return the line marked as gone, without parsing it; everything else known is kept."""
        told = self.text.replace('"ended": false', '"ended": true', 1).removesuffix("}")
        return replace(self, ended=True, text=f'{told}, "gone": true}}')


def line_of(known: LastKnown) -> Line:
    uid, ended, observed_at = known.jobset.uid, known.ended or known.gone, known.observed_at
    front = {"uid": uid, "ended": ended, "observed_at": observed_at}
    return Line(uid=uid, ended=ended, observed_at=observed_at, text=json.dumps({**front, **_json(known)}))


def read_line(written: str) -> Line | None:
    """Return the line, or None if it is not a line of a run."""
    front = _FRONT.match(written)
    if front is not None and written.endswith("}"):
        return Line(uid=front[1], ended=front[2] == "true", observed_at=front[3], text=written)
    known = _from_json(_object(written))  # a line of another version
    return line_of(known) if known is not None else None


def _object(written: str) -> dict[str, Any]:
    try:
        found = json.loads(written)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _json(known: LastKnown) -> dict[str, Any]:
    ends = [c for c in known.jobset.conditions if c.type in ("Completed", "Failed") and c.status == "True"]
    return {
        "jobset": {key: value for key, value in _said(known.jobset).items() if key not in LEFT_OUT},
        "ends": [{"type": c.type, "status": c.status, "reason": c.reason, "at": c.at} for c in ends],
        "status": _said(known.status),
        "progress": _said(known.progress) if known.progress else {},
        "steps": known.steps,
        "mode": known.mode,
        **({"ahead_s": known.ahead_s} if known.ahead_s else {}),
        **({"before": _said(known.before)} if known.before else {}),
        **({"found": known.found} if known.found else {}),
        **({"ended_at": known.ended_at} if known.ended_at else {}),
        **({"unheard": True} if known.unheard else {}),
        **({"gone": True} if known.gone else {}),
    }


def _said(part: JobSet | Status | Progress | Before) -> dict[str, Any]:
    """Return the fields that have values."""
    return {key: value for key, value in asdict(part).items() if value is not None}


def _from_json(row: dict[str, Any]) -> LastKnown | None:
    jobset, status = _jobset(row), _status(mapping(row, "status"))
    observed_at = text(row.get("observed_at"))
    if jobset is None or status is None or observed_at is None:
        return None
    return LastKnown(
        jobset=jobset,
        status=status,
        observed_at=observed_at,
        ahead_s=_finite(row.get("ahead_s")),
        progress=_progress(mapping(row, "progress")),
        steps=whole(row.get("steps")),
        mode=text(row.get("mode")),
        before=_before(mapping(row, "before")),
        found=text(row.get("found")) or "",
        ended_at=text(row.get("ended_at")),
        unheard=row.get("unheard") is True,
        gone=row.get("gone") is True,
    )


def _finite(value: Any) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < AGES_S
    return float(value) if number else 0.0


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
        work=text(said.get("work")),
        data_on_restart=text(said.get("data_on_restart")),
        kind="Deployment" if said.get("kind") == "Deployment" else "JobSet",
    )


def _status(row: dict[str, Any]) -> Status | None:
    state = next((known for known in STATES if known == row.get("state")), None)
    evidence = texts(row.get("evidence"))
    return Status(state=state, reason=text(row.get("reason")) or "", evidence=evidence) if state else None


def _before(row: dict[str, Any]) -> Before | None:
    status, at = _status(row), text(row.get("at"))
    if status is None or at is None:
        return None
    step, saved, found = integer(row.get("step")), integer(row.get("saved_step")), text(row.get("found")) or ""
    return Before(at=at, state=status.state, reason=status.reason, step=step, saved_step=saved, found=found)


_SOURCES = ("log", "metrics", "record", "checkpoints")


def _progress(row: dict[str, Any]) -> Progress | None:
    source: Any = next((known for known in _SOURCES if known == row.get("source")), None)
    read_at = text(row.get("read_at"))
    if source is None or read_at is None:
        return None
    numbers = {key: row.get(key) for key in ("loss", "step_seconds", "tflops_per_device", "tokens_per_second")}
    floats: Any = {k: float(v) for k, v in numbers.items() if isinstance(v, int | float) and not isinstance(v, bool)}
    steps: Any = {key: integer(row.get(key)) for key in ("step", "saved_step", "resumed_from")}
    counted = ("no_target_steps", "not_finite_steps", "zero_loss_steps")
    counts: Any = {key: count(row.get(key)) for key in counted}
    return Progress(
        source=source,
        read_at=read_at,
        said_at=text(row.get("said_at")),
        data_ended=row.get("data_ended") is True,
        aborted=text(row.get("aborted")),
        **counts,
        **floats,
        **steps,
    )
