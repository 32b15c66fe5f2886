"""Decide the state of a trainer whose processes run, and whether a silent one hangs. Pure.

Only the log measures silence: metrics are flushed every `log_period` steps and checkpoints saved every
`checkpoint_period`, so old ones are normal.
"""

from __future__ import annotations

from math import isfinite

from xsft.base.moments import earliest, latest, seconds_between
from xsft.base.state_names import State
from xsft.cluster.observation import Observation
from xsft.runs.pod_reasons import current, started_at
from xsft.runs.rows import worthless
from xsft.trainer.progress import Progress

STALL_FACTOR = 10.0
"""Number of median steps without a line. The pause around a save takes a few; a hung collective never ends."""

STEP_SILENCE_S = 300.0
"""Minimum seconds, however short the steps: a host that waits for its data catches up."""

UNKNOWN_STEP_SILENCE_S = 1800.0
"""Seconds while no median is known: at most one step was printed, and it included the compilation."""

START_SILENCE_S = 3600.0
"""Seconds before the first step: loading and compiling deepseek3-671b on v6e-256 prints nothing for tens of minutes."""

SAVE_SILENCE_S = 1800.0
"""Seconds for a save of terabytes to a bucket, and for the final save, which delays the end of the process."""

EVAL_SILENCE_S = 3600.0
"""Seconds for an evaluation: it reads all of its data unless `eval_steps` limits it, and prints nothing before its
end."""

DescribedState = tuple[State, str]
"""State and reason."""


def trainer_state(seen: Observation) -> DescribedState:
    """Return the state by the trainer's lines; without any, `training` with a reason."""
    progress = seen.progress
    if is_work(seen):
        return "training", "cpu-job"
    if progress is None or (
        progress.phase is None and progress.step is None and progress.source in {"metrics", "checkpoints"}
    ):
        return "training", "progress-not-read"  # before the first step there is neither; only the log shows it
    doing = _printed_state(progress)
    if doing[0] == "starting" and seen.jobset is not None and not seen.jobset.ours:
        return "training", "trainer-silent"  # any program may run in a JobSet of plain xpk
    stalled = _stall_reason(seen, progress, doing[0])
    if stalled:
        return "stalled", stalled
    nothing = worthless(progress, asked=seen.steps_asked) if doing[0] in {"training", "saving"} else None
    return (doing[0], nothing) if nothing and doing[1] != "aborting" else doing


def is_work(seen: Observation) -> bool:
    """Return whether it is work without steps, such as a conversion."""
    held = seen.jobset or seen.record
    return held is not None and held.work is not None


def _printed_state(progress: Progress) -> DescribedState:
    if progress.phase == "ended":
        return "saving", "data-ended" if progress.data_ended else "ending"
    if progress.aborted is not None:
        return "training", "aborting"
    if progress.phase == "saving":
        return "saving", ""
    if progress.phase == "compiling" or (progress.phase in {"training", "evaluating"} and progress.step is None):
        return "compiling", ""
    if progress.phase in {"training", "evaluating"} or (progress.phase is None and progress.step is not None):
        return "training", "evaluating" if progress.phase == "evaluating" else ""
    return "starting", "trainer-starting"


def _stall_reason(seen: Observation, progress: Progress, state: State) -> str | None:
    """Return the reason if the trainer has been silent for too long, else None.

    Silence ends when the log was read, because later lines are unknown. A line from the future shows a wrong clock, not
    silence.
    """
    if progress.source != "log":
        return None
    heard = progress.said_at or progress.began_at or latest(*started_at(current(seen)))
    silence = seconds_between(heard, earliest(seen.observed_at, progress.read_at))
    if silence is None or silence <= _silence_limit_s(progress, state):
        return None
    if state == "training" and progress.phase == "evaluating":
        return "eval-hangs"
    return {"starting": "no-output", "compiling": "no-first-step", "saving": "save-hangs"}.get(state, "no-step")


def _silence_limit_s(progress: Progress, state: State) -> float:
    """Seconds."""
    if state in {"starting", "compiling"}:
        return START_SILENCE_S
    if state == "saving":
        return SAVE_SILENCE_S
    if progress.phase == "evaluating":
        return EVAL_SILENCE_S
    step = progress.step_seconds
    if step is None or not isfinite(step) or step <= 0:
        return UNKNOWN_STEP_SILENCE_S
    return max(STALL_FACTOR * step, STEP_SILENCE_S)
