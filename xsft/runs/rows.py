"""The rows of `xsft status`, one per run. Pure."""

from __future__ import annotations

from math import isfinite
from typing import Literal, TypeGuard, get_args

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.amounts import seconds_between, with_z
from xsft.base.names import RowOrder
from xsft.base.problems import Problem, warning
from xsft.base.stage import STAGES, StageName
from xsft.base.state_names import ENDED, RUNNING, State
from xsft.base.targets import TargetProperties
from xsft.catalog.tpu import parse_tpu_type
from xsft.cluster.observation import Observation, RunObject, Status
from xsft.spec.keypath import printable
from xsft.trainer.progress import Progress


class ProgressRead(Struct, frozen=True, kw_only=True):
    """The source of step, loss and other progress."""

    read: bool
    """Whether the trainer's output was read; if not, step and loss are None and mean nothing."""
    why: str
    """Why it was not read; empty if it was, or if there is nothing to read yet."""
    source: str | None = None
    """Source: log, metrics, record or checkpoints."""
    said_at: str | None = None
    """Time of the trainer's last output; UTC, ISO 8601."""
    saved_step: int | None = None
    """Latest complete checkpoint; None if it was not read or there is none."""
    resumed_from: int | None = None
    """Step of the checkpoint it resumed from."""
    resumed_order: RowOrder | None = None
    """Order of the rows it reads since then, starting with the first row: another order than before, or the same; None
    if it has not resumed, or it is unknown."""
    no_target_steps: int = 0
    """Longest series of steps without a token to learn from; among the steps that were read, as for the next two."""
    not_finite_steps: int = 0
    """Steps whose loss was NaN or infinite."""
    zero_loss_steps: int = 0
    """Longest series of steps whose loss was printed as 0.000 although they had tokens to learn from."""


class Row(TargetProperties, Struct, frozen=True, kw_only=True):
    """One run, all its attempts folded into the newest. None: not read, or the run has none. Times are UTC with a Z."""

    run_name: str
    pipeline: str | None
    """run_name of the training that the run belongs to, its own for a training; None for a run of another tool."""
    stage: StageName | None
    """Its stage of a pipeline; None for a run of another tool."""
    jobset: str | None
    """JobSet of the newest attempt; None for a run on this machine."""
    namespace: str | None
    cluster: str | None
    """Project/zone/cluster, or the kubeconfig context; None for a run on this machine."""
    target: str
    """`local`, or the launcher that puts it on a cluster: `xpk`."""
    mode: str | None
    """Mode: mcjax or pathways."""
    tpu: str | None
    """TPU type of one slice, e.g. `v6e-256`."""
    num_slices: int | None
    state: State
    """docs/states.md explains each; `stalled` and `unknown` are states too, and unreachable is never `failed`."""
    reason: str
    """Stable id of the reason (docs/reference/reasons.md); empty if the state needs no reason."""
    step: int | None
    """The last finished step."""
    steps: int | None
    """Requested steps."""
    loss: float | None
    """Loss of `step`; in JSON None also if it is not a number."""
    step_seconds: float | None
    """Median seconds per step, without compilation."""
    mfu: float | None
    """Share of the chips' bfloat16 peak, 0 … 1; None off a TPU."""
    tokens_per_second: float | None
    """Tokens per second and device, padding included."""
    eta_s: float | None
    """Seconds until the last step, at the present pace; only while it runs."""
    restarts: int | None
    """Restarts of the whole JobSet."""
    max_restarts: int | None
    created_at: str | None
    """Time of creation; UTC, ISO 8601, as all times."""
    ended_at: str | None
    age_s: float | None
    """Seconds since `created_at`."""
    queue: str | None
    """Kueue LocalQueue."""
    queue_position: int | None
    """Workloads ahead of it in the queue; None if Kueue does not report it."""
    evidence: tuple[str, ...]
    """Sources of the state: jobset, workload, pods, log, metrics, checkpoints, record."""
    observed_at: str
    """Time when they were read."""
    evidence_age_s: float | None
    """Seconds since `observed_at`; large if a cluster does not answer and its last known state is shown."""
    progress: ProgressRead
    unread: tuple[str, ...]
    """`what: why` of evidence that could not be read."""
    attempts: int
    """Number of known submissions of this run."""
    output: str | None
    """base_output_directory."""
    tensorboard: str | None
    """Folder of the TensorBoard files; None for work without steps, and if the output is unknown."""
    spec_digest: str | None
    uid: str | None
    """UID of the JobSet."""

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    @property
    def chips(self) -> int | None:
        """Return the number of chips of all slices."""
        chips = _chips(self.tpu)
        return chips * (self.num_slices or 1) if chips else None


NO_PROGRESS = Progress(source="log", read_at="")


def row_of(observation: Observation, status: Status, *, now: str, attempts: int = 1) -> Row:
    """Return the row of a run. One line per column, so that each column is next to its source."""
    jobset = observation.jobset
    progress = observation.progress or NO_PROGRESS
    run_object = observation.held
    slices = run_object or observation.record  # those of the JobSet, even of a deleted one; else as submitted
    steps = observation.steps or (run_object.steps if run_object else None)
    stage = stage_of(observation)
    evidence_age_s = _age(observation.read_at or observation.observed_at, now)
    output = (run_object.output if run_object else None) or observation.output
    return Row(
        run_name=observation.run_name,
        pipeline=_pipeline_name(observation.run_name, stage),
        stage=stage,
        jobset=observation.jobset_name,
        namespace=jobset.namespace if jobset else None,
        cluster=observation.cluster,
        target=observation.target,
        mode=observation.mode or (run_object.mode if run_object else None),
        tpu=slices.tpu if slices else None,
        num_slices=slices.num_slices if slices else None,
        state=status.state,
        reason=status.reason,
        step=progress.step,
        steps=steps,
        loss=progress.loss,
        step_seconds=progress.step_seconds,
        mfu=_mfu(observation),
        tokens_per_second=progress.tokens_per_second,
        eta_s=_eta(progress, steps=steps) if status.state in RUNNING else None,
        restarts=run_object.restarts if run_object else None,
        max_restarts=run_object.max_restarts if run_object else None,
        created_at=_time_text(created_at(observation)),
        ended_at=_time_text(ended_at(observation)),
        age_s=_run_age(created_at(observation), observation, evidence_age_s),
        queue=observation.queue,
        queue_position=observation.position,
        evidence=status.evidence,
        observed_at=with_z(observation.observed_at),
        evidence_age_s=evidence_age_s,
        progress=_progress(observation),
        unread=tuple(f"{source.what}: {source.why}" for source in observation.unread),
        attempts=attempts,
        output=output,
        # source: maxtext@0.2.5 configs/types.py tensorboard_dir
        tensorboard=f"{output.rstrip('/')}/{observation.run_name}/tensorboard" if output and steps else None,
        spec_digest=run_object.spec_digest if run_object else None,
        uid=observation.uid,
    )


def aged(row: Row, *, seconds: float) -> Row:
    """Return the same row so much later without a new reading: its ages grow, its state stays."""
    age_s = None if row.age_s is None else row.age_s + seconds
    return replace(row, age_s=age_s, evidence_age_s=(row.evidence_age_s or 0.0) + seconds)


def stage_of(observation: Observation) -> StageName | None:
    """Return the stage of the run; None if xsft did not create it."""
    run_object = observation.held
    if run_object is not None and not run_object.ours:
        return None
    work = (run_object.work if run_object else None) or (observation.record.work if observation.record else None)
    return next((name for name in STAGES if name == work), "train")


def _pipeline_name(run_name: str, stage: StageName | None) -> str | None:
    if stage is None:
        return None
    return run_name if stage == "train" else run_name.removesuffix(f"-{stage}")


def created_at(observation: Observation) -> str | None:
    if run_object := observation.held:
        return run_object.created_at
    return observation.record.started_at if observation.record else None


def ended_at(observation: Observation) -> str | None:
    """Return the time of the JobSet's or its Workload's end, else the record's; None while it exists."""
    conditions = [
        c
        for run_object in (observation.jobset, observation.workload)
        if run_object is not None
        for c in run_object.conditions
    ]
    ends = [c for c in conditions if c.type in ("Completed", "Failed", "Finished")]
    written = [c.at for c in ends if c.status == "True" and c.at]
    if written:
        return max(written)
    return observation.record.finished_at if observation.record else None


def _time_text(time: str | None) -> str | None:
    return None if time is None else with_z(time)


def _age(since: str | None, now: str) -> float | None:
    """Return the age in seconds, never negative: a server's clock may be a little ahead."""
    passed = seconds_between(since, now)
    return None if passed is None else max(0.0, passed)


def _run_age(created: str | None, observation: Observation, evidence_age_s: float | None) -> float | None:
    """Return the seconds since the run was created: up to the observation by the server's clock, and from then on by
    this machine's."""
    age_s = _age(created, observation.observed_at)
    return None if age_s is None else age_s + (evidence_age_s or 0.0)


def _eta(progress: Progress, *, steps: int | None) -> float | None:
    if progress.step is None or steps is None or progress.step_seconds is None:
        return None
    seconds = max(0, steps - progress.step) * progress.step_seconds
    return seconds if isfinite(seconds) else None


def _mfu(observation: Observation) -> float | None:
    """Return maxtext@0.2.5's `TFLOP/s/device` divided by a device's peak; None without a TPU, or if its peak is
    unknown."""
    reached = (observation.progress or NO_PROGRESS).tflops_per_device
    slices = observation.held or observation.record
    if reached is None or slices is None or slices.tpu is None:
        return None
    try:
        peak = parse_tpu_type(slices.tpu).device_tflops
    except ValueError:
        return None
    return reached / peak if peak else None


def _chips(tpu: str | None) -> int | None:
    try:
        return parse_tpu_type(tpu).chips if tpu else None
    except ValueError:
        return None


def _progress(observation: Observation) -> ProgressRead:
    progress = observation.progress
    if progress is None:
        why = "; ".join(
            source.why for source in observation.unread if source.what in ("log", "metrics", "checkpoints", "record")
        )
        return ProgressRead(read=False, why=why)
    return ProgressRead(
        read=True,
        why="",
        source=progress.source,
        said_at=_time_text(progress.said_at),
        saved_step=progress.saved_step,
        resumed_from=progress.resumed_from,
        resumed_order=None if progress.resumed_from is None else progress.resumed_order or order_of(observation.held),
        no_target_steps=progress.no_target_steps,
        not_finite_steps=progress.not_finite_steps,
        zero_loss_steps=progress.zero_loss_steps,
    )


def order_of(run_object: RunObject | None) -> RowOrder | None:
    """Return the order in which a resumed run reads its rows. The seed does not count Kueue's evictions and replaced
    pods: if only these restarted the run, it repeats rows.
    """
    if run_object is None or not run_object.ours:
        return None
    counted = run_object.restarts > 0 or run_object.name != run_object.run_name
    return "reshuffled" if run_object.data_on_restart == "reshuffle" and counted else "repeated"


def state_line(row: Row) -> str:
    """Return a run's state as one line, e.g. `gemma  training  step 120/1000  loss 2.346`."""
    reason = f" ({row.reason})" if row.reason else ""
    step = "" if row.step is None else f"  step {row.step}{f'/{row.steps}' if row.steps else ''}"
    loss = "" if row.loss is None else f"  loss {row.loss:.4g}"
    return f"{printable(row.run_name)}  {row.state}{printable(reason)}{step}{loss}"


ENOUGH = 3
"""Minimum number of such steps: one or two may be an unusual batch. If a run has fewer steps, all of them."""

Worthless = Literal["no-target-tokens", "loss-not-finite"]
"""Reason for which a run has failed, whatever its exit status; a running one will fail."""


def is_worthless(reason: str | None) -> TypeGuard[Worthless]:
    """Return whether it is such a reason."""
    return reason in get_args(Worthless)


def worthless(progress: Progress | None, *, asked: int | None) -> Worthless | None:
    """Return such a reason; None if nothing shows one. `asked`: requested steps."""
    if progress is None:
        return None
    done = progress.step or 0
    steps = 0  # of this process, once it has completed its last one; 0 if it resumed from the last checkpoint
    if progress.data_ended or progress.phase == "ended" or (asked is not None and done >= asked):
        steps = max(0, done - (progress.resumed_from or 0))
    minimum = min(ENOUGH, steps or ENOUGH)
    if progress.no_target_steps >= minimum:
        return "no-target-tokens"
    return "loss-not-finite" if progress.not_finite_steps >= minimum else None


def text_of(progress: Progress | ProgressRead, reason: Worthless) -> str:
    """Return the explanation, one clause."""
    match reason:
        case "no-target-tokens":
            count = progress.no_target_steps
            return f"{count} steps in a row had no target token (total_weights: 0) and taught the model nothing"
        case "loss-not-finite":
            count = progress.not_finite_steps
            return f"the loss of {count} steps was NaN or infinite, and MaxText was configured to continue"


def doubts(row: Row) -> tuple[Problem, ...]:
    """Return warnings if the run's losses are not comparable."""
    if not is_worthless(row.reason):
        return zero_loss(row)
    fix = f"Omit it from the comparison; see xsft why {row.run_name}."
    return (
        warning(row.reason, row.run_name, f"Its losses are not comparable: {text_of(row.progress, row.reason)}.", fix),
    )


def zero_loss(row: Row) -> tuple[Problem, ...]:
    """Return a warning if the loss is 0.000 repeatedly although the steps have target tokens."""
    steps = row.progress.zero_loss_steps
    return (zero_loss_warning(row.run_name, steps),) if steps >= ENOUGH else ()


def zero_loss_warning(run_name: str, steps: int) -> Problem:
    message = f"The loss was printed as 0.000 at {steps} steps in a row, although they had target tokens."
    fix = "Check the data: a loss of zero is usual if rows repeat, or contain no answer."
    return warning("loss-zero", run_name, message, fix)
