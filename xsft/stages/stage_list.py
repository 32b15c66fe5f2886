"""The stages that a workload has, each as this machine or its cluster does it, and their plans."""

from __future__ import annotations

from xsft.base.errors import XsftError
from xsft.base.names import stage_name
from xsft.base.reporting import Reporter
from xsft.base.stage import Stage, StageName, StagePlan
from xsft.planning.api import LoadedWorkload
from xsft.planning.steps import Intent
from xsft.stages.cluster_job import ClusterCall, SharedIntent, StageOnCluster
from xsft.stages.convert_stage import ConversionJob, convert_stage
from xsft.stages.evaluate import EvaluationJob, evaluate_stage
from xsft.stages.export import export_stage, staged_export
from xsft.stages.serve_here import ServeHere
from xsft.stages.serve_on_cluster import ServeOnCluster
from xsft.stages.train_stage import TrainHere, TrainJob


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
