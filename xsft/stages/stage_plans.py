"""Plan workloads with their stages."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from xsft.base.lenient import ShowLine
from xsft.base.problems import Problem
from xsft.base.stage import StagePlan
from xsft.planning import api
from xsft.planning.steps import Intent, Plan


class PlannedFiles(Struct, frozen=True, kw_only=True):
    """The plans of several files."""

    plans: tuple[Plan, ...]
    stages: tuple[tuple[StagePlan, ...], ...]
    """The stages of each plan, without the training."""
    unread: tuple[Problem, ...]
    """Problems of the files that could not be read."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        return (*self.unread, *(p for plan in self.plans for p in plan.problems))


def plan_files(
    files: Sequence[str], *, settings: Sequence[str], run_name: str | None, offline: bool, progress: ShowLine
) -> PlannedFiles:
    """Return the plans of the files that can be read, and what the others lack. Raises as `api.plan_intents`."""
    loaded, unread = api.load_each(files, settings=settings, run_name=run_name, offline=offline)
    intents = api.intend(loaded, progress=progress)
    plans = api.plan_intents(loaded, intents, progress=progress)
    stages = tuple(map(_plan_stages, loaded, intents, plans))
    return PlannedFiles(plans=plans, stages=stages, unread=unread)


def _plan_stages(workload: api.LoadedWorkload, intent: Intent, plan: Plan) -> tuple[StagePlan, ...]:
    """Return the plans of the stages around the training, if there are any and the plan has no errors."""
    if not plan.ok or workload.spec.stage_names == ("train",):
        return ()
    from xsft.stages.stage_list import plan_stages

    return plan_stages(workload, intent=intent, run_name=plan.run_name)
