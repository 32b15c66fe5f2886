"""The evaluate stage, on this machine and on a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from xsft.base.aliases import ShowLine
from xsft.base.amounts import duration_text
from xsft.base.errors import RunFailed, Unknown, refuse_errors
from xsft.base.names import stage_name
from xsft.base.reporting import Reporter
from xsft.base.stage import StageEnd, StageFound, StageName, StagePlan
from xsft.evaluation.plan import EvaluationPlan
from xsft.evaluation.trainer_plan import stage_plan
from xsft.launch.local_machine import maxtext_machine
from xsft.launcher.slicejob import SliceJob
from xsft.planning import api
from xsft.planning.steps import JobPlan
from xsft.records.record_files import record_store
from xsft.stages import jobs
from xsft.stages.cluster_stages import ClusterStage
from xsft.stages.evaluate import LocalEvaluation, existing_evaluation
from xsft.stages.evaluate_plan import plan_evaluate
from xsft.stages.evaluation_end import read_report, record_end
from xsft.stages.local_stages import StageHere
from xsft.stages.once import JobResult, do_once
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


class EvaluateOnCluster(ClusterStage):
    """Evaluation of the training on its own slices."""

    name: StageName = "evaluate"

    def plan(self) -> StagePlan:
        plan = self._plan()
        with self.call.listener.working("xsft") as progress:
            made = self._job(plan, progress)
        shown_plan = stage_plan(plan, notes=tuple(_takes(made)))
        return replace(shown_plan, xpk_argv=made.xpk_argv, manifest=made.manifest, problems=made.problems)

    def find(self) -> StageFound:
        """Return whether its result exists, which the first call that finds it judges; the cluster is not asked."""
        plan, store = self._plan(), record_store()
        report = read_report(plan, store=store)
        if report is None:
            why = "these weights were not measured with these prompts and rules"
            return StageFound(state="missing", why=why, digest=plan.digest)
        self.call.listener.warn(record_end(plan, report, store=store))
        judgement = report.judgement
        return StageFound(
            state="done",
            why=f"verdict {judgement.summary}",
            result=plan.result,
            verdict=judgement.verdict,
            digest=plan.digest,
        )

    def perform(self, progress: ShowLine) -> StageEnd:
        made = self._job(self._plan(), progress)
        refuse_errors(made.problems)
        why = "these weights were not measured with these prompts and rules"
        return self.submit(made, connect=partial(jobs.submitter_for, made), why=why)

    def watch(self, timeout_s: float | None) -> None:
        """Wait for the job's end, and print the table; a job that failed after it wrote its result is done."""
        if self.done is None:
            return
        failed: RunFailed | Unknown | None = None
        try:
            super().watch(timeout_s)
        except (RunFailed, Unknown) as ended:
            failed = ended
        plan = self._plan()
        report = read_report(plan, store=record_store())
        if report is not None:
            self.call.listener.tell(report)
        elif failed is not None:
            self.record_end(plan.output, plan.run_name, failed=failed.message)
            raise failed

    def _job(self, plan: EvaluationPlan, progress: ShowLine) -> JobPlan[SliceJob]:
        run, file = self.asked.now().run, self.asked.workload.file
        return jobs.plan_evaluation(plan, run, file=file, progress=progress)

    def _plan(self) -> EvaluationPlan:
        intent = self.asked.now()
        return plan_evaluate(intent.run, digest=intent.spec_digest, file=Path(self.asked.workload.file))


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
