"""The state of a trainer whose processes live, and when its silence means that it hangs. Pure.

Silence is measured in the trainer's log alone: the metrics it writes are flushed every `log_period` steps, and a
checkpoint comes every `checkpoint_period`, so their age says nothing.
"""

from __future__ import annotations

from math import isfinite

from xsft.states.ending import steps_asked
from xsft.states.model import Observation, Progress, seconds_since
from xsft.states.moments import earliest, latest
from xsft.states.names import State
from xsft.states.pods import current, started_at
from xsft.states.worth import worthless

STALL_FACTOR = 10.0
"""Median steps without a line. The pause around a save takes a few; a hung collective takes for ever."""

STEP_SILENCE_S = 300.0
"""At least this long, however short the steps: a host that waits for its data catches up."""

UNKNOWN_STEP_SILENCE_S = 1800.0
"""While no median is known: one step at most has been printed, and it held the compilation."""

START_SILENCE_S = 3600.0
"""Before the first step: loading and compiling deepseek3-671b on v6e-256 prints nothing for tens of minutes."""

SAVE_SILENCE_S = 1800.0
"""A save of terabytes to a bucket, and the final one, which the end of the process waits for."""

EVAL_SILENCE_S = 3600.0
"""An evaluation goes through all of its data unless `eval_steps` limits it, and prints nothing before its end."""

DescribedState = tuple[State, str]
"""State and reason."""


def trainer(seen: Observation, *, now: str, stall_factor: float) -> DescribedState:
    """Return the state by the trainer's own lines; without any, `training` with a reason."""
    said = seen.progress
    if is_work(seen):
        return "training", "cpu-job"
    if said is None or (said.phase is None and said.step is None and said.source in {"metrics", "checkpoints"}):
        return "training", "progress-not-read"  # before the first step there is neither; only the log shows it
    doing = _doing(said)
    if doing[0] == "starting" and seen.jobset is not None and not seen.jobset.ours:
        return "training", "trainer-silent"  # any program may run in a JobSet of plain xpk
    stalled = _stalled(seen, said, doing[0], now=now, stall_factor=stall_factor)
    if stalled:
        return "stalled", stalled
    nothing = worthless(said, asked=steps_asked(seen)) if doing[0] in {"training", "saving"} else None
    return (doing[0], nothing) if nothing and doing[1] != "aborting" else doing


def is_work(seen: Observation) -> bool:
    """Return whether it is work without steps, such as a conversion."""
    held = seen.jobset or seen.record
    return held is not None and held.work is not None


def _doing(said: Progress) -> DescribedState:
    if said.phase == "ended":
        return "saving", "data-ended" if said.data_ended else "ending"
    if said.aborted is not None:
        return "training", "aborting"
    if said.phase == "saving":
        return "saving", ""
    if said.phase == "compiling" or (said.phase in {"training", "evaluating"} and said.step is None):
        return "compiling", ""
    if said.phase in {"training", "evaluating"} or (said.phase is None and said.step is not None):
        return "training", "evaluating" if said.phase == "evaluating" else ""
    return "starting", "trainer-starting"


def _stalled(seen: Observation, said: Progress, state: State, *, now: str, stall_factor: float) -> str | None:
    """The reason, where the trainer has been silent for too long.

    Up to the time the log was read, not up to now: what it said since is not known. A line from the future is a clock
    that is wrong, not silence.
    """
    if said.source != "log":
        return None
    heard = said.said_at or said.began_at or latest(*started_at(current(seen)))
    silence = seconds_since(heard, seen, earliest(now, seen.observed_at, said.read_at))
    if silence is None or silence <= _patience(said, state, stall_factor):
        return None
    if state == "training" and said.phase == "evaluating":
        return "eval-hangs"
    return {"starting": "no-output", "compiling": "no-first-step", "saving": "save-hangs"}.get(state, "no-step")


def _patience(said: Progress, state: State, stall_factor: float) -> float:
    """Seconds."""
    if state in {"starting", "compiling"}:
        return START_SILENCE_S
    if state == "saving":
        return SAVE_SILENCE_S
    if said.phase == "evaluating":
        return EVAL_SILENCE_S
    step = said.step_seconds
    if step is None or not isfinite(step) or step <= 0:
        return UNKNOWN_STEP_SILENCE_S
    return max(stall_factor * step, STEP_SILENCE_S)
