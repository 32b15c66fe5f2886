"""The evaluate stage, on this machine and on a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.aliases import ShowLine
from xsft.base.amounts import duration_text
from xsft.base.errors import refuse_errors
from xsft.base.names import stage_name
from xsft.base.reporting import Reporter
from xsft.base.stage import StageFound, StageName, StagePlan
from xsft.evaluation.inputs import EvaluationPlan
from xsft.evaluation.trainer_plan import stage_plan
from xsft.launch.local_machine import maxtext_machine
from xsft.launcher.slicejob import SliceJob, evaluation_job
from xsft.planning import api
from xsft.planning.steps import JobPlan
from xsft.records.record_files import record_store
from xsft.spec.stages import EvaluateStage
from xsft.stages.cluster_job import SharedIntent, plan_job
from xsft.stages.evaluate import LocalEvaluation, existing_evaluation
from xsft.stages.evaluate_plan import plan_evaluate, read_report
from xsft.stages.once import JobResult, StageHere, do_once
from xsft.trainer.local import reads_only_files


def evaluate_stage(workload: api.LoadedWorkload, *, training: str, listener: Reporter) -> StageHere:
    """Return the evaluation of the training on this machine."""

    def evaluation_plan() -> EvaluationPlan:
        (intent,) = api.intend((workload,))
        return plan_evaluate(intent.run, digest=intent.spec_digest, file=Path(workload.file))

    def job(progress: ShowLine) -> LocalEvaluation:
        (intent,) = api.intend((workload,))
        online = not reads_only_files(intent.run)
        machine = partial(maxtext_machine, listener)
        return LocalEvaluation(look=evaluation_plan, machine=machine, progress=progress, online=online)

    def do(progress: ShowLine) -> JobResult[EvaluationPlan]:
        done = do_once(job(progress))
        evaluation = existing_evaluation(done.plan)
        if done.action != "finished" and evaluation is not None:
            listener.tell(evaluation.report)
        return done

    return StageHere(
        name="evaluate",
        run_name=stage_name(run_name=training, stage="evaluate"),
        plan=lambda: stage_plan(evaluation_plan()),
        job=job,
        do=do,
    )


class EvaluationJob(Struct, frozen=True, kw_only=True):
    """Evaluation of the training on its own slices; a `ClusterJob`."""

    intent: SharedIntent
    listener: Reporter
    name: StageName = "evaluate"

    def ahead(self) -> StagePlan:
        plan = self.look()
        with self.listener.working("xsft") as progress:
            made = self._planned(plan, progress)
        shown_plan = stage_plan(plan, notes=tuple(_takes(made)))
        return replace(shown_plan, xpk_argv=made.xpk_argv, manifest=made.manifest, problems=made.problems)

    def look(self) -> EvaluationPlan:
        intent = self.intent.now()
        return plan_evaluate(intent.run, digest=intent.spec_digest, file=Path(self.intent.workload.file))

    def found(self, plan: EvaluationPlan) -> StageFound:
        report = read_report(plan, store=record_store())
        if report is None:
            why = "these weights were not measured with these prompts and rules"
            return StageFound(state="missing", why=why, digest=plan.digest)
        judgement = report.judgement
        return StageFound(
            state="done",
            why=f"verdict {judgement.summary}",
            result=plan.result,
            verdict=judgement.verdict,
            digest=plan.digest,
        )

    def recorded_name(self, plan: EvaluationPlan) -> str:
        return plan.run_name

    def ready(self, progress: ShowLine, *, is_sent: bool) -> tuple[EvaluationPlan, JobPlan[SliceJob]]:
        plan = self.look()
        made = self._planned(plan, progress)
        if is_sent:
            refuse_errors(made.problems)
        return plan, made

    def show_end(self, plan: EvaluationPlan) -> None:
        report = read_report(plan, store=record_store())
        if report is not None:
            self.listener.tell(report)

    def _planned(self, plan: EvaluationPlan, progress: ShowLine) -> JobPlan[SliceJob]:
        """Return the plan of the job on the workload's slices. Raises SpecError if its command cannot be sent."""
        run = self.intent.now().run
        stage = run.spec.stages.evaluate or EvaluateStage()
        job = evaluation_job(plan, run, limit_s=stage.limit_s)
        return plan_job(job, file=self.intent.workload.file, problems=(), progress=progress)


def _takes(made: JobPlan[SliceJob]) -> Iterator[str]:
    """Yield which slices the evaluation takes, for how long at most, and where its program comes from."""
    run, limit = made.run, duration_text(made.job.limit_s)
    described = run.slice.xpk_type if run.slice else "?"
    yield f"{run.chips} chips ({run.num_slices} x {described}) for at most {limit} from the start of its pods"
    if run.spec.restarts.max:
        yield f"a preemption restarts it, with the same limit, at most {run.spec.restarts.max} times"
    if made.job.is_carried:
        yield f"the image carries its program, sha256 {made.job.program[:12]}"
    else:
        yield "its program is sent with the command: the image's lock does not name this version (make image push)"
