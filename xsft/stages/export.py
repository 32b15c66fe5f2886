"""The export stage: on this machine by the program that a pod runs, or on a cluster.

MaxText's to_huggingface, the source model's files, the verification, and the copy to the destination. The record there
is written last.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from xsft.base.acceptance import accept_late
from xsft.base.amounts import size_text
from xsft.base.errors import EnvironmentMissing, UsageError
from xsft.base.lenient import ShowLine
from xsft.base.names import stage_name
from xsft.base.problems import Problem
from xsft.base.reporting import Reporter, hear_nothing
from xsft.base.stage import StageFound, StageName, StagePlan, to_json
from xsft.catalog.weights import model_type
from xsft.checks.cpu_job import check_export_job
from xsft.environments.ask import PROGRAMS
from xsft.environments.installed import BuiltEnvironment
from xsft.launch.local_machine import Machine, engine_environment, maxtext_machine
from xsft.launch.local_run import follow_program
from xsft.launch.recording import StageRun
from xsft.launcher.cpujob import EXPORT_PROGRAM, EXPORTED, CpuJob, export_job, export_notes
from xsft.launcher.server_manifest import BF16_BYTES, weights_bytes
from xsft.machine.filelock import exclusive
from xsft.machine.files import write_atomic
from xsft.machine.memory import memory_bytes
from xsft.machine.paths import hub_token, own_cache, scratch_folder
from xsft.planning import api
from xsft.planning.steps import Intent, JobPlan
from xsft.records import EXPORT_KEY
from xsft.records.record import Record
from xsft.records.record_files import record_store
from xsft.spec.export_inputs import ExportSource, destination
from xsft.spec.paths import relative_paths
from xsft.spec.stages import ExportStage
from xsft.stages.cluster_job import SharedIntent, described_job, plan_job
from xsft.stages.exported import plan_ahead, plan_export
from xsft.stages.once import JobEnd, JobResult, StageHere, StartedJob, do_once, shortages
from xsft.stages.verify import (
    ExportShop,
    environment,
    logits_notes,
    reads_bucket,
    refuse_unreadable,
    verify_logits,
    with_logits,
)
from xsft.weights.estimates import estimate_export
from xsft.weights.export_record import FILE, PROCESS_BYTES, ExportPlan, Verification, logits_memory, verification_text
from xsft.weights.exporter import ExportRequest, TrainedRun

BUCKET = "gs://"
NO_ADAPTERS = "the engine reads no adapters"
OWN_LINE = "xsft: "
"""Start of the program's own lines."""
EXPORTER_ENDED = "MaxText's exporter ended with"
"""How the program says that the exporter failed; the exporter's own last words say more."""

ExportResult = JobResult[ExportPlan]


class ExportWork(Struct, frozen=True, kw_only=True):
    """An export on this machine; a `LocalJob`."""

    look: Callable[[], ExportPlan]
    """Read the files again and return the plan at the destination."""
    machine: Callable[[], Machine]
    say: Callable[[str], None]
    engine: Callable[[], BuiltEnvironment] | None = None
    """Return the engine with which logits are compared; None: only tensors are compared."""
    fix: str = "The whole output: {log}."

    def run_of(self, plan: ExportPlan) -> StageRun:
        """Return its run, whose lock covers every export of the training here."""
        output = plan.output
        if plan.folder != plan.directory:
            output = str(Path(plan.folder).parent.parent)
        inputs = {"directory": plan.directory, **to_builtins(plan.inputs)}
        return StageRun(run_name=plan.run_name, digest=plan.digest, output=output, key=EXPORT_KEY, inputs=inputs)

    def whole(self, plan: ExportPlan) -> JobEnd | None:
        if plan.whole is None:
            return None
        verified = verification_of(plan)
        end = _verified_end(plan, verified)
        # Logits of files that are elsewhere cannot be compared any more.
        if self.engine is None or plan.folder != plan.directory or verified.logits or verified.logits_skipped:
            return end
        return replace(end, left="its logits were not compared")

    def finish(self, plan: ExportPlan, end: JobEnd) -> JobEnd:
        """Compare the logits, and record that. An export whose logits differ no longer counts as complete."""
        assert plan.recorded is not None
        verified = self._with_logits(plan, verification_of(plan))
        end = _verified_end(plan, verified)
        record = replace(plan.recorded, verification=verified, outcome=end.outcome, reason=end.reason)
        write_atomic(Path(plan.directory) / FILE, to_json(record))
        return end

    def unfinished(self, plan: ExportPlan) -> StageFound:
        return export_found(plan, result=plan.writes)

    def hold(self, plan: ExportPlan) -> AbstractContextManager[None]:
        waiting = "another xsft is exporting this run; waiting for it"
        return exclusive(self.run_of(plan).folder.lock, waiting=lambda: self.say(waiting))

    def admit(self, plan: ExportPlan) -> tuple[Problem, ...]:
        refuse_without_room(plan)
        return ()

    def command(self, plan: ExportPlan) -> tuple[str, ...]:
        return plan.argv

    def save_beside(self, plan: ExportPlan, record: Record, end: JobEnd | None) -> None:
        """Write nothing: the program writes the record."""

    def work(self, plan: ExportPlan, attempt: StartedJob) -> JobEnd:
        self.say(f"exporting step {plan.inputs.step} as {plan.inputs.form}")
        machine = attempt.machine
        Path(plan.folder).mkdir(parents=True, exist_ok=True)
        with scratch_folder("export") as scratch:
            notes = export_notes(plan, argv=attempt.argv, logits=self._logits_notes(plan, scratch))
            question = json.dumps({"notes": notes})
            program = (str(machine.python), "-I", str(PROGRAMS / "entry.py"), EXPORT_PROGRAM, question, *attempt.argv)
            inputs = plan.inputs
            read = [inputs.tokenizer]
            if inputs.source is not None:
                read.append(inputs.source.repo)
            # The network is needed for a bucket or the hub; also if tokenizer or source model are there.
            is_remote = bool(inputs.hub) or plan.directory.startswith(BUCKET) or reads_bucket(plan)
            is_online = is_remote or not all(Path(place).is_dir() for place in read)
            env = environment(_shop(plan, machine, scratch), online=is_online)
            argv = (*machine.contain().prefix, *program)

            def show(line: str) -> None:
                if line.startswith(OWN_LINE):
                    self.say(line.removeprefix(OWN_LINE))

            ended = follow_program(argv, name="to_huggingface", env=env, log=attempt.log, on_line=show)
        after = self.look()
        if after.whole:
            if plan.folder != plan.directory:
                shutil.rmtree(plan.folder, ignore_errors=True)  # the destination has them
            return _verified_end(after, verification_of(after))
        reason = ended.why
        record = after.recorded
        if record is not None and record.outcome == "failed" and EXPORTER_ENDED not in str(record.reason):
            reason = str(record.reason)
        return JobEnd(outcome="failed", reason=reason, status=ended.status)

    def _logits_notes(self, plan: ExportPlan, scratch: Path) -> dict[str, Any]:
        if self.engine is None:
            return {}
        why = why_no_logits(plan)
        if why:
            return {"logits_skipped": why}
        return logits_notes(plan, engine=self.engine(), file=scratch / "logits.npz")

    def _with_logits(self, plan: ExportPlan, verified: Verification) -> Verification:
        """Return the verification with the comparison of logits, or the reason why there is none."""
        assert self.engine is not None
        why = why_no_logits(plan)
        if why:
            return replace(verified, logits_skipped=why)
        self.say("comparing logits with the engine's")
        with scratch_folder("export") as scratch:
            shop = _shop(plan, self.machine(), scratch)
            (verdict,) = verify_logits(plan, (Path(plan.folder),), shop, engine=self.engine())
        return with_logits(verified, verdict, dtype=plan.inputs.dtype)


class ExportRoute(Struct, frozen=True, kw_only=True):
    """An export on this machine, and where it goes."""

    trained: TrainedRun
    asked: ExportRequest
    to: str | None = None
    """A folder, gs://… or hf://owner/name; None: beside the training."""

    @property
    def is_remote(self) -> bool:
        hub, output = destination(self.to)
        return hub is not None or (output or self.trained.output).startswith(BUCKET)

    def plan_in(self, folder: str | None) -> ExportPlan:
        """Return the plan at the destination. `folder`: as in `plan_export`, which raises."""
        hub, output = destination(self.to)
        return plan_export(self.trained, replace(self.asked, hub=hub), record_store(), output=output, folder=folder)

    def plan_before(self, step: int, *, folder: str | None = None) -> ExportPlan:
        """Return the plan before the training has saved `step`, as `plan_ahead` does."""
        hub, output = destination(self.to)
        return plan_ahead(self.trained, replace(self.asked, hub=hub), step=step, output=output, folder=folder)

    def plan(self) -> ExportPlan:
        """Return the plan at the destination; files that go elsewhere are written beside the training first, or into
        xsft's cache if that is in a bucket. Raises as `plan_export`."""
        if not self.is_remote:
            return self.plan_in(None)
        digits = hashlib.sha256(self.plan_in(".").directory.encode()).hexdigest()[:12]
        beside = Path(self.trained.output)
        if self.trained.output.startswith(BUCKET):
            beside = own_cache() / "exports"
        return self.plan_in(str(beside / f"{self.trained.run_name}-export" / f"copied-{digits}"))


def exported_here(
    trained: TrainedRun, request: ExportRequest, *, to: str | None, logits: bool, listener: Reporter
) -> ExportResult:
    """Export on this machine, unless it is done. `to`: folder, bucket or repository of the hub; None: beside the run.
    `logits`: also compare logits, computed by an independent engine.

    Raises UsageError if that engine cannot read the model, and as `export_by`.
    """
    route = ExportRoute(trained=trained, asked=request, to=to)
    with listener.working("export") as say:
        return export_by(route, export_work(route, say=say, logits=logits, listener=listener))


def export_work(route: ExportRoute, *, say: Callable[[str], None], logits: bool, listener: Reporter) -> ExportWork:
    engine = None
    if logits:
        engine = partial(engine_environment, listener)
    return ExportWork(look=route.plan, machine=partial(maxtext_machine, listener), say=say, engine=engine)


def export_by(route: ExportRoute, work: ExportWork) -> ExportResult:
    """Return the export at its destination, made if it is missing. `work`: that of `route`. Raises as `do_once`, and
    before anything is exported for an engine that cannot read the model and a hub without a login."""
    plan = work.look()
    if work.engine is not None and plan.inputs.form != "adapters":
        refuse_unreadable(model_type(plan.inputs.model), named=plan.inputs.model, engine=work.engine())
    if route.is_remote and not plan.whole:
        refuse_without_token(plan, env=work.machine().env)
    return do_once(work)


def intended_training(intent: Intent) -> TrainedRun:
    """Return the training of a workload, which may not have begun."""
    source = None
    if intent.run.conversion is not None:
        named = intent.run.conversion.source
        source = ExportSource(repo=named.repo, revision=named.commit or named.revision)
    return TrainedRun(
        run_name=intent.run.run_name,
        spec_digest=intent.spec_digest,
        argv=intent.trainer_argv,
        output=str(intent.run.output).rstrip("/"),
        release=intent.run.release.version,
        tokenizer_name=relative_paths(intent.run.spec).get("model.tokenizer", ""),
        source=source,
    )


def export_found(plan: ExportPlan, *, result: str) -> StageFound:
    """Return the state of an export that no process does, here or on a cluster. `result`: of a complete one."""
    if plan.whole:
        return StageFound(state="done", why=verification_text(verification_of(plan)), result=result)
    if plan.recorded is not None and plan.recorded.outcome == "failed":
        return StageFound(state="failed", why=plan.recorded.reason or "the exporter failed")
    if plan.recorded is not None:
        return StageFound(state="torn", why=plan.why)
    return StageFound(state="missing", why=plan.why)


def verification_of(plan: ExportPlan) -> Verification:
    """Return what the record of the found export says was compared."""
    if plan.recorded is None or plan.recorded.verification is None:
        return Verification()
    return plan.recorded.verification


def refuse_without_token(plan: ExportPlan, *, env: Mapping[str, str]) -> None:
    """Raise EnvironmentMissing, before anything is exported, if the hub would refuse the upload."""
    if plan.inputs.hub and not hub_token(env):
        raise EnvironmentMissing(
            f"Uploading to {plan.writes} needs a login to the Hugging Face hub.",
            fix="Log in with a token that may write: hf auth login. HF_TOKEN is not passed on; HF_TOKEN_PATH is.",
            id="export-token-missing",
        )


def refuse_without_room(plan: ExportPlan) -> None:
    """Raise EnvironmentMissing if the memory or the disk cannot hold the weights once: the export would fail.

    source: maxtext@0.2.5 checkpoint_conversion/to_huggingface.py loads the whole checkpoint.
    """
    size = plan.weights_bytes
    if size is None:
        return
    disk = ((Path(plan.folder), size),)
    for kind, message in shortages(f"Exporting {plan.training}", memory=size + PROCESS_BYTES, disk=disk):
        if kind == "disk":
            fix = "Free some space, or name another folder with --output."
            raise EnvironmentMissing(message, fix=fix, id="export-disk")
        fix = "Export on a larger machine."
        if plan.inputs.weights.startswith(BUCKET):
            fix = "Export on a larger machine, or by a job of the training's cluster: xsft checkpoint export FILE.yaml."
        raise EnvironmentMissing(message, fix=fix, id="export-memory")


def why_no_logits(plan: ExportPlan) -> str:
    """Return why logits cannot be compared on this machine; empty if they can."""
    if plan.inputs.form == "adapters":
        return NO_ADAPTERS
    memory = memory_bytes()
    needs = logits_memory(plan.weights_bytes)
    if memory is None or needs is None or needs <= memory:
        return ""
    takes, has = size_text(needs), size_text(memory)
    return f"comparing logits takes about {takes} of memory, and this machine has {has}; only tensors were compared"


def _verified_end(plan: ExportPlan, verified: Verification) -> JobEnd:
    if not verified.passed:
        return JobEnd(outcome="failed", reason="; ".join(verified.problems), verification=verified)
    return JobEnd(outcome="completed", result=plan.writes, why=verification_text(verified), verification=verified)


def _shop(plan: ExportPlan, machine: Machine, scratch: Path) -> ExportShop:
    return ExportShop(machine=machine, scratch=scratch, logs=Path(plan.folder) / "xsft")


def export_stage(workload: api.LoadedWorkload, *, training: str, listener: Reporter) -> StageHere:
    """Return the export of the last checkpoint on this machine."""
    stage = workload.spec.stages.export or ExportStage()

    def plan() -> StagePlan:
        export = export_route(workload).plan_before(workload.spec.train.steps)
        return StagePlan(name="export", run_name=export.run_name, digest=None, writes=export.writes, argv=export.argv)

    def job(progress: ShowLine) -> ExportWork:
        route = export_route(workload)
        return export_work(route, say=progress, logits=stage.verify == "logits", listener=listener)

    return StageHere(
        name="export",
        run_name=stage_name(run_name=training, stage="export"),
        plan=plan,
        job=job,
        do=lambda progress: export_by(export_route(workload), job(progress)),
    )


def export_route(workload: api.LoadedWorkload) -> ExportRoute:
    """Return what the workload's export stage exports, and where it goes."""
    stage = workload.spec.stages.export or ExportStage()
    (intent,) = api.intend((workload,))
    request = ExportRequest(form=stage.what, step=workload.spec.train.steps)
    to = stage.to and intent.run.located(stage.to)
    return ExportRoute(trained=intended_training(intent), asked=request, to=to)


ITS = ("place", "namespace", "queue", "image", "secrets", "stages", "priority", "output", "env")
"""Sections of a workload whose errors affect an export."""


class ExportJob(Struct, frozen=True, kw_only=True):
    """Export of a checkpoint by a CPU job of the workload's cluster; a `ClusterJob`."""

    intent: SharedIntent
    request: ExportRequest
    to: str | None
    """gs://…, a folder that pods mount, or hf://owner/name; None: beside the training."""
    name: StageName = "export"

    def ahead(self) -> StagePlan:
        """Return the plan as it is before the training: the digits of the folder's name come with the checkpoint."""
        stage = self.intent.workload.spec.stages.export
        if stage and stage.verify == "logits":
            raise no_logits()
        export = self._route().plan_before(self.intent.workload.spec.train.steps, folder=EXPORTED)
        return replace(described_job(self._planned(export, hear_nothing), name=self.name), digest=None)

    def look(self) -> ExportPlan:
        return self._route().plan_in(EXPORTED)

    def _route(self) -> ExportRoute:
        return ExportRoute(trained=intended_training(self.intent.now()), asked=self.request, to=self.to)

    def found(self, plan: ExportPlan) -> StageFound:
        return replace(export_found(plan, result=plan.served), digest=plan.digest)

    def recorded_name(self, plan: ExportPlan) -> str:
        return plan.run_name

    def ready(self, progress: ShowLine, *, is_sent: bool) -> tuple[ExportPlan, JobPlan[CpuJob]]:
        del is_sent  # it takes no claim
        plan = self.look()
        return plan, self._planned(plan, progress)

    def show_end(self, plan: ExportPlan) -> None:
        """Show nothing: the report of the stage names the folder."""

    def _planned(self, export: ExportPlan, progress: ShowLine) -> JobPlan[CpuJob]:
        """Return the plan of the CPU job. Raises SpecError if an error of the workload forbids it."""
        intent, file = self.intent.now(), self.intent.workload.file
        run = intent.run
        of_workload = tuple(p for p in intent.problems if p.kind != "unmade" and p.is_in(ITS))
        size = weights_bytes(run)
        parameters = None
        if size:
            parameters = size // BF16_BYTES
        needs = estimate_export(export.inputs, parameters=parameters, weights_bytes=export.weights_bytes)
        late = accept_late(check_export_job(export, run, needs), run.spec.checks)
        admitted = api.admitted_problems([problem.in_file(file) for problem in (*of_workload, *late)])
        assert needs is not None  # else `export-size`, an error
        return plan_job(export_job(export, run, needs), file=file, problems=admitted, progress=progress)


def staged_export(intent: SharedIntent) -> ExportJob:
    """Return the export of the workload's last checkpoint, as its stage says."""
    stage = intent.workload.spec.stages.export or ExportStage()
    request = ExportRequest(form=stage.what, step=intent.workload.spec.train.steps)
    return ExportJob(intent=intent, request=request, to=stage.to)


def no_logits() -> UsageError:
    return UsageError(
        "The image of a cluster has no second engine: an export there is verified by its tensors only.",
        fix="Leave --verify logits out; or export here, to a folder: --output FOLDER --verify logits.",
        id="export-logits-cluster",
    )
