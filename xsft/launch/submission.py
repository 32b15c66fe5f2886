"""Submits a plan to its cluster exactly once: read, decide, record, create, read back. Every step is safe to repeat: if
a submitter is killed at any point, the next call can determine what happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.acceptance import accept_late
from xsft.base.errors import SpecError, TimedOut, XsftError, refuse_errors
from xsft.base.lenient import JsonObject, ShowLine
from xsft.base.names import RowOrder, attempt_name
from xsft.base.problems import Problem, errors_in, warning
from xsft.base.reporting import WorkEvent
from xsft.checks.admission import ClusterFacts
from xsft.checks.controllers import check_managed
from xsft.checks.model import moved_commits
from xsft.cluster.cluster import Cluster
from xsft.cluster.errors import last_net
from xsft.cluster.exactly_once import CreatedObject, ExistingObject, is_refusal
from xsft.cluster.jobset_fields import JOBSET, JobSet
from xsft.cluster.objects import typed
from xsft.image.contents import ImageLook
from xsft.image.lock_file import look_at_image
from xsft.launch import notes
from xsft.launch.admission import RightsOf, examine, manifest_of
from xsft.launch.identity import (
    AdoptJobSet,
    Decision,
    KeepFinished,
    LastEnd,
    Proposal,
    RunHistory,
    StartAttempt,
    decide,
    decide_job,
    has_started,
    pass_over,
    recognise_jobset,
    recorded_end,
)
from xsft.launch.notes import read_end
from xsft.launch.recording import Provenance, manifest_digest, record_of, record_of_found
from xsft.launcher.readback import lacking_of_xpk, missing_values
from xsft.machine import clock
from xsft.machine.deadline import LOOKS_S, NEVER, Deadline
from xsft.machine.objects import latest_step
from xsft.machine.parallel import start
from xsft.machine.signals import NOTHING_CREATED, goes_on, when_interrupted
from xsft.machine.writable import check_writable
from xsft.planning.steps import JobPlan, Plan, Planned
from xsft.records import attempt_stem
from xsft.records.record import AttemptFacts, ReadBack, Record
from xsft.records.record_files import RecordRef, RecordStore, TakenAttempt, ref_of
from xsft.trainer.shuffling import order_at_first
from xsft.weights.read_checkpoint import read_checkpoint

T = TypeVar("T")

SubmissionAction = Literal["created", "adopted", "attempt", "finished"]


def create_planned(cluster: Cluster, plan: Planned, mark: str) -> CreatedObject | ExistingObject:
    """Create exactly the plan's manifest through the cluster's API."""
    return cluster.create_jobset(manifest_of(plan), mark=mark)


def differences_of_planned(plan: Planned, jobset: JsonObject) -> list[str]:
    return missing_values(manifest_of(plan), jobset)


def is_whole(path: str) -> bool:
    """Return whether a complete checkpoint exists at `path`."""
    return read_checkpoint(path).status == "read"


class Submission(WorkEvent, frozen=True, kw_only=True):
    """The outcome of `submit`."""

    plan: Planned
    """The plan of the attempt that was created or adopted."""
    action: SubmissionAction
    jobset: str | None
    uid: str | None
    record: str | None
    """The path of the attempt's record."""
    steps: int | None = None
    """The step of the last checkpoint, if the run is finished."""
    resumed_from: int | None = None
    """For a new JobSet: the step whose checkpoint it resumes from."""
    problems: tuple[Problem, ...] = ()

    @property
    def resumed_order(self) -> RowOrder | None:
        """Return the order of the rows that it reads from that step on."""
        return None if self.resumed_from is None else order_at_first(self.plan.run)


class Submitter(Struct, frozen=True, kw_only=True):
    cluster: Cluster
    store: RecordStore
    provenance: Provenance
    replan: Callable[[int], Planned]
    """Return the plan of a later attempt; its JobSet has another name."""
    progress: ShowLine = lambda _line: None
    writable: Callable[[str, str | None], tuple[Problem, ...]] = check_writable
    """Return the problems of an output for a cluster in that zone."""
    image: Callable[[str], ImageLook] = look_at_image
    create: Callable[[Cluster, Planned, str], CreatedObject | ExistingObject] = create_planned
    compare: Callable[[Planned, JsonObject], list[str]] = differences_of_planned
    """Return the differences between the plan and what the cluster holds."""
    notes: tuple[Problem, ...] = ()
    """Notes on how the JobSet is created; they are part of the record."""
    made: Callable[[str], bool] = is_whole
    """Return whether the output of a CPU job exists."""
    rights: RightsOf = lambda _email, _demand: None
    """Return the rights of the Google service account that the pods use; None if they cannot be read."""
    read_end: Callable[..., LastEnd] = read_end
    """Return how an attempt ended, from its JobSet on the cluster; arguments as `notes.read_end`."""
    parsed: Callable[[], tuple[Problem, ...]] = lambda: ()
    """Return the answer of MaxText's parser on the command line; the parser runs while the cluster is read."""
    deadline: Deadline = NEVER
    """By which the looks before the create end; at most LOOKS_S after the first one began."""
    confirm: Callable[[Proposal], None] = lambda _proposal: None
    """Called once, just before something is created. Raises Refused if the user declines."""

    def submit(self, plan: Planned) -> Submission:
        """Submit the plan. Raises as Cluster and RecordStore do, and Refused if something else prevents it."""
        with when_interrupted(NOTHING_CREATED):
            return replace(self, deadline=self.deadline.sooner(LOOKS_S)).submit_by_deadline(plan)

    def _look(self, what: str, look: Callable[[], T]) -> T:
        """Return what `look` returns. Raises TimedOut at the deadline."""
        try:
            with last_net(self.cluster.context):
                return self.deadline.look(what, look, say=self.progress)
        except TimedOut as late:
            raise TimedOut(f"{late.message} Nothing was created.", fix=late.fix) from None

    def submit_by_deadline(self, plan: Planned) -> Submission:
        """Submit the plan as `submit` does, with this deadline."""
        output = str(plan.run.output)
        self.progress("reading the output, the cluster and the image")
        of_image = start(lambda: notes.image_of(plan, look=self.image))
        zone = plan.run.place.zone if plan.run.place else None
        of_output = start(lambda: self.writable(output, zone))
        # The order decides: a JobSet exists before its record says so, and its last step is saved before it ends. If
        # the records were read after the JobSets, a JobSet that another submitter just created would look deleted.
        records = self._look(f"the records in {output}", lambda: self.store.read_run(output, plan.run_name))
        facts, cluster_problems, jobsets = self._look(
            f"the cluster {self.cluster.context}", lambda: self._read_cluster(plan, records)
        )
        world = self._look(
            f"the checkpoints in {output}", lambda: self._history(plan, facts, jobsets=jobsets, records=records)
        )
        unwritable = self._look(f"the output {output}", of_output.result)
        problems = accept_late(cluster_problems, plan.run.spec.checks)
        result = self._look(f"the result in {output}", lambda: self._result(plan, facts))
        world = replace(world, made=result is not None)
        decision, passed_over = self._look(
            f"the names on {self.cluster.context}", lambda: self._decide_submission(plan, world)
        )
        match decision:
            case None:
                return self.submit(plan)
            case AdoptJobSet(jobset=seen):
                return self._adopt_jobset(plan, seen, facts)
            case KeepFinished(steps=steps, worthless=worthless):
                if worthless:
                    raise notes.finished_for_nothing(plan.run_name, worthless)
                return self._keep_finished(result or plan, world, steps=steps)
            case StartAttempt(attempt=attempt):
                self._settle(plan, world)
                image = self._look("the registry of the image", of_image.result)
                start_problems = (
                    *unwritable,
                    *notes.image_notes(plan, image),
                    *problems,
                    *notes.start_notes(plan, image, facts, found=problems),
                    *notes.resume_notes(world.latest_step, attempt=attempt),
                    *moved_commits(plan.run, world.records),
                    *passed_over,
                )
                done = self._start(plan, attempt, world=world, problems=refuse_errors(start_problems))
                return replace(done, resumed_from=world.latest_step) if done.action in ("created", "attempt") else done

    def _read_cluster(
        self, plan: Planned, records: tuple[Record, ...]
    ) -> tuple[ClusterFacts, tuple[Problem, ...], tuple[JobSet, ...]]:
        """Return the cluster's facts, the problems that they show, and the JobSets of this run."""
        facts, problems = examine(self.cluster, plan, rights=self.rights)
        listed = (*(typed(json, JOBSET) for json in facts.jobsets), *self._unlabelled_jobsets(plan, facts, records))
        jobsets = tuple(
            notes.with_workload_end(jobset, self.cluster, namespace=plan.run.namespace) for jobset in listed
        )
        return facts, problems, jobsets

    def _history(
        self, plan: Planned, facts: ClusterFacts, *, jobsets: tuple[JobSet, ...], records: tuple[Record, ...]
    ) -> RunHistory:
        """Return what is known about the run, with the saved steps. A CPU job saves none."""
        world = RunHistory(jobsets=jobsets, records=records)
        if isinstance(plan, JobPlan):
            return world
        output = str(plan.run.output)
        objects = self.store.objects_at(output)
        latest = latest_step(objects, output=output, run_name=plan.run_name)
        if latest is not None or any(jobset.live for jobset in jobsets):
            return replace(world, latest_step=latest)
        end = self._last_end(facts, world)
        nothing = notes.is_nothing_saved(end, objects, output=output, run_name=plan.run_name)
        return replace(world, last_end=end, nothing_saved=nothing)

    def _last_end(self, facts: ClusterFacts, world: RunHistory) -> LastEnd | None:
        """Return how the run's last attempt ended, from its JobSet, or from its record if the JobSet is gone."""
        jobset = max(world.jobsets, key=lambda jobset: jobset.attempt, default=None)
        started = [record for record in world.records if has_started(record)]
        if jobset is not None and (not started or started[-1].last.number <= jobset.attempt):
            on_cluster = notes.held_by(facts, jobset.uid)
            return self.read_end(self.cluster, on_cluster, attempt=jobset.attempt) if on_cluster else None
        return recorded_end(started[-1]) if started else None

    def _settle(self, plan: Planned, world: RunHistory) -> None:
        """Record that earlier attempts of a CPU job failed, before their JobSets are deleted. None is live."""
        match plan:
            case Plan():
                return
            case JobPlan():
                for record in world.records:
                    ended = next((jobset for jobset in world.jobsets if jobset.uid == record.last.uid), None)
                    if ended is not None and record.last.outcome == "created":
                        reason = f"its JobSet {str(ended.status.terminal).lower()}, and its result is incomplete"
                        self._finish(ref_of(record), self._facts("failed", reason=reason))

    def _result(self, plan: Planned, facts: ClusterFacts) -> Planned | None:
        """Return the plan of a CPU job with the folder that holds its complete result. A job that was still writing
        when the plan was made, which chose another folder then, may have completed since.
        """
        match plan:
            case Plan():
                return None
            case JobPlan():
                jobsets = [(json, typed(json, JOBSET)) for json in facts.jobsets]
                ended = [(json, jobset) for json, jobset in jobsets if jobset.status.terminal == "Completed"]
                same = (json for json, jobset in ended if jobset.spec_digest == plan.spec_digest)
                paths = dict.fromkeys((plan.job.writes, *filter(None, map(notes.written_by, same))))
                path = next(filter(self.made, paths), None)
                return replace(plan, job=replace(plan.job, writes=path)) if path else None

    def _decide_submission(self, plan: Planned, world: RunHistory) -> tuple[Decision | None, tuple[Problem, ...]]:
        """Return the decision, and a note for each JobSet that has the next attempt's name but belongs to another run:
        that name is skipped. None if the records must be read again: they have changed, and a JobSet without labels has
        the name; xpk may have created it for this run.
        """
        passed_over: list[Problem] = []
        while True:
            decision = _decision(plan, world)
            if not isinstance(decision, StartAttempt):
                return decision, ()
            name = attempt_name(plan.run_name, decision.attempt)
            document = self.cluster.get_jobset(name=name, namespace=plan.run.namespace)
            other = typed(document, JOBSET) if document is not None else None
            if other is None or other.labelled_run == plan.run_name:  # its own, created since: the create will find it
                return decision, tuple(passed_over)
            if other.labelled_run is None and self._has_changed(plan, world):
                return None, ()
            world = pass_over(other, attempt=decision.attempt, world=world)
            passed_over.append(notes.passed_over_note(other, run_name=plan.run_name))

    def _has_changed(self, plan: Planned, world: RunHistory) -> bool:
        """Return whether the records have changed since they were read."""
        return self.store.read_run(str(plan.run.output), plan.run_name) != world.records

    def _unlabelled_jobsets(self, plan: Planned, facts: ClusterFacts, records: tuple[Record, ...]) -> Iterator[JobSet]:
        """Yield the JobSets of this run that have no label of xsft, because xpk created them from the xpk line: the
        first attempt's, and the last recorded one's.
        """
        listed = {labelled["metadata"]["name"] for labelled in facts.jobsets}
        last = records[-1].last.jobset if records else None
        later = last not in {None, plan.jobset, *listed}
        jobset = self.cluster.get_jobset(name=str(last), namespace=plan.run.namespace) if later else None
        for document in (facts.same_name, jobset):
            if document and document["metadata"]["name"] not in listed:
                as_told = not lacking_of_xpk(plan.audit, manifest=manifest_of(plan), stored=document)
                recognised = recognise_jobset(
                    typed(document, JOBSET), run_name=plan.run_name, records=records, as_told=as_told
                )
                if recognised.labelled_run == plan.run_name:
                    yield recognised

    def _start(self, first: Planned, attempt: int, *, world: RunHistory, problems: tuple[Problem, ...]) -> Submission:
        plan = first if attempt == 1 else self.replan(attempt)
        self.progress("validating the JobSet and its Jobs with a dry run")
        dry_runs = self._look(f"the dry runs on {self.cluster.context}", lambda: self._dry_runs(plan))
        start_problems = (*problems, *refuse_errors(dry_runs))
        self.progress("waiting for MaxText's own parser")
        start_problems = (*start_problems, *refuse_errors(self.parsed()))
        self.confirm(Proposal(plan=plan, attempt=attempt, world=world, problems=start_problems))
        action: SubmissionAction = "created" if attempt == 1 else "attempt"
        record = record_of(plan, self.provenance, number=attempt, action=action, resumes_from=world.latest_step)
        begun = self.store.begin(record)
        if isinstance(begun, TakenAttempt) and self._has_changed(plan, world):
            return self.submit(first)  # begun since the records were read, perhaps on another cluster: decide again
        # A submitter that died, or one that is running, has this record. The unique name of the JobSet decides which is
        # first.
        ref = begun.ref if isinstance(begun, TakenAttempt) else begun
        self.progress(f"creating JobSet {plan.jobset}")
        return self._create_recorded(plan, ref, action=action, problems=(*start_problems, *ref.problems))

    def _dry_runs(self, plan: Planned) -> tuple[Problem, ...]:
        """Return what the cluster would refuse or change about the JobSet, its Jobs and their pods."""
        manifest = manifest_of(plan)
        unmanaged = check_managed(self.cluster.dry_run_jobset(manifest), context=self.cluster.context)
        jobs = self.cluster.dry_run_jobs(manifest)
        pods = () if errors_in(jobs) else self.cluster.dry_run_pods(manifest)
        return accept_late((*unmanaged, *jobs, *pods), plan.run.spec.checks)

    def _create_recorded(
        self, plan: Planned, ref: RecordRef, *, action: SubmissionAction, problems: tuple[Problem, ...]
    ) -> Submission:
        with when_interrupted(notes.maybe_created(plan)):
            try:
                outcome = self.create(self.cluster, plan, self.provenance.submitter)
            except XsftError as refused:
                # Any other failure may come after the create: the record stays open, and the next call looks.
                if isinstance(refused, SpecError) or is_refusal(refused):
                    why = "; ".join(problem.message for problem in refused.problems)
                    self._finish(ref, self._facts("not-created", reason=why))
                raise
            jobset = typed(outcome.object, JOBSET)
            if not isinstance(outcome, ExistingObject):
                with when_interrupted(f"JobSet {jobset.name}, uid {jobset.uid}, was created. {goes_on(plan.run_name)}"):
                    return self._record_outcome(plan, ref, jobset, action=action, problems=problems)
        if jobset.labelled_run not in (None, plan.run_name):
            self._finish(ref, self._facts("not-created", reason=f"{jobset.name} belongs to run {jobset.labelled_run}"))
        return self.submit(plan)  # another submitter was first: decide again from the start

    def _record_outcome(
        self,
        plan: Planned,
        ref: RecordRef,
        jobset: JobSet,
        *,
        action: SubmissionAction,
        problems: tuple[Problem, ...],
    ) -> Submission:
        facts = self._facts(
            "created",
            action=action,
            uid=jobset.uid,
            manifest_digest=manifest_digest(manifest_of(plan)),
            read_back=self._read_back(plan),
            problems=self.notes,
        )
        return Submission(
            plan=plan,
            action=action,
            jobset=jobset.name,
            uid=jobset.uid,
            record=ref.path,
            problems=(*problems, *self.notes, *self._finish(ref, facts)),
        )

    def _facts(self, outcome: Literal["created", "not-created", "failed"], **facts: Any) -> AttemptFacts:
        return AttemptFacts(outcome=outcome, at=clock.now(), submitter=self.provenance.submitter, **facts)

    def _read_back(self, plan: Planned) -> ReadBack:
        """Return what the cluster now holds of the run. If it cannot be read, that is part of the result, not an
        error.
        """
        stored = None
        with suppress(XsftError):
            stored = self.cluster.get_jobset(name=plan.jobset, namespace=plan.run.namespace)
        if stored is None:
            return ReadBack(outcome="not-read")
        differences = tuple(self.compare(plan, stored))
        return ReadBack(outcome="differs" if differences else "same", differences=differences)

    def _finish(self, ref: RecordRef, facts: AttemptFacts) -> tuple[Problem, ...]:
        """Finish the record. If that fails, the JobSet still exists, so the failure is a warning."""
        try:
            problems = self.store.finish(ref, facts).problems
        except XsftError as failed:
            message = f"The record {ref.path} was started but could not be completed: {failed.clause}."
            problems = (
                warning("record-not-finished", "", message, "Submit again: xsft adopts the run and repeats nothing."),
            )
        return (*problems, *notes.read_back_notes(facts.read_back))

    def _adopt_jobset(self, plan: Planned, jobset: JobSet, facts: ClusterFacts) -> Submission:
        attempt = self.replan(jobset.attempt) if jobset.name != plan.jobset else plan
        path = _record_path(plan, jobset.attempt)
        document = notes.held_by(facts, jobset.uid)
        # Another machine may have created it, or a submitter that was killed before it wrote the index.
        unindexed = self.store.index_found(record_of_found(attempt, self.provenance, jobset), path)
        return Submission(
            plan=notes.as_held(attempt, document),
            action="adopted",
            jobset=jobset.name,
            uid=jobset.uid,
            record=path,
            problems=(*notes.adopted_notes(document), *unindexed),
        )

    def _keep_finished(self, plan: Planned, world: RunHistory, *, steps: int) -> Submission:
        last = max(world.jobsets, key=lambda jobset: jobset.attempt, default=None)
        record = max(world.records, key=lambda record: record.last.number, default=None)
        if last and not (record and record.output):
            record = record_of_found(plan, self.provenance, last)
        path = _record_path(plan, record.last.number) if record else None
        return Submission(
            plan=plan,
            action="finished",
            jobset=last.name if last else None,
            uid=last.uid if last else None,
            record=path if world.records else None,
            steps=steps,
            problems=self.store.index_found(record, path) if record and path else (),
        )


def _decision(plan: Planned, world: RunHistory) -> Decision:
    match plan:
        case Plan():
            return decide(plan.run, world=world)
        case JobPlan():
            return decide_job(plan.run, digest=plan.spec_digest, world=world)


def _record_path(plan: Planned, attempt: int) -> str:
    return f"{attempt_stem(str(plan.run.output), plan.run_name, attempt)}.json"
