"""The convert stage, on this machine and on a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.acceptance import accept_late
from xsft.base.errors import Unreachable, UsageError, refuse_errors
from xsft.base.lenient import ShowLine
from xsft.base.names import stage_name
from xsft.base.problems import Problem, warning
from xsft.base.reporting import Activity, Reporter
from xsft.base.stage import StageFound, StageName, StagePlan
from xsft.catalog.releases import DEFAULT
from xsft.checks.cpu_job import check_conversion_job
from xsft.environments import environments
from xsft.launch.local_machine import maxtext_machine
from xsft.launch.submission import Submission
from xsft.launcher.cpujob import CpuJob, conversion_job
from xsft.machine import clock
from xsft.machine.paths import hub_token, own_cache
from xsft.machine.process import own_environment
from xsft.machine.storage import watch_growth
from xsft.planning import api, gather
from xsft.planning.hub import read_repository, read_token
from xsft.planning.hub_reader import answered_reader
from xsft.planning.steps import Intent, JobPlan
from xsft.records.record_files import record_store
from xsft.spec.conversion_inputs import BRANCH
from xsft.spec.facts import SourceFacts
from xsft.spec.resolve import Run, resolve
from xsft.stages.cluster_job import SharedIntent, cpu_job_of, described_job, plan_job
from xsft.stages.convert import Conversion, ConversionResult, conversion_found
from xsft.stages.once import StageHere, do_once, read_claim, take_claim, under_claim
from xsft.stages.verify import ConversionVerifier
from xsft.weights.conversion_plan import BytesDone, ConversionPlan
from xsft.weights.weights_folder import read_folder

NOT_OF_JOBS = ("data", "train", "eval", "lora", "parallelism", "tpu", "restarts", "pathways", "name", "model.tokenizer")
"""Sections of a workload whose errors do not affect a conversion on a cluster."""
NOT_OURS = ("data", "train", "eval", "lora", "parallelism", "tpu", "restarts", "image.ref", "image.name", "queue")
"""Sections whose errors do not affect a conversion on this machine."""


def converted_here(workload: api.LoadedWorkload, listener: Reporter) -> ConversionResult:
    """Convert on this machine, unless it is done. Raises as `look` and `convert_now` do."""
    run, _ = resolve(workload.spec, gather.facts_here(workload.spec, file=workload.file, today=clock.today()))
    if run.conversion is not None and run.conversion.source.is_folder:
        # Its digest is cached for all later looks.
        with listener.display(ReadingWeights()) as display:

            def on_read(done: int, of: int) -> None:
                display(BytesDone(doing="reading", done=done, of=of, at=clock.monotonic()))

            read_folder(run.conversion.source.repo, cache=own_cache(), on_read=on_read)
    with listener.waiting("convert", "looking for an earlier conversion"):
        plan, problems = look(workload)
    if plan.whole is None and plan.inputs.release != DEFAULT:  # the record would name the wrong one
        raise UsageError(
            f"the workload needs MaxText {plan.inputs.release}, but this machine converts with {DEFAULT}.",
            fix=f"Write image.maxtext: {DEFAULT}, or convert in the workload's image and name model.checkpoint.",
            id="conversion-release",
        )
    listener.warn(p for p in problems if p.severity == "warning" and p.kind != "unmade")
    return convert_now(workload, plan, listener)


class ReadingWeights(Activity, frozen=True):
    """Activity: a folder of weights is read once for its digest. The activity of a conversion is its plan."""


def convert_stage(workload: api.LoadedWorkload, *, training: str, listener: Reporter) -> StageHere:
    """Return the conversion of the workload's weights."""

    def plan() -> StagePlan:
        conversion, _ = look(workload)
        return StagePlan(
            name="convert",
            run_name=conversion.run_name,
            digest=conversion.digest,
            writes=conversion.checkpoint,
            argv=conversion.argv,
        )

    return StageHere(
        name="convert",
        run_name=stage_name(run_name=training, stage="convert"),
        plan=plan,
        job=lambda _progress: conversion_of(workload, listener),
        do=lambda _progress: converted_here(workload, listener),  # it has a display of its own
    )


class ConversionJob(Struct, frozen=True, kw_only=True):
    """Conversion of the workload's weights by a CPU job of its cluster; a `ClusterJob`."""

    intent: SharedIntent
    listener: Reporter
    on_tpu: bool = False
    """Whether it takes a slice, of which only the first host works."""
    name: StageName = "convert"

    def ahead(self) -> StagePlan:
        intent = self.intent.now()
        workload = self.intent.workload
        conversion = planned_conversion(workload, intent)  # the hub is asked when the conversion is submitted
        with self.listener.working("xsft") as progress:
            plan = plan_conversion(conversion, intent.run, file=workload.file, problems=(), progress=progress)
        return described_job(plan, name=self.name)

    def look(self) -> ConversionPlan:
        """Return the conversion under the name of the run that makes it, which another workload may have begun."""
        conversion = planned_conversion(self.intent.workload, self.intent.now())
        return under_claim(conversion, read_claim(record_store(), conversion))

    def found(self, plan: ConversionPlan) -> StageFound:
        return conversion_found(plan)

    def recorded_name(self, plan: ConversionPlan) -> str:
        return plan.run_name

    def ready(self, progress: ShowLine, *, is_sent: bool) -> tuple[ConversionPlan, JobPlan[CpuJob]]:
        store = record_store()
        workload = self.intent.workload
        intent = self.intent.now()
        planned = planned_conversion(workload, intent)
        problems: tuple[Problem, ...] = ()
        if planned.whole is None and not planned.inputs.source.is_folder:
            # Only a conversion that is submitted fixes the commit of its weights.
            has_secret = workload.spec.secrets.hf_token is not None
            source, problems = read_source_for_pods(planned, self.listener, has_secret=has_secret)
            (intent,) = api.intend((workload,), hub=answered_reader(source))
            planned = planned_conversion(workload, intent)
        problems = (*intent.problems, *problems)
        conversion = under_claim(planned, read_claim(store, planned))
        plan_of = partial(
            plan_conversion,
            run=intent.run,
            file=workload.file,
            problems=problems,
            progress=progress,
            on_tpu=self.on_tpu,
        )
        plan = plan_of(conversion)
        if not is_sent:
            return conversion, plan
        claim = take_claim(store, conversion)
        if claim.run_name != conversion.run_name:  # another caller submitted it after the plan was made
            conversion = under_claim(conversion, claim)
            plan = plan_of(conversion)
        if claim.training != intent.run.run_name:
            begun = f"begun for {claim.training} by {claim.user or 'unknown'} at {claim.at or 'unknown'}"
            self.listener.say(
                f"{claim.run_name}, {begun}, is the conversion of these weights into this output: this call joins it"
            )
        return conversion, plan

    def show_end(self, plan: ConversionPlan) -> None:
        """Show nothing: the report of the stage names the checkpoint."""


def plan_conversion(
    conversion: ConversionPlan,
    run: Run,
    *,
    file: str,
    problems: tuple[Problem, ...],
    progress: ShowLine,
    on_tpu: bool = False,
) -> JobPlan[CpuJob]:
    """Return the plan of the CPU job of a workload's conversion. `problems`: of the workload, strict as a submission
    is. `on_tpu`: on the first host of one slice of the workload's TPU type, which is taken whole.

    Raises SpecError if an error forbids it, Unreachable if it is unknown whether it was converted before.
    """
    ignored = tuple(section for section in NOT_OF_JOBS if not (on_tpu and section == "tpu"))
    of_workload = tuple(p for p in problems if p.kind != "unmade" and not p.is_in(ignored))
    late = accept_late(check_conversion_job(conversion, run, on_tpu=on_tpu), run.spec.checks)
    admitted = api.admitted_problems([problem.in_file(file) for problem in (*of_workload, *late)])
    assert conversion.estimate is not None  # else `conversion-size`, an error
    job = conversion_job(conversion, run, conversion.estimate, on_tpu=on_tpu)
    return plan_job(job, file=file, problems=admitted, progress=progress)


class ConvertingOnCluster(Activity, frozen=True):
    """Activity: a conversion on a cluster is waited for."""


@contextmanager
def show_conversion(plan: ConversionPlan, done: Submission, *, listener: Reporter) -> Iterator[ShowLine]:
    """Show the bytes that the job has written; yield the function that shows a line of its log."""
    size_of_all = plan.estimate.output if plan.estimate else None
    with listener.display(ConvertingOnCluster()) as display:

        def on_size(size: int) -> None:
            display(BytesDone(done=size, of=size_of_all, at=clock.monotonic()))

        with watch_growth(cpu_job_of(done).writes.removesuffix("/0/items"), on_size=on_size):
            yield display


def read_source_for_pods(
    plan: ConversionPlan, listener: Reporter, *, has_secret: bool
) -> tuple[SourceFacts | None, tuple[Problem, ...]]:
    """Return what the hub says of the weights that a pod will read; the pod's Secret may give access that this machine
    lacks."""
    try:
        source = ask_hub(plan, listener)
    except Unreachable as failed:
        return None, (_not_asked(failed.clause),)
    if source is not None and source.commit is None and source.problems and has_secret:
        return None, (_not_asked(source.problems[0].message),)
    return source, ()


def _not_asked(why: str) -> Problem:
    message = f"Unknown: whether the weights are quantised. No commit is pinned. {why}"
    fix = (
        "The pod asks the hub again, with the workload's Secret. Set model.hf.revision to a commit to pin the weights."
    )
    return warning("hub-not-asked", "model.hf.repo", message, fix)


def look(workload: api.LoadedWorkload, source: SourceFacts | None = None) -> tuple[ConversionPlan, tuple[Problem, ...]]:
    """Return what is converted and what exists already, and the other problems.

    Raises SpecError if errors forbid the conversion, Unreachable if the output cannot be read.
    """
    (intent,) = api.intend((workload,), hub=answered_reader(source))
    problems = tuple(p.in_file(workload.file) for p in intent.problems if not p.is_in(NOT_OURS))
    plan = planned_conversion(workload, intent)
    refuse_errors(problems)
    if plan.unread:  # it may exist already: do not convert twice
        message = f"{plan.first} could not be read, so these weights may be converted already: {plan.why_not}"
        raise Unreachable(message, fix="Make it readable from here, then convert.", id="checkpoint-unread")
    return plan, problems


def planned_conversion(workload: api.LoadedWorkload, intent: Intent) -> ConversionPlan:
    """Return the planned conversion. Raises UsageError for a workload without Hugging Face weights."""
    if intent.conversion is None:
        raise UsageError(
            f"{workload.file} names no Hugging Face weights: there is nothing to convert.",
            fix="Set model.hf: {repo: owner/name}; a model.checkpoint is converted already.",
        )
    return intent.conversion


def ask_hub(plan: ConversionPlan, listener: Reporter) -> SourceFacts | None:
    """Return what the hub says now; None for a folder. Raises Unreachable if it does not answer and there is no
    converted checkpoint."""
    if plan.inputs.source.is_folder:
        return None
    env = own_environment()
    token = read_token(hub_token(env).get("HF_TOKEN_PATH"))
    try:
        with listener.waiting("convert", f"asking the hub about {plan.inputs.source.repo}"):
            return read_repository(plan.inputs.source, env=env, token=token)
    except Unreachable:
        if plan.whole:
            return None
        raise


def moved_warning(plan: ConversionPlan, source: SourceFacts | None) -> tuple[Problem, ...]:
    """Return a warning if the branch or tag points to other weights than those that were converted."""
    if plan.whole is None or plan.recorded is None or source is None:
        return ()
    then = plan.recorded.commit
    now = source.commit
    if then is None or now is None or then == now:
        return ()
    named = plan.inputs.source.revision or BRANCH
    message = f"{plan.inputs.source.repo} was converted at commit {then}; {named} is {now} now."
    fix = f"To train from the newer weights, name them: model.hf.revision: {now}."
    return (warning("hf-revision-moved", "model.hf.revision", message, fix),)


def convert_now(workload: api.LoadedWorkload, plan: ConversionPlan, listener: Reporter) -> ConversionResult:
    source = None
    if not plan.whole or not plan.inputs.source.pinned:
        source = ask_hub(plan, listener)
    listener.warn(moved_warning(plan, source))
    if plan.whole:
        source = None
    else:
        look(workload, source)  # raises an error if the hub's answer forbids it
    with listener.display(plan) as display:
        conversion = replace(
            conversion_of(workload, listener, source),
            on_event=display,
            waiting=lambda: listener.say("another xsft is converting these weights; waiting for it"),
        )
        return do_once(conversion)


def conversion_of(workload: api.LoadedWorkload, listener: Reporter, source: SourceFacts | None = None) -> Conversion:
    """Return the conversion of the workload's weights, which shows nothing. `source`: the hub's answer."""
    machine = partial(maxtext_machine, listener)

    def verify(plan: ConversionPlan) -> str:
        (intent,) = api.intend((workload,))
        engine = environments.find_environment("engine")
        return ConversionVerifier(machine=machine, trainer_argv=intent.trainer_argv, engine=engine).verify(plan)

    return Conversion(
        look=lambda: look(workload, source)[0],
        machine=machine,
        verify=verify,
        cache=own_cache(),
        on_event=lambda _event: None,
        waiting=lambda: None,
        accepted=workload.spec.checks,
    )
