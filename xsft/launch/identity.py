"""Decide whether a submission is a new run, a known one, or in conflict with another's, from the cluster, the records
and the checkpoints. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import count

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.errors import Refused
from xsft.base.lenient import JsonMapping
from xsft.base.names import attempt_name, jobset_limit
from xsft.base.problems import Problem
from xsft.base.reporting import WorkEvent
from xsft.cluster.jobset_fields import JobSet
from xsft.planning.steps import Planned
from xsft.records.jobset_paths import DIGEST_ANNOTATION, RUN_LABEL
from xsft.records.record import Record
from xsft.records.resumption import MAY_CHANGE_WORDS, all_differences, changed_keys
from xsft.runs.rows import is_worthless
from xsft.spec.digest import canonical, spec_digest
from xsft.spec.resolve import Run


class LastEnd(Struct, frozen=True, kw_only=True):
    """The end of a run's last attempt."""

    attempt: int
    digest: str | None
    """The digest of its workload."""
    message: str
    """Why it ended, in the words of `xsft why`."""
    fix: str = ""
    repeats: bool = False
    """As `Cause.repeats`; False for an end that is not known."""
    still_runs: bool = False
    """Whether one of its pods still runs: it may save a step."""


class RunHistory(Struct, frozen=True, kw_only=True):
    """The facts known about a run before it is submitted."""

    jobsets: tuple[JobSet, ...] = ()
    """JobSets of this run's name, every attempt."""
    records: tuple[Record, ...] = ()
    latest_step: int | None = None
    """Step of the latest saved checkpoint; None without one."""
    nothing_saved: bool = False
    """Whether the output has no checkpoint of this run, not even a part of one; False also if that is unknown."""
    last_end: LastEnd | None = None
    """How the last attempt ended; read only if no checkpoint is complete."""
    made: bool = False
    """Whether the result of a CPU job is complete."""
    passed_over: frozenset[int] = frozenset()
    """Attempts whose JobSet's name belongs to another run (`ownership.pass_over`): the run `a-2` has that of `a`'s
    second."""


class AdoptJobSet(Struct, frozen=True, kw_only=True):
    """Decision: the same run is live, so nothing is created."""

    jobset: JobSet


class KeepFinished(Struct, frozen=True, kw_only=True):
    """Decision: the same run has its last checkpoint."""

    steps: int
    worthless: str = ""
    """Why its steps taught nothing, if the record of its last attempt says so."""


class StartAttempt(Struct, frozen=True, kw_only=True):
    """Decision: create the JobSet of this attempt; from the second on it resumes."""

    attempt: int


Decision = AdoptJobSet | KeepFinished | StartAttempt


def decide(run: Run, *, world: RunHistory) -> Decision:
    """Return whether to adopt, report as finished, or start the run. Raises Refused for another workload under the same
    name or output.

    A run that ended before its last step, with or without an error, gets a new attempt.
    """
    digest = spec_digest(run)
    spec = json.loads(canonical(run))
    live = [attempt_jobset for attempt_jobset in world.jobsets if attempt_jobset.live]
    _refuse_deleting(live)
    for attempt_jobset in live:
        if attempt_jobset.spec_digest != digest:
            raise _refuse_active(run, attempt_jobset, spec=spec, world=world)
    if live:
        return AdoptJobSet(jobset=max(live, key=lambda jobset: jobset.attempt))
    _refuse_elsewhere(
        run,
        spec=spec,
        world=world,
        outcomes=("submitting",),
        message="was submitted to {place} without a recorded result",
        fix="Submit it to the first cluster again, which checks whether it exists, or use another name.",
    )
    # Another workload may take the output if nothing was saved, and nothing can be saved any more.
    if not world.nothing_saved or any(_may_run_elsewhere(record, spec) for record in world.records):
        _refuse_other_output(run, digest=digest, spec=spec, world=world)
    if world.latest_step is not None and world.latest_step >= run.spec.train.steps:
        return _adopt_finished(run, world, steps=world.latest_step)
    return _plan_start(run, world)


def decide_job(run: Run, *, digest: str, world: RunHistory) -> Decision:
    """Return the decision as `decide` does, for a CPU job (`launcher.cpujob`): no step is saved, and its inputs alone
    make its identity."""
    live = [attempt_jobset for attempt_jobset in world.jobsets if attempt_jobset.live]
    _refuse_deleting(live)
    for attempt_jobset in live:
        if attempt_jobset.spec_digest != digest:
            raise Refused(
                f"JobSet {attempt_jobset.name} (uid {attempt_jobset.uid}) is active with other inputs.",
                fix=f"Wait until it ends (xsft wait {run.run_name}), or cancel it: xsft cancel {run.run_name}.",
                id="job-differs",
            )
    if live:
        return AdoptJobSet(jobset=max(live, key=lambda jobset: jobset.attempt))
    if world.made:
        return KeepFinished(steps=0)
    _refuse_elsewhere(
        run,
        spec=json.loads(canonical(run)),
        world=world,
        outcomes=("submitting", "created"),
        message="was started in {place} without a recorded end",
        fix="Run the command with the first place, which reads its end; or name another folder for the result, e.g. "
        "model.hf.converted.",
    )
    return _plan_start(run, world)


def recorded_end(record: Record) -> LastEnd:
    """Return what the record says of an attempt whose JobSet is gone."""
    last = record.last
    message = "Its JobSet is gone, and its record does not say how it ended."
    if last.reason:
        message = f"{last.outcome}: {last.reason}."
    return LastEnd(attempt=last.number, digest=record.spec_digest, message=message)


def _refuse_deleting(live: Sequence[JobSet]) -> None:
    """Raise Refused if a JobSet is being deleted: a new attempt must wait, because its pods may still save."""
    for jobset in live:
        if jobset.metadata.deletion_timestamp:
            raise Refused(
                f"JobSet {jobset.name} (uid {jobset.uid}) of this run is being deleted, and its pods may still exist.",
                fix=f"Run the same command again when it is gone (kubectl wait --for=delete jobset/{jobset.name}): the"
                " run resumes from its last checkpoint.",
                id="jobset-deleting",
            )


def _refuse_elsewhere(
    run: Run, *, spec: JsonMapping, world: RunHistory, outcomes: Sequence[str], message: str, fix: str
) -> None:
    """Raise Refused if an attempt with one of these outcomes was begun on another cluster or in another namespace: it
    may be alive there, and writes to the same folder. `message`: what is known of it.
    """
    for record in world.records:
        is_open = record.on_cluster and record.last.outcome in outcomes and record.spec
        if is_open and _destination(record.spec) != _destination(spec):
            raise Refused(
                f"{run.run_name} {message.format(place=_destination(record.spec))}; this submission is for "
                f"{_destination(spec)}, with the same output.",
                fix=fix,
                id="begun-elsewhere",
            )


def _destination(spec: JsonMapping) -> str:
    """Return cluster and namespace as text."""
    place = spec.get("place") or {}
    names = (place.get(key) for key in ("context", "project", "zone", "cluster"))
    return f"{'/'.join(filter(None, names))}, namespace {spec.get('namespace')}"


def _may_run_elsewhere(record: Record, spec: JsonMapping) -> bool:
    """Return whether the attempt may run on a cluster or in a namespace that was not read."""
    is_open = record.last.outcome in ("submitting", "created", "running", "unknown")
    return is_open and (not record.spec or _destination(record.spec) != _destination(spec))


def _refuse_other_output(run: Run, *, digest: str, spec: JsonMapping, world: RunHistory) -> None:
    """Raise Refused if the output under this name is another run's; only what may grow on resume may differ."""
    before = next((r for r in reversed(world.records) if _took_place(r, world)), None)
    where = f"{run.output}/{run.run_name} belongs to another workload"
    if before is None:
        explained = {digest, *(r.spec_digest for r in world.records)}
        unexplained = any(jobset.spec_digest not in explained for jobset in world.jobsets)
        if world.latest_step is not None and (unexplained or any(r.last.outcome == "unknown" for r in world.records)):
            raise _refuse_other_run(run, where, before=None, spec=spec)
    elif before.spec_digest != digest and (not before.spec or changed_keys(before.spec, spec)):
        raise _refuse_other_run(run, where, before=before, spec=spec)


def _took_place(record: Record, world: RunHistory) -> bool:
    """Return whether the recorded attempt took place. One that was about to be created did if its JobSet or checkpoints
    exist."""
    created = world.latest_step is not None or any(jobset.spec_digest == record.spec_digest for jobset in world.jobsets)
    return has_started(record) or (record.last.outcome == "submitting" and created)


def _refuse_active(run: Run, jobset: JobSet, *, spec: JsonMapping, world: RunHistory) -> Refused:
    """Return the refusal of a workload whose name an active JobSet of another workload has."""
    before = next((record for record in reversed(world.records) if record.spec_digest == jobset.spec_digest), None)
    what = f"JobSet {jobset.name} is active with another workload"
    refused = _refuse_other_run(run, what, before=before, spec=spec)
    if before and before.spec and not changed_keys(before.spec, spec):
        # Only the steps differ, and what follows from them. (This output's records are of this output.)
        fix = (
            f"Cancel it (xsft cancel {run.run_name}), or wait for its end (xsft wait {run.run_name}). Then submit "
            "again: it resumes from its last checkpoint."
        )
        return Refused(refused.message, fix=fix)
    return refused


def _refuse_other_run(run: Run, what: str, *, before: Record | None, spec: JsonMapping) -> Refused:
    changed = all_differences(before.spec, spec) if before and before.spec else ()
    shown = f": {'; '.join(changed)}" if changed else ". The differences are not recorded here"
    return Refused(
        f"{what} under the name {run.run_name}{shown}.",
        fix="Use another name, or restore the old values in the workload. (A key that it does not set may have a new "
        f"default in this xsft.) Note that {MAY_CHANGE_WORDS}.",
    )


def _adopt_finished(run: Run, world: RunHistory, *, steps: int) -> KeepFinished:
    if not world.records and not world.jobsets:
        raise Refused(
            f"{run.output}/{run.run_name} has a checkpoint at step {steps} without a record of xsft; a run of "
            f"{run.spec.train.steps} steps would train nothing.",
            fix="Use another name or output, or more steps.",
        )
    if steps > run.spec.train.steps:
        raise Refused(
            f"{run.output}/{run.run_name} has done {steps} steps, more than the {run.spec.train.steps} requested.",
            fix="Request at least as many steps, or use another name.",
        )
    last = next((record.last for record in reversed(world.records) if has_started(record)), None)
    worthless = ""
    if last is not None and is_worthless(last.state_reason):
        worthless = last.reason or ""
    return KeepFinished(steps=steps, worthless=worthless)


def _plan_start(run: Run, world: RunHistory) -> StartAttempt:
    """Return the start of the next attempt. The number of a JobSet that was never created is reused: the unique name of
    the JobSet decides between two submitters."""
    used = (
        *(jobset.attempt for jobset in world.jobsets),
        *(record.last.number for record in world.records if has_started(record)),
    )
    attempt = next(number for number in count(1 + max(used, default=0)) if number not in world.passed_over)
    name = attempt_name(run.run_name, attempt)
    hosts = run.slice.hosts if run.slice else 1
    limit = jobset_limit(target=run.spec.target, mode=run.mode.value, num_slices=run.num_slices, hosts=hosts)
    if len(name) > limit:
        fix = "Use a shorter name."
        if world.latest_step is not None:
            fix = (
                f"Its checkpoints up to step {world.latest_step} are kept. A run with a shorter name starts at step 0; "
                "set `checkpoint:` to the last checkpoint to start from its weights."
            )
        raise Refused(
            f"attempt {attempt} would have the JobSet name {name} with {len(name)} characters, and the limit is "
            f"{limit} in {run.mode.value} mode; it would be admitted but never start.",
            fix=fix,
        )
    return StartAttempt(attempt=attempt)


def has_started(record: Record) -> bool:
    return record.last.outcome not in ("submitting", "not-created", "unknown")


def recognise_jobset(jobset: JobSet, *, run_name: str, records: Sequence[Record], as_told: bool) -> JobSet:
    """Return the JobSet with its run. One without labels belongs to this run if a record names its UID, or if a
    submission through xpk was begun and the JobSet equals xpk's command line (`as_told`): its submitter was killed
    before it could write more."""
    if jobset.labelled_run is not None:
        return jobset
    ours = [r.last for r in records if r.last.jobset == jobset.name]
    attempts = [
        attempt for attempt in ours if attempt.uid == jobset.uid or (attempt.outcome == "submitting" and as_told)
    ]
    if not attempts:
        return jobset
    labels = {**jobset.metadata.labels, RUN_LABEL: run_name}
    annotations = {**jobset.metadata.annotations, DIGEST_ANNOTATION: attempts[-1].spec_digest}
    return replace(jobset, metadata=replace(jobset.metadata, labels=labels, annotations=annotations))


def pass_over(jobset: JobSet, *, attempt: int, world: RunHistory) -> RunHistory:
    """Return the history after `jobset` proved to be another run's with the name of this attempt, e.g. of a run that is
    itself named `run-2`. It is left alone, and the attempt takes the next name.

    Raises Refused for the first attempt, whose name is the run's, and for a JobSet that may be this run's after all.
    """
    begun = (r for r in world.records if r.last.number == attempt and r.last.outcome in ("submitting", "unknown"))
    if jobset.labelled_run is None and any(begun):
        # To skip it would make a second run, which saves into the same folder.
        raise Refused(
            f"attempt {attempt} was submitted without a recorded result, and the JobSet {jobset.name} (uid "
            f"{jobset.uid}) has no label: it may be that attempt, or another user's.",
            fix=f"Check its owner (kubectl get jobset {jobset.name} -o yaml), and resubmit once it is gone.",
            id="jobset-unclear",
        )
    if attempt == 1:
        owner = "another user; xsft did not create it"
        if jobset.labelled_run:
            owner = f"the run {jobset.labelled_run}"
        fix = "Use another name: --set name=…, or run_name_suffix: date."
        if world.latest_step is not None:
            fix = (
                f"Submit it again when that JobSet is gone (kubectl get jobset {jobset.name}): it resumes from the "
                f"saved step {world.latest_step}. Under another name it would start at step 0."
            )
        raise Refused(f"the name {jobset.name} is taken by a JobSet (uid {jobset.uid}) of {owner}.", fix=fix)
    return replace(world, passed_over=world.passed_over | {attempt})


class Proposal(WorkEvent, frozen=True, kw_only=True):
    """One new JobSet that the cluster would accept, for the caller that may still decline it."""

    plan: Planned
    attempt: int
    world: RunHistory
    problems: tuple[Problem, ...]

    @property
    def since(self) -> int | None:
        """Return the attempt that `changed` compares with; None if none is recorded."""
        return self._before.last.number if self._before else None

    @property
    def changed(self) -> tuple[str, ...]:
        """Return what differs from attempt `since`, as `key: old -> new`."""
        return all_differences(self._before.spec, json.loads(canonical(self.plan.run))) if self._before else ()

    @property
    def repeats(self) -> bool:
        """Return whether it would end as the attempt before: the same workload, and an end that repeats."""
        end = self.world.last_end
        return end is not None and end.repeats and end.digest == self.plan.spec_digest

    @property
    def _before(self) -> Record | None:
        records = self.world.records
        return records[-1] if records and records[-1].spec else None
