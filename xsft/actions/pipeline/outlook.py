"""Plans of the stages before and after a training, for `xsft plan`."""

from __future__ import annotations

from xsft.actions.listener import ActionListener
from xsft.actions.pipeline.cluster import ClusterCall
from xsft.actions.pipeline.stages import stages_of
from xsft.api import Loaded
from xsft.errors import XsftError
from xsft.stages.stage import Stage, StagePlan
from xsft.steps import Intent


def plan_stages(workload: Loaded, *, intent: Intent, run_name: str) -> tuple[StagePlan, ...]:
    """Return the plans of all stages but the training, in order."""
    call = ClusterCall(ask=None, poll_s=0.0, listener=ActionListener())
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
