"""Judges how an attempt on this machine ended, from everything its trainer printed."""

from __future__ import annotations

from pathlib import Path

from xsft.base.problems import Problem, warning
from xsft.launch.local_folder import whole_log
from xsft.launch.local_watch import AttemptWatch, TrainerEnd
from xsft.records.record import Attempt
from xsft.runs.failures import reason
from xsft.runs.worth import ENOUGH, is_worthless, text_of, worthless, zero_loss_warning
from xsft.trainer.kernel_kills import TRAINER, signal_text

DONE = TrainerEnd(outcome="completed")


def judge_end(watch: AttemptWatch, *, steps: int, status: int) -> TrainerEnd:
    """Return the end. It is completed only with the last requested step, its checkpoint, and a change by training:
    MaxText exits with 0 when its data ends, and when no step had a target token. `steps`: requested steps. `status`:
    the trainer's exit status.
    """
    why = reason(tuple(watch.tail))
    printed = watch.said
    nothing = None if printed.aborted else worthless(printed, asked=steps)
    if nothing:
        crashed = f"; it ended with exit status {status} ({why or 'cause unknown'})" if status else ""
        return TrainerEnd(outcome="failed", reason=f"{text_of(printed, nothing)}{crashed}", state_reason=nothing)
    if status != 0:
        return _crash_end(watch, steps=steps, status=status, why=why)
    if watch.last_step < steps:
        return TrainerEnd(outcome="short", reason=why or f"{TRAINER} ended without an error message")
    if watch.folder.latest_step() < steps:
        return TrainerEnd(outcome="short", reason=f"the checkpoint of step {steps} is missing")
    return DONE


def _crash_end(watch: AttemptWatch, *, steps: int, status: int, why: str | None) -> TrainerEnd:
    """Return the end of a trainer that crashed. After its last checkpoint the result is complete all the same; the exit
    is kept as the reason.
    """
    killed = signal_text(TRAINER, status, since=watch.began)
    plain = f"{TRAINER} ended with exit status {status}"
    whole = watch.said.aborted is None and min(watch.last_step, watch.folder.latest_step()) >= steps
    if whole:
        return TrainerEnd(outcome="completed", reason=killed or (f"{plain}: {why}" if why else plain))
    return TrainerEnd(outcome="failed", reason=killed or why or plain)


def ended_then(attempt: Attempt, *, steps: int) -> TrainerEnd:
    """Return the end of a run that has its last checkpoint. Its log is read too: an attempt that was interrupted after
    that checkpoint was not judged.
    """
    if is_worthless(attempt.state_reason):
        return TrainerEnd(outcome="failed", reason=attempt.reason, state_reason=attempt.state_reason)
    printed = whole_log(Path(attempt.log))
    nothing = None if printed.aborted else worthless(printed, asked=steps)
    return TrainerEnd(outcome="failed", reason=text_of(printed, nothing), state_reason=nothing) if nothing else DONE


def warnings_of(watch: AttemptWatch) -> tuple[Problem, ...]:
    """Return warnings for printed lines that make the result doubtful."""
    padding = (_padding_warning(watch.padded_arrays),) if watch.padded_arrays else ()
    zeros = watch.tally.zero_loss_steps
    last = watch.record.last
    after = (_after_last_step_warning(last.reason),) if last.outcome == "completed" and last.reason else ()
    return (*padding, *after, *((zero_loss_warning(watch.record.run_name, zeros),) if zeros >= ENOUGH else ()))


def _after_last_step_warning(reason: str) -> Problem:
    message = f"The checkpoint of the last step is saved; afterwards {reason}."
    return warning("failed-after-last-step", "", message, "Use the checkpoint; no rerun is needed.")


def _padding_warning(arrays: int) -> Problem:
    message = (
        f"The initial checkpoint has another model size: MaxText padded or repeated {arrays} arrays and continued."
    )
    fix = "Convert the checkpoint of this model and train again; these results are useless."
    return warning("checkpoint-padded", "model.checkpoint", message, fix)
