"""Putting a plan on its cluster exactly once: look, decide, record, create, read back.

Every step is safe to repeat: a submitter that is killed anywhere leaves what the next call needs to tell the truth.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from xsft.effects import clock
from xsft.effects.admission import examine
from xsft.effects.cluster import Cluster
from xsft.effects.cluster_create import Exists
from xsft.effects.recording import Provenance, manifest_digest, record_of
from xsft.effects.records import RecordRef, RecordStore, Taken
from xsft.effects.writable import check_writable
from xsft.errors import Refused, SpecError, XsftError
from xsft.identity import Adopt, Finished, Seen, Start, World, attempt_of, decide, refuse_foreign, seen_of
from xsft.problems import Problem, errors_in, warning
from xsft.records.model import Facts, ReadBack
from xsft.spec.digest import canonical
from xsft.steps import Plan

Action = Literal["created", "adopted", "attempt", "finished"]
Progress = Callable[[str], None]
Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Submission:
    """What came of `submit`."""

    plan: Plan
    """Of the attempt that was created or adopted."""
    action: Action
    jobset: str | None
    uid: str | None
    record: str | None
    """Path of the attempt's record."""
    steps: int | None = None
    """Of the last checkpoint, where the run is finished."""
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Submitter:
    cluster: Cluster
    store: RecordStore
    provenance: Provenance
    replan: Callable[[int], Plan]
    """The plan of a later attempt; its JobSet has another name."""
    progress: Progress = lambda _line: None
    writable: Callable[[str], tuple[Problem, ...]] = check_writable

    def submit(self, plan: Plan) -> Submission:
        """Raises as Cluster and RecordStore do, Refused where something else is in the way."""
        output = str(plan.run.output)
        self.progress("looking at the output")
        warnings = _no_errors(self.writable(output))
        records = self.store.read_run(output, plan.run_name)
        latest = latest_step(self.store, output=output, run_name=plan.run_name)
        self.progress("looking at the cluster")
        facts, problems = examine(self.cluster, plan)
        jobsets = tuple(seen_of(found) for found in facts.jobsets)
        world = World(jobsets=jobsets, records=records, latest_step=latest)
        match decide(plan.run, digest=plan.spec_digest, spec=json.loads(canonical(plan.run)), world=world):
            case Adopt(jobset=seen):
                return self._adopted(plan, seen, problems=warnings)
            case Finished(steps=steps):
                return self._finished(plan, world, steps=steps)
            case Start(attempt=attempt):
                resumes = _resume_notes(latest, attempt=attempt)
                return self._start(plan, attempt, problems=(*warnings, *_no_errors(problems), *resumes))

    def _start(self, first: Plan, attempt: int, *, problems: tuple[Problem, ...]) -> Submission:
        plan = first if attempt == 1 else self.replan(attempt)
        manifest = _manifest(plan)
        self._refuse_taken(plan)
        self.progress("asking the cluster whether it would take the JobSet and its Jobs")
        self.cluster.dry_run_jobset(manifest)
        said = (*problems, *_no_errors(self.cluster.dry_run_jobs(manifest)))
        action: Action = "created" if attempt == 1 else "attempt"
        begun = self.store.begin(record_of(plan, self.provenance, number=attempt, action=action))
        ref = _own_or_same(begun, digest=plan.spec_digest)
        self.progress(f"creating JobSet {plan.jobset}")
        return self._created(plan, ref, action=action, problems=(*said, *ref.problems))

    def _created(self, plan: Plan, ref: RecordRef, *, action: Action, problems: tuple[Problem, ...]) -> Submission:
        try:
            outcome = self.cluster.create_jobset(_manifest(plan), mark=self.provenance.submitter)
        except SpecError as refused:
            self._finish(
                ref,
                Facts(outcome="not-created", at=clock.now(), submitter=self.provenance.submitter, reason=str(refused)),
            )
            raise
        seen = seen_of(outcome.object)
        if isinstance(outcome, Exists):
            refuse_foreign(seen, run_name=plan.run_name)
            if seen.digest != plan.spec_digest:
                raise Refused(
                    f"JobSet {seen.name} was created a moment ago with another workload (digest {seen.digest}).",
                    fix="Take another name, or wait for that run.",
                )
            return self._adopted(plan, seen, problems=problems)
        kept = self._finish(ref, self._facts(plan, seen, action=action))
        return Submission(
            plan=plan,
            action=action,
            jobset=seen.name,
            uid=seen.uid,
            record=ref.path,
            problems=(*problems, *kept),
        )

    def _facts(self, plan: Plan, seen: Seen, *, action: Action) -> Facts:
        return Facts(
            outcome="created",
            at=clock.now(),
            submitter=self.provenance.submitter,
            action=action,
            uid=seen.uid,
            manifest_digest=manifest_digest(_manifest(plan)),
            read_back=self._read_back(plan),
        )

    def _read_back(self, plan: Plan) -> ReadBack:
        """The run is as it is by now: not being able to look is a fact, not a failure."""
        try:
            there = self.cluster.get_jobset(name=plan.jobset, namespace=plan.run.namespace)
        except XsftError:
            return ReadBack(outcome="not-read")
        if there is None:
            return ReadBack(outcome="not-read")
        found = tuple(lacking(_manifest(plan), there))
        return ReadBack(outcome="differs" if found else "same", differences=found)

    def _finish(self, ref: RecordRef, facts: Facts) -> tuple[Problem, ...]:
        """A record that cannot be completed does not undo the create: it is said."""
        try:
            said = self.store.finish(ref, facts).problems
        except XsftError as failed:
            message = f"The record {ref.path} was begun and could not be completed: {failed}."
            said = (
                warning("record-not-finished", "", message, "Submit again: the run is adopted, nothing is repeated."),
            )
        differs = facts.read_back.differences if facts.read_back else ()
        return (*said, *(_read_back_problem(one) for one in differs))

    def _adopted(self, plan: Plan, seen: Seen, *, problems: tuple[Problem, ...]) -> Submission:
        attempt = self.replan(attempt_of(seen)) if seen.name != plan.jobset else plan
        path = _record_path(plan, attempt_of(seen))
        return Submission(
            plan=attempt, action="adopted", jobset=seen.name, uid=seen.uid, record=path, problems=problems
        )

    def _finished(self, plan: Plan, world: World, *, steps: int) -> Submission:
        last = world.jobsets[-1] if world.jobsets else None
        number = max((r.last.number for r in world.records), default=1)
        return Submission(
            plan=plan,
            action="finished",
            jobset=last.name if last else None,
            uid=last.uid if last else None,
            record=_record_path(plan, number) if world.records else None,
            steps=steps,
        )

    def _refuse_taken(self, plan: Plan) -> None:
        there = self.cluster.get_jobset(name=plan.jobset, namespace=plan.run.namespace)
        if there is not None:
            refuse_foreign(seen_of(there), run_name=plan.run_name)


def latest_step(store: RecordStore, *, output: str, run_name: str) -> int | None:
    """Of the saved checkpoints: the largest folder that is a number (maxtext@0.2.5 writes `<step>/`, unfinished saves
    end in `.orbax-checkpoint-tmp`). Raises Unreachable where nobody can look.
    """
    folder = f"{output.rstrip('/')}/{run_name}/checkpoints"
    names = store.objects_at(folder).names(folder)
    steps = [int(name[:-1]) for name in names if name.endswith("/") and name[:-1].isdigit()]
    return max(steps, default=None)


def lacking(sent: Any, held: Any, at: str = "") -> list[str]:
    """Where the cluster holds something else than was sent, `pointer: sent -> held` each. What it added is its own.

    Kueue suspends what it queues: `/spec/suspend` is its word from the first moment.
    """
    if at == "/spec/suspend":
        return []
    if isinstance(sent, dict) and isinstance(held, dict):
        return [d for key, value in sent.items() for d in lacking(value, held.get(key), f"{at}/{_token(key)}")]
    if isinstance(sent, list) and isinstance(held, list) and len(sent) == len(held):
        return [d for i, (a, b) in enumerate(zip(sent, held, strict=True)) for d in lacking(a, b, f"{at}/{i}")]
    same = sent == held or sent in (None, [], {}) or str(sent) == str(held)
    return [] if same else [f"{at}: {json.dumps(sent)[:80]} -> {json.dumps(held)[:80]}"]


def _token(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _record_path(plan: Plan, attempt: int) -> str:
    return f"{str(plan.run.output).rstrip('/')}/{plan.run_name}/xsft/attempt-{attempt}.json"


def _own_or_same(begun: RecordRef | Taken, *, digest: str) -> RecordRef:
    """Taken by a submitter that died, or by one that is a moment ahead: the JobSet's name decides who is first."""
    if isinstance(begun, RecordRef):
        return begun
    if begun.ref.record.spec_digest != digest:
        raise Refused(
            f"{begun.ref.path}: somebody began this attempt a moment ago with another workload.",
            fix="Submit again to see what became of it, or take another name.",
        )
    return begun.ref


def _manifest(plan: Plan) -> Json:
    if plan.manifest is None:
        raise SpecError(errors_in(plan.problems))
    return plan.manifest


def _no_errors(problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
    if errors_in(problems):
        raise SpecError(errors_in(problems))
    return problems


def _read_back_problem(difference: str) -> Problem:
    return warning("read-back-differs", "", f"The cluster holds something else than was sent: {difference}.", "Look.")


def _resume_notes(latest: int | None, *, attempt: int) -> tuple[Problem, ...]:
    if latest is None or attempt > 1:
        return ()
    message = f"Checkpoints up to step {latest} lie in this run's output: it goes on from there."
    return (warning("resumes-unrecorded", "output", message, "Take another name for a run from the start."),)
