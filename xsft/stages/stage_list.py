"""The stages that a workload has, each as this machine or its cluster does it, and their plans; the training is defined
here, by what `submit` does.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.errors import AlreadyRunning, XsftError
from xsft.base.lenient import ShowLine
from xsft.base.names import stage_name
from xsft.base.reporting import Reporter
from xsft.base.stage import Stage, StageEnd, StageFound, StageName, StagePlan, StageState, stage_action
from xsft.launch.local_folder import RunFolder, recorded_run, recover_losses, run_folder_of
from xsft.launch.local_machine import Machine
from xsft.launch.local_run import LocalResult, TrainedHere, already_done, failure, next_step, train_here
from xsft.machine.filelock import is_held
from xsft.machine.objects import latest_step
from xsft.planning import api
from xsft.planning.api import LoadedWorkload
from xsft.planning.steps import Intent, Plan
from xsft.records.record_files import record_store
from xsft.runs.rows import is_worthless
from xsft.stages.cluster_job import ClusterCall, SharedIntent, StageOnCluster
from xsft.stages.convert_stage import ConversionJob, convert_stage
from xsft.stages.evaluate import EvaluationJob, evaluate_stage
from xsft.stages.export import export_stage, staged_export
from xsft.stages.once import watch_here
from xsft.stages.serve_here import ServeHere
from xsft.stages.serve_on_cluster import ServeOnCluster


def stages_of(
    workload: LoadedWorkload, *, run_name: str, call: ClusterCall, known: Intent | None = None
) -> tuple[Stage, ...]:
    """Return the stages of a workload. `run_name`: of the training. `known`: what it asks for, if that was gathered."""
    if workload.spec.on_this_machine:
        return tuple(_stage_here(name, workload, run_name, call.listener) for name in workload.spec.stage_names)
    shared = SharedIntent(workload, known=known)
    return tuple(_on_cluster(name, shared, run_name, call) for name in workload.spec.stage_names)


def _stage_here(name: StageName, workload: LoadedWorkload, run_name: str, listener: Reporter) -> Stage:
    match name:
        case "convert":
            return convert_stage(workload, training=run_name, listener=listener)
        case "train":
            return TrainHere(workload, run_name=run_name, listener=listener)
        case "evaluate":
            return evaluate_stage(workload, training=run_name, listener=listener)
        case "export":
            return export_stage(workload, training=run_name, listener=listener)
        case "serve":
            return ServeHere(workload=workload, run_name=stage_name(run_name=run_name, stage="serve"))


def _on_cluster(name: StageName, intent: SharedIntent, run_name: str, call: ClusterCall) -> Stage:
    match name:
        case "convert":
            return StageOnCluster(ConversionJob(intent=intent, listener=call.listener), training=run_name, call=call)
        case "train":
            return StageOnCluster(TrainJob(intent=intent), training=run_name, call=call)
        case "evaluate":
            return StageOnCluster(EvaluationJob(intent=intent, listener=call.listener), training=run_name, call=call)
        case "export":
            return StageOnCluster(staged_export(intent), training=run_name, call=call)
        case "serve":
            exported = _on_cluster("export", intent, run_name, call)
            return ServeOnCluster(intent, exported=exported, training=run_name, call=call)


def plan_stages(workload: LoadedWorkload, *, intent: Intent, run_name: str) -> tuple[StagePlan, ...]:
    """Return the plans of all stages but the training, in order."""
    call = ClusterCall(ask=None, poll_s=0.0, listener=Reporter())
    stages = stages_of(workload, run_name=run_name, call=call, known=intent)
    return tuple(_plan_stage(stage) for stage in stages if stage.name != "train")


def _plan_stage(stage: Stage) -> StagePlan:
    """Return the stage's plan; without `writes` and with its problems if it cannot be planned."""
    try:
        return stage.plan()
    except XsftError as failed:
        return StagePlan(
            name=stage.name, run_name=stage.run_name, digest=None, writes=None, problems=tuple(failed.problems)
        )


class TrainHere:
    """Training on this machine."""

    name: StageName = "train"

    def __init__(
        self, workload: api.LoadedWorkload, *, run_name: str, listener: Reporter, machine: Machine | None = None
    ) -> None:
        self._workload, self._listener, self._machine = workload, listener, machine
        self.run_name = run_name

    def plan(self) -> StagePlan:
        return training_plan(self._plan())

    def find(self) -> StageFound:
        plan = self._plan()
        folder = run_folder_of(plan)
        return replace(_find_training(plan, folder), digest=plan.spec_digest)

    def perform(self, progress: ShowLine) -> StageEnd:
        del progress  # the stage has a display of its own
        plan = self._plan()
        self._listener.warn(p for p in api.accepted_problems(plan) if p.severity == "warning")
        try:
            result, picture = train_here(plan, machine=self._machine, listener=self._listener)
        except AlreadyRunning as running:
            return StageEnd(action="adopted", state="running", why=running.message)
        self._listener.tell(TrainedHere(plan=plan, result=result, picture=picture))
        return _training_end(result)

    def watch(self, timeout_s: float | None) -> None:
        plan = self._plan()
        watch_here(output=str(run_folder_of(plan).path.parent), run_name=plan.run_name, timeout_s=timeout_s)

    def _plan(self) -> Plan:
        return api.plan((self._workload,))[0]


def training_plan(plan: Plan) -> StagePlan:
    """Return the plan of the training as one of the stages; `xsft plan` shows the rest of it."""
    return StagePlan(
        name="train",
        run_name=plan.run_name,
        digest=plan.spec_digest,
        writes=f"{str(plan.run.output).rstrip('/')}/{plan.run_name}/checkpoints",
        argv=plan.trainer_argv,
        xpk_argv=plan.xpk_argv,
        manifest=plan.manifest,
    )


def _find_training(plan: Plan, folder: RunFolder) -> StageFound:
    if is_held(folder.lock):
        return StageFound(state="running", why="another xsft process is training it")
    done = already_done(plan)
    if done is None:
        return _untrained_stage(folder)
    if done.outcome != "completed":
        return StageFound(state="failed", why=done.reason or "it did not complete")
    return StageFound(state="done", why=f"its checkpoint of step {done.steps} is saved", result=_result(done))


def _result(done: LocalResult) -> str | None:
    if not done.checkpoints:
        return None
    return str(done.checkpoints[-1])


def _untrained_stage(folder: RunFolder) -> StageFound:
    record = recorded_run(folder)
    if record is None or not record.attempts:
        return StageFound(state="missing", why="no attempt is recorded")
    last = recover_losses(record, folder).attempts[-1]
    state: StageState = "failed"
    if record.outcome == "running":
        state = "torn"
    reason = last.reason or "it did not complete"
    step = folder.latest_step()
    saved = "no checkpoint was saved"
    if step:
        saved = f"its checkpoint of step {step} is saved"
    return StageFound(state=state, why=f"attempt {last.number}: {reason}; {saved}")


def _training_end(result: LocalResult) -> StageEnd:
    action = stage_action(result.action)
    if result.outcome == "completed":
        why = f"its checkpoint of step {result.steps} is saved"
        return StageEnd(action=action, state="done", why=why, result=_result(result))
    return StageEnd(
        action=action,
        state="failed",
        why=failure(result).partition(": ")[2],
        fix=next_step(result),
        interrupted=result.outcome == "interrupted",
    )


class TrainJob(Struct, frozen=True, kw_only=True):
    """Training on the workload's slices; a `ClusterJob`."""

    intent: SharedIntent
    name: StageName = "train"

    def ahead(self) -> StagePlan:
        return training_plan(api.plan((self.intent.workload,))[0])

    def look(self) -> Intent:
        return self.intent.now()

    def found(self, plan: Intent) -> StageFound:
        """Return whether the last checkpoint is saved by this very workload."""
        run, digest, store = plan.run, plan.spec_digest, record_store()
        output = str(run.output)
        step = latest_step(store.objects_at(output), output=output, run_name=run.run_name)
        if step is None:
            return StageFound(state="missing", why="no checkpoint is saved", digest=digest)
        records = store.read_run(output, run.run_name)
        is_same = bool(records) and records[-1].spec_digest == digest
        steps = run.spec.train.steps
        if step < steps or not is_same or is_worthless(records[-1].last.state_reason):
            why = f"its last checkpoint is step {step} of {steps}"
            return StageFound(state="missing", why=why, digest=digest)
        saved = f"{output.rstrip('/')}/{run.run_name}/checkpoints/{step}"
        return StageFound(state="done", why=f"its checkpoint of step {step} is saved", result=saved, digest=digest)

    def recorded_name(self, plan: Intent) -> None:
        """Return None: the records of a training are those of its submissions."""

    def ready(self, progress: ShowLine, *, is_sent: bool) -> tuple[Intent, Plan]:
        (plan,) = api.plan((self.intent.workload,), progress=progress)
        if is_sent:
            api.accepted_problems(plan)
        return self.intent.now(), plan

    def show_end(self, plan: Intent) -> None:
        """Show nothing: its state was shown while it was waited for."""
