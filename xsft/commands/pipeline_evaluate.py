"""The evaluate stage on this machine."""

from __future__ import annotations

import sys
from pathlib import Path

from xsft import api
from xsft.aliases import ShowLine
from xsft.commands import convert
from xsft.commands.evaluation_text import print_evaluation
from xsft.commands.pipeline_here import watch_here
from xsft.effects.local import evaluate
from xsft.effects.local.evaluate import LocalEvaluation
from xsft.effects.local.evaluate_folder import existing
from xsft.effects.local.evaluate_plan import plan_evaluate
from xsft.effects.local.machine import Machine
from xsft.errors import SpecError
from xsft.evaluation.plan import EvaluationPlan
from xsft.naming import stage_name
from xsft.stages.stage import StageEnd, StageFound, StageName, StagePlan
from xsft.steps import Intent
from xsft.trainers.evaluation import stage_plan, unfit
from xsft.trainers.local import reads_only_files


class EvaluateHere:
    """Evaluation of the training on this machine."""

    name: StageName = "evaluate"

    def __init__(self, workload: api.Loaded, *, training: str, machine: Machine | None = None) -> None:
        self._workload, self._machine = workload, machine
        self.run_name = stage_name(run_name=training, stage=self.name)

    @property
    def digest(self) -> str:
        return self._plan().digest

    def plan(self) -> StagePlan:
        return stage_plan(self._plan())

    def find(self) -> StageFound:
        return evaluate.found(self._plan())

    def perform(self, progress: ShowLine) -> StageEnd:
        plan, intent = self._plan(), self._intent()
        asked = LocalEvaluation(
            plan=plan,
            machine=lambda: self._machine or convert.machine(),
            progress=progress,
            online=not reads_only_files(intent.run),
        )
        end = evaluate.perform(asked)
        made = existing(plan)
        if end.action != "done" and made is not None:
            print_evaluation(made.report, stream=sys.stderr)
        return end

    def watch(self, timeout_s: float | None) -> None:
        plan = self._plan()
        watch_here(output=plan.output, run_name=plan.run_name, timeout_s=timeout_s)

    def _plan(self) -> EvaluationPlan:
        intent = self._intent()
        return plan_evaluate(intent.run, digest=intent.spec_digest, file=Path(self._workload.file))

    def _intent(self) -> Intent:
        return api.intend((self._workload,))[0]


def evaluation_refused(workload: api.Loaded) -> SpecError:
    """Return the error of an evaluate stage that a cluster would have to do, with the reason."""
    run = api.intend((workload,))[0].run
    return SpecError(tuple(problem.in_file(str(workload.file)) for problem in unfit(run)))
