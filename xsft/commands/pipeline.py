"""The stages that a workload has, each as this machine or its cluster does it."""

from __future__ import annotations

from collections.abc import Iterator

from xsft.aliases import ShowLine
from xsft.api import Loaded
from xsft.commands.pipeline_cluster import ClusterCall, ConvertOnCluster, TrainOnCluster
from xsft.commands.pipeline_evaluate import EvaluateHere, EvaluateOnCluster
from xsft.commands.pipeline_export import ExportHere, ServeHere
from xsft.commands.pipeline_here import ConvertHere, TrainHere
from xsft.commands.pipeline_serve import ServeOnCluster
from xsft.errors import UsageError
from xsft.naming import stage_name
from xsft.spec.model import WorkloadSpec
from xsft.stages.stage import Stage, StageEnd, StageFound, StageName, StagePlan


def names_of(spec: WorkloadSpec) -> Iterator[StageName]:
    """Yield the stages of the workload, in order. Serving reads an export, so it has an export stage."""
    asked = spec.stages
    if spec.model.hf is not None and spec.model.checkpoint is None:
        yield "convert"
    yield "train"
    if asked.evaluate is not None:
        yield "evaluate"
    if asked.export is not None or asked.serve is not None:
        yield "export"
    if asked.serve is not None:
        yield "serve"


def stages_of(workload: Loaded, *, run_name: str, call: ClusterCall) -> tuple[Stage, ...]:
    """Return the stages of a workload. `run_name`: of the training."""
    if workload.spec.on_this_machine:
        return tuple(_here(name, workload, run_name) for name in names_of(workload.spec))
    return tuple(_on_cluster(name, workload, run_name, call) for name in names_of(workload.spec))


def _here(name: StageName, workload: Loaded, run_name: str) -> Stage:
    match name:
        case "convert":
            return ConvertHere(workload, training=run_name)
        case "train":
            return TrainHere(workload, run_name=run_name)
        case "evaluate":
            return EvaluateHere(workload, training=run_name)
        case "export":
            return ExportHere(workload, training=run_name)
        case "serve":
            return ServeHere(ExportHere(workload, training=run_name))


def _on_cluster(name: StageName, workload: Loaded, run_name: str, call: ClusterCall) -> Stage:
    match name:
        case "convert":
            return ConvertOnCluster(workload, training=run_name, call=call)
        case "train":
            return TrainOnCluster(workload, run_name=run_name, call=call)
        case "evaluate":
            return EvaluateOnCluster(workload, training=run_name, call=call)
        case "serve":
            exported = _on_cluster("export", workload, run_name, call)
            return ServeOnCluster(workload, exported=exported, training=run_name, call=call)
        case "export":
            return NotOnCluster(name, training=run_name, refused=_unsupported(name))


class NotOnCluster:
    """A stage that this xsft does only on this machine; every question about it is refused."""

    def __init__(self, name: StageName, *, training: str, refused: UsageError) -> None:
        self.name, self._refused = name, refused
        self.run_name = stage_name(run_name=training, stage=name)

    @property
    def digest(self) -> str:
        raise self._refused

    def plan(self) -> StagePlan:
        raise self._refused

    def find(self) -> StageFound:
        raise self._refused

    def perform(self, progress: ShowLine) -> StageEnd:
        del progress
        raise self._refused

    def watch(self, timeout_s: float | None) -> None:
        del timeout_s
        raise self._refused


def _unsupported(name: StageName) -> UsageError:
    return UsageError(
        f"stages.{name}: xsft run does not {name} on a cluster yet.",
        fix="End before it: --to train. docs/guides/after-training.md tells what else can be done.",
        id="stage-unsupported",
    )
