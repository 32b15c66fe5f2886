"""The last known state of one attempt, as a line of JSON. Pure."""

from __future__ import annotations

import json
from typing import Annotated

from msgspec import Meta, Struct, ValidationError, convert, to_builtins
from msgspec.json import Decoder
from msgspec.structs import replace

from xsft.base.state_names import ENDED
from xsft.cluster.observation import Before, Observation, RunObject, Status, Unread
from xsft.trainer.progress import Progress

AGES_S = 1e9
"""Limit on a clock offset in seconds, which a damaged line could exceed."""


class LastKnown(Struct, frozen=True, kw_only=True):
    """The last known state of one attempt of a run."""

    jobset: RunObject
    status: Status
    observed_at: str
    ahead_s: Annotated[float, Meta(gt=-AGES_S, lt=AGES_S)] = 0.0
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
            target=self.jobset.target,
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
        progress = self.progress
        step, saved = (progress.step, progress.saved_step) if progress else (None, None)
        return Before(
            at=self.observed_at,
            state=self.status.state,
            reason=self.status.reason,
            step=step,
            saved_step=saved,
            found=self.found,
        )


Decoder(LastKnown)  # at import: msgspec@0.22.0 crashes if two threads do this for one type


def line_of(known: LastKnown) -> str:
    """Return the line, without what changes quickly."""
    progress = known.progress
    kept = replace(
        known,
        jobset=_lasting(known.jobset),
        progress=progress and replace(progress, phase=None, began_at=None, resumed_order=None),
    )
    return json.dumps(to_builtins(kept))


def _lasting(jobset: RunObject) -> RunObject:
    """Return the JobSet without what changes quickly; of its conditions its end."""
    ends = tuple(
        replace(one, message="")
        for one in jobset.conditions
        if one.type in ("Completed", "Failed") and one.status == "True"
    )
    return replace(jobset, conditions=ends, jobs=(), suspended=False, has_status=True, deleting_at=None, image=None)


def read_line(written: str) -> LastKnown | None:
    """Return what the line says, or None if it is not a line of a run."""
    try:
        return convert(json.loads(written), LastKnown)
    except (ValueError, RecursionError, ValidationError):
        return None
