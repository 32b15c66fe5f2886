"""Decide whether a submission is a new run, a known one, or in conflict with another's, from the cluster, the records
and the checkpoints. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import count
from typing import Literal

from msgspec import Struct

from xsft.base.aliases import JsonMapping
from xsft.base.errors import Refused
from xsft.base.names import attempt_name, attempt_number, jobset_limit
from xsft.records.labels import DIGEST_ANNOTATION, RUN_LABEL
from xsft.records.record import Record
from xsft.records.resumption import MAY_CHANGE_WORDS, all_differences, changed_keys
from xsft.runs.worth import is_worthless
from xsft.spec.digest import canonical, spec_digest
from xsft.spec.resolve import Run


class LiveJobSet(Struct, frozen=True, kw_only=True):
    """A JobSet on the cluster, with the fields that identify it."""

    name: str
    uid: str
    run_name: str | None
    """Its run; None: xsft did not create it."""
    digest: str | None
    state: Literal["live", "completed", "failed"]
    deleting: bool = False
    """Whether it is being deleted."""
    suspended: bool = False


class RunHistory(Struct, frozen=True, kw_only=True):
    """The facts known about a run before it is submitted."""

    jobsets: tuple[LiveJobSet, ...] = ()
    """JobSets of this run's name, every attempt."""
    records: tuple[Record, ...] = ()
    latest_step: int | None = None
    """Step of the latest saved checkpoint; None without one."""
    made: bool = False
    """Whether the result of a CPU job is complete."""
    passed_over: frozenset[int] = frozenset()
    """Attempts whose JobSet's name belongs to another run (`ownership.pass_over`): the run `a-2` has that of `a`'s
    second."""


class AdoptJobSet(Struct, frozen=True, kw_only=True):
    """Decision: the same run is live, so nothing is created."""

    jobset: LiveJobSet


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
    live = [seen for seen in world.jobsets if seen.state == "live"]
    _refuse_deleting(live)
    for seen in live:
        if seen.digest != digest:
            before = next((r for r in reversed(world.records) if r.spec_digest == seen.digest), None)
            raise _refuse_other_run(
                run, f"JobSet {seen.name} is active with another workload", before=before, spec=spec
            )
    if live:
        return AdoptJobSet(jobset=max(live, key=attempt_of))
    _refuse_begun_elsewhere(run, spec=spec, world=world)
    _refuse_other_output(run, digest=digest, spec=spec, world=world)
    if world.latest_step is not None and world.latest_step >= run.spec.train.steps:
        return _adopt_finished(run, world, steps=world.latest_step)
    return _plan_start(run, world)


def decide_job(run: Run, *, digest: str, world: RunHistory) -> Decision:
    """Return the decision as `decide` does, for a CPU job (`launcher.cpujob`): no step is saved, and its inputs alone
    make its identity."""
    live = [seen for seen in world.jobsets if seen.state == "live"]
    _refuse_deleting(live)
    for seen in live:
        if seen.digest != digest:
            raise Refused(
                f"JobSet {seen.name} (uid {seen.uid}) is active with other inputs.",
                fix=f"Wait until it ends (xsft wait {run.run_name}), or cancel it: xsft cancel {run.run_name}.",
                id="job-differs",
            )
    if live:
        return AdoptJobSet(jobset=max(live, key=attempt_of))
    if world.made:
        return KeepFinished(steps=0)
    _refuse_open_elsewhere(run, spec=json.loads(canonical(run)), world=world)
    return _plan_start(run, world)


def seen_of(jobset: JsonMapping) -> LiveJobSet:
    metadata = jobset.get("metadata") or {}
    return LiveJobSet(
        name=str(metadata.get("name")),
        uid=str(metadata.get("uid")),
        run_name=(metadata.get("labels") or {}).get(RUN_LABEL),
        digest=(metadata.get("annotations") or {}).get(DIGEST_ANNOTATION),
        state=_state(jobset.get("status") or {}),
        deleting=bool(metadata.get("deletionTimestamp")),
        suspended=(jobset.get("spec") or {}).get("suspend") is True,
    )


def attempt_of(seen: LiveJobSet) -> int:
    """Return the attempt's number: `run` is 1, `run-3` is 3; a JobSet of another name counts as the first."""
    return attempt_number(seen.name, first=seen.run_name or seen.name) or 1


def _state(status: JsonMapping) -> Literal["live", "completed", "failed"]:
    """Return the JobSet's state by terminalState, else by conditions that are True: they stay when they turn False
    (jobset@v0.10.1)."""
    true = {c.get("type") for c in status.get("conditions") or () if c.get("status") == "True"}
    terminal = status.get("terminalState")
    if terminal == "Failed" or "Failed" in true:
        return "failed"
    return "completed" if terminal == "Completed" or "Completed" in true else "live"


def _refuse_deleting(live: Sequence[LiveJobSet]) -> None:
    """Raise Refused if a JobSet is being deleted: a new attempt must wait, because its pods may still save."""
    for seen in live:
        if seen.deleting:
            raise Refused(
                f"JobSet {seen.name} (uid {seen.uid}) of this run is being deleted, and its pods may still exist.",
                fix=f"Run the same command again when it is gone (kubectl wait --for=delete jobset/{seen.name}): the"
                " run resumes from its last checkpoint.",
                id="jobset-deleting",
            )


def _refuse_begun_elsewhere(run: Run, *, spec: JsonMapping, world: RunHistory) -> None:
    """Raise Refused if an attempt was begun on another cluster or namespace: a killed submitter may have left a live
    run that saves into the same folder."""
    for begun in world.records:
        unsettled = begun.on_cluster and begun.last.outcome == "submitting" and begun.spec
        if unsettled and _destination(begun.spec) != _destination(spec):
            raise Refused(
                f"{run.run_name} was submitted to {_destination(begun.spec)} without a recorded result; this "
                f"submission is for {_destination(spec)}, with the same output.",
                fix="Submit it to the first cluster again, which checks whether it exists, or use another name.",
                id="begun-elsewhere",
            )


def _refuse_open_elsewhere(run: Run, *, spec: JsonMapping, world: RunHistory) -> None:
    """Raise Refused if an attempt of the job may still write on another cluster or namespace: no end of it is
    recorded."""
    for begun in world.records:
        is_open = begun.on_cluster and begun.last.outcome in ("submitting", "created") and begun.spec
        if is_open and _destination(begun.spec) != _destination(spec):
            raise Refused(
                f"{run.run_name} was started in {_destination(begun.spec)} without a recorded end; this call is for "
                f"{_destination(spec)}, with the same output.",
                fix="Run the command with the first place, which reads its end; or name another folder for the result, "
                "e.g. model.hf.converted.",
                id="begun-elsewhere",
            )


def _destination(spec: JsonMapping) -> str:
    """Return cluster and namespace as text."""
    place = spec.get("place") or {}
    names = (place.get(key) for key in ("context", "project", "zone", "cluster"))
    return f"{'/'.join(filter(None, names))}, namespace {spec.get('namespace')}"


def _refuse_other_output(run: Run, *, digest: str, spec: JsonMapping, world: RunHistory) -> None:
    """Raise Refused if the output under this name is another run's; only what may grow on resume may differ."""
    before = next((r for r in reversed(world.records) if _took_place(r, world)), None)
    where = f"{run.output}/{run.run_name} belongs to another workload"
    if before is None:
        known = {digest, *(r.spec_digest for r in world.records)}
        unexplained = any(seen.digest not in known for seen in world.jobsets)
        if world.latest_step is not None and (unexplained or any(r.last.outcome == "unknown" for r in world.records)):
            raise _refuse_other_run(run, where, before=None, spec=spec)
    elif before.spec_digest != digest and (not before.spec or changed_keys(before.spec, spec)):
        raise _refuse_other_run(run, where, before=before, spec=spec)


def _took_place(record: Record, world: RunHistory) -> bool:
    """Return whether the recorded attempt took place. One that was about to be created did if its JobSet or checkpoints
    exist."""
    created = world.latest_step is not None or any(seen.digest == record.spec_digest for seen in world.jobsets)
    return _has_started(record) or (record.last.outcome == "submitting" and created)


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
    last = next((record.last for record in reversed(world.records) if _has_started(record)), None)
    taught_nothing = last is not None and is_worthless(last.state_reason)
    return KeepFinished(steps=steps, worthless=last.reason or "" if last and taught_nothing else "")


def _plan_start(run: Run, world: RunHistory) -> StartAttempt:
    """Return the start of the next attempt. The number of a JobSet that was never created is reused: the unique name of
    the JobSet decides between two submitters."""
    taken = (
        *(attempt_of(seen) for seen in world.jobsets),
        *(record.last.number for record in world.records if _has_started(record)),
    )
    attempt = next(number for number in count(1 + max(taken, default=0)) if number not in world.passed_over)
    name = attempt_name(run.run_name, attempt)
    hosts = run.slice.hosts if run.slice else 1
    limit = jobset_limit(target=run.spec.target, mode=run.mode.value, num_slices=run.num_slices, hosts=hosts)
    if len(name) > limit:
        raise Refused(
            f"attempt {attempt} would have the JobSet name {name} with {len(name)} characters, and the limit is "
            f"{limit} in {run.mode.value} mode; it would be admitted but never start.",
            fix="Use a shorter name." if world.latest_step is None else _fix_too_long(world.latest_step),
        )
    return StartAttempt(attempt=attempt)


def _fix_too_long(saved: int) -> str:
    return (
        f"Its checkpoints up to step {saved} are kept. A run with a shorter name starts at step 0; set "
        "`checkpoint:` to the last checkpoint to start from its weights."
    )


def _has_started(record: Record) -> bool:
    return record.last.outcome not in ("submitting", "not-created", "unknown")
