"""Putting a plan on its cluster exactly once: look, decide, record, create, read back.

Every step is safe to repeat: a submitter that is killed anywhere leaves what the next call needs to tell the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from xsft.checks.admission import ClusterFacts
from xsft.effects.cluster.cluster import Cluster
from xsft.effects.cluster.create import NOTHING_MADE, Created, Exists
from xsft.effects.images.seen import image_problems, maxtext_in
from xsft.effects.machine import clock
from xsft.effects.records.records import RecordRef, RecordStore
from xsft.effects.records.saved import latest_step
from xsft.effects.records.writable import check_writable
from xsft.effects.submit import notes
from xsft.effects.submit.admission import examine
from xsft.effects.submit.interrupts import NOTHING_CREATED, goes_on, when_interrupted
from xsft.effects.submit.proposal import Proposal, proposal_of
from xsft.effects.submit.recording import Provenance, manifest_digest, record_of
from xsft.errors import SpecError, XsftError
from xsft.identity import Adopt, Decision, Finished, Seen, Start, World, attempt_of, decide, seen_of
from xsft.launchers.readback import lacking, lacking_of_xpk
from xsft.naming import RowOrder, jobset_name
from xsft.ownership import pass_over, recognised
from xsft.problems import Problem, errors_in, warning
from xsft.records.model import Facts, ReadBack, Record
from xsft.steps import Plan
from xsft.trainers.shuffling import order_at_first

Action = Literal["created", "adopted", "attempt", "finished"]
Progress = Callable[[str], None]
Json = dict[str, Any]


def create_planned(cluster: Cluster, plan: Plan, mark: str) -> Created | Exists:
    """Exactly the plan's manifest, by the cluster's own API."""
    return cluster.create_jobset(manifest_of(plan), mark=mark)


def differences_of_planned(plan: Plan, held: Json) -> list[str]:
    return lacking(manifest_of(plan), held)


class Submission(Struct, frozen=True, kw_only=True):
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
    resumed_from: int | None = None
    """Of a new JobSet: the step whose checkpoint it continues from."""
    problems: tuple[Problem, ...] = ()

    @property
    def resumed_order(self) -> RowOrder | None:
        """Of the rows it reads from there."""
        return None if self.resumed_from is None else order_at_first(self.plan.run)


class Submitter(Struct, frozen=True, kw_only=True):
    cluster: Cluster
    store: RecordStore
    provenance: Provenance
    replan: Callable[[int], Plan]
    """The plan of a later attempt; its JobSet has another name."""
    progress: Progress = lambda _line: None
    writable: Callable[[str], tuple[Problem, ...]] = check_writable
    image: Callable[[str], tuple[Problem, ...]] = image_problems
    maxtext: Callable[[str], str | None] = maxtext_in
    """The release in an image; None where nobody tells."""
    create: Callable[[Cluster, Plan, str], Created | Exists] = create_planned
    compare: Callable[[Plan, Json], list[str]] = differences_of_planned
    """Where what the cluster holds is not what was sent."""
    notes: tuple[Problem, ...] = ()
    """On how it is created; they go into the record."""
    confirm: Callable[[Proposal], None] = lambda _proposal: None
    """Asked once, just before something is created. Raises Refused where the answer is no."""

    def submit(self, plan: Plan) -> Submission:
        """Raises as Cluster and RecordStore do, Refused where something else is in the way."""
        with when_interrupted(NOTHING_CREATED):
            return self._submitted(plan)

    def _submitted(self, plan: Plan) -> Submission:
        output = str(plan.run.output)
        self.progress("looking at the output")
        unwritable = self.writable(output)
        records = self.store.read_run(output, plan.run_name)
        latest = latest_step(self.store.objects_at(output), output=output, run_name=plan.run_name)
        self.progress("looking at the cluster")
        facts, problems = examine(self.cluster, plan)
        jobsets = (*map(seen_of, facts.jobsets), *self._unlabelled(plan, facts, records))
        world = World(jobsets=jobsets, records=records, latest_step=latest)
        decision, passed_over = self._decided(plan, world)
        match decision:
            case Adopt(jobset=seen):
                return self._adopted(plan, seen, facts)
            case Finished(steps=steps, worthless=worthless):
                if worthless:
                    raise notes.finished_for_nothing(plan.run_name, worthless)
                return self._finished(plan, world, steps=steps)
            case Start(attempt=attempt):
                image = notes.image_notes(plan, look=self.image, maxtext=self.maxtext)
                said = (*unwritable, *image, *problems, *notes.resume_notes(latest, attempt=attempt), *passed_over)
                done = self._start(plan, attempt, world=world, problems=_no_errors(said))
                return replace(done, resumed_from=latest) if done.action in ("created", "attempt") else done

    def _decided(self, plan: Plan, world: World) -> tuple[Decision, tuple[Problem, ...]]:
        """A JobSet that has the next attempt's name and is another's is passed over, and told of."""
        passed_over: list[Problem] = []
        while True:
            decision = decide(plan.run, world=world)
            if not isinstance(decision, Start):
                return decision, ()
            name = jobset_name(run_name=plan.run_name, attempt=decision.attempt)
            held = self.cluster.get_jobset(name=name, namespace=plan.run.namespace)
            there = seen_of(held) if held is not None else None
            if there is None or there.run_name == plan.run_name:  # ours, a moment ahead: the create finds it
                return decision, tuple(passed_over)
            world = pass_over(there, attempt=decision.attempt, world=world)
            passed_over.append(notes.passed_over_note(there, run_name=plan.run_name))

    def _unlabelled(self, plan: Plan, facts: ClusterFacts, records: tuple[Record, ...]) -> Iterator[Seen]:
        """JobSets of this run that bear no label of ours, because xpk made them by our line: the first attempt's, and
        the last recorded one's.
        """
        listed = {found["metadata"]["name"] for found in facts.jobsets}
        last = records[-1].last.jobset if records else None
        later = last not in {None, plan.jobset, *listed}
        there = self.cluster.get_jobset(name=str(last), namespace=plan.run.namespace) if later else None
        for held in (facts.same_name, there):
            if held and held["metadata"]["name"] not in listed:
                as_told = not lacking_of_xpk(plan.audit, manifest=manifest_of(plan), held=held)
                seen = recognised(seen_of(held), run_name=plan.run_name, records=records, as_told=as_told)
                yield from (seen,) if seen.run_name == plan.run_name else ()

    def _start(self, first: Plan, attempt: int, *, world: World, problems: tuple[Problem, ...]) -> Submission:
        plan = first if attempt == 1 else self.replan(attempt)
        manifest = manifest_of(plan)
        self.progress("asking the cluster whether it would take the JobSet and its Jobs")
        self.cluster.dry_run_jobset(manifest)
        said = (*problems, *_no_errors(self.cluster.dry_run_jobs(manifest)))
        self.confirm(proposal_of(plan, attempt=attempt, world=world, problems=said))
        action: Action = "created" if attempt == 1 else "attempt"
        record = record_of(plan, self.provenance, number=attempt, action=action, resumes_from=world.latest_step)
        begun = self.store.begin(record)
        # Taken: by a submitter that died, or by one that is a moment ahead. The JobSet's name decides who is first.
        ref = begun if isinstance(begun, RecordRef) else begun.ref
        self.progress(f"creating JobSet {plan.jobset}")
        return self._created(plan, ref, action=action, problems=(*said, *ref.problems))

    def _created(self, plan: Plan, ref: RecordRef, *, action: Action, problems: tuple[Problem, ...]) -> Submission:
        with when_interrupted(notes.maybe_created(plan)):
            outcome = self._create(plan, ref)
            seen = seen_of(outcome.object)
            if not isinstance(outcome, Exists):
                with when_interrupted(f"JobSet {seen.name}, uid {seen.uid}, is created. {goes_on(plan.run_name)}"):
                    return self._recorded(plan, ref, seen, action=action, problems=problems)
        if seen.run_name not in (None, plan.run_name):
            self._finish(ref, self._facts("not-created", reason=f"{seen.name} is of the run {seen.run_name}"))
        return self.submit(plan)  # somebody was first: what that means is decided as for every call

    def _create(self, plan: Plan, ref: RecordRef) -> Created | Exists:
        try:
            return self.create(self.cluster, plan, self.provenance.submitter)
        except XsftError as refused:
            if isinstance(refused, SpecError) or refused.problem_id in NOTHING_MADE:
                why = "; ".join(problem.message for problem in refused.problems)
                self._finish(ref, self._facts("not-created", reason=why))
            raise

    def _recorded(
        self, plan: Plan, ref: RecordRef, seen: Seen, *, action: Action, problems: tuple[Problem, ...]
    ) -> Submission:
        read_back = self._read_back(plan)
        digest = manifest_digest(manifest_of(plan))
        learnt = {"uid": seen.uid, "manifest_digest": digest, "read_back": read_back, "problems": self.notes}
        kept = self._finish(ref, self._facts("created", action=action, **learnt))
        return Submission(
            plan=plan,
            action=action,
            jobset=seen.name,
            uid=seen.uid,
            record=ref.path,
            problems=(*problems, *self.notes, *kept),
        )

    def _facts(self, outcome: Literal["created", "not-created"], **known: Any) -> Facts:
        return Facts(outcome=outcome, at=clock.now(), submitter=self.provenance.submitter, **known)

    def _read_back(self, plan: Plan) -> ReadBack:
        """The run is as it is by now: not being able to look is a fact, not a failure."""
        try:
            there = self.cluster.get_jobset(name=plan.jobset, namespace=plan.run.namespace)
        except XsftError:
            return ReadBack(outcome="not-read")
        if there is None:
            return ReadBack(outcome="not-read")
        found = tuple(self.compare(plan, there))
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
        return (*said, *notes.read_back_notes(facts.read_back))

    def _adopted(self, plan: Plan, seen: Seen, facts: ClusterFacts) -> Submission:
        attempt = self.replan(attempt_of(seen)) if seen.name != plan.jobset else plan
        path = _record_path(plan, attempt_of(seen))
        said = notes.adopted_notes(notes.held_by(facts, seen.uid))
        return Submission(plan=attempt, action="adopted", jobset=seen.name, uid=seen.uid, record=path, problems=said)

    def _finished(self, plan: Plan, world: World, *, steps: int) -> Submission:
        last = max(world.jobsets, key=attempt_of, default=None)
        number = max((r.last.number for r in world.records), default=1)
        return Submission(
            plan=plan,
            action="finished",
            jobset=last.name if last else None,
            uid=last.uid if last else None,
            record=_record_path(plan, number) if world.records else None,
            steps=steps,
        )


def manifest_of(plan: Plan) -> Json:
    """Raises SpecError for a plan that has none."""
    if plan.manifest is None:
        raise SpecError(errors_in(plan.problems))
    return plan.manifest


def _record_path(plan: Plan, attempt: int) -> str:
    return f"{str(plan.run.output).rstrip('/')}/{plan.run_name}/xsft/attempt-{attempt}.json"


def _no_errors(problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
    if errors_in(problems):
        raise SpecError(errors_in(problems))
    return problems
