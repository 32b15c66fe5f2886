"""The serve stage on a cluster: a Deployment that is created once, and done when /health answers."""

from __future__ import annotations

from msgspec.structs import replace

from xsft.base.aliases import ShowLine
from xsft.base.errors import Refused
from xsft.base.names import stage_name
from xsft.base.stage import Stage, StageEnd, StageFound, StageName, StagePlan
from xsft.cluster.cluster import Cluster, connect
from xsft.launch.recording import gather_provenance
from xsft.launcher.server_manifest import vllm_argv
from xsft.launcher.server_plan import ServingPlan
from xsft.machine.deadline import LOOKS_S
from xsft.machine.interrupts import NOTHING_CREATED, when_interrupted
from xsft.records.record_files import record_store
from xsft.spec.export_inputs import HF_PREFIX
from xsft.spec.resolve import Run
from xsft.stages.cluster_stages import ClusterCall, SharedIntent
from xsft.stages.create_server import begin, confirm_server, find_server, plan_serving, stop_line, wait_for_server
from xsft.stages.server_record import ServerRecord


def exported_weights(exported: Stage) -> str | None:
    """Return what the export wrote; None before it is done."""
    found = exported.find()
    return found.result if found.state == "done" else None


def weights_ahead(exported: Stage) -> str:
    """Return where the export will be; a folder of the bucket has the digits of its content only later."""
    return str(exported.plan().writes).removeprefix(HF_PREFIX)


class ServeOnCluster:
    """The server of the workload's export, on its cluster."""

    name: StageName = "serve"

    def __init__(self, asked: SharedIntent, *, exported: Stage, training: str, call: ClusterCall) -> None:
        self._asked, self._exported, self._call = asked, exported, call
        self.run_name = stage_name(run_name=training, stage=self.name)

    def plan(self) -> StagePlan:
        """Return the plan as it is before the export is done, whose bucket is not read."""
        plan = self._plan(weights_ahead(self._exported))
        shape = plan.inputs.shape
        machine = f"one {shape.machine}: {shape.count} of {shape.accelerator}"
        return StagePlan(
            name=self.name,
            run_name=self.run_name,
            digest=None,
            writes=plan.output,
            argv=vllm_argv(plan.inputs),
            manifest=plan.manifest,
            dependents=plan.dependents,
            notes=(
                f"{machine}, outside the queue's quota, until it is cancelled",
                "a Service and a PodDisruptionBudget, which its Deployment owns",
            ),
        )

    def find(self) -> StageFound:
        """Return what the cluster holds; a server that starts is adopted by `perform`, which completes its objects and
        its record. Before the export is done its folder is unknown, and so is the server's."""
        weights = exported_weights(self._exported)
        if weights is None:
            return StageFound(state="missing", why="there is no export to serve")
        plan = self._plan(weights)
        seen = replace(find_server(self._cluster(), plan), digest=plan.digest)
        return replace(seen, state="torn") if seen.state == "running" else seen

    def perform(self, progress: ShowLine) -> StageEnd:
        plan, cluster = self._plan(self._weights()), self._cluster().by(self._call.deadline.sooner(LOOKS_S))
        before = find_server(cluster, plan)
        confirm_server(plan, ask=self._call.ask if before.state == "missing" else None)
        run = self._run()
        provenance = gather_provenance(self._asked.workload.file, target=run.spec.target)
        record = ServerRecord(store=record_store(), provenance=provenance, run=run)
        with when_interrupted(NOTHING_CREATED):
            begun = begin(cluster, plan, record=record, progress=progress)
        self._call.listener.warn(begun.problems)
        return StageEnd(action=begun.action, state="running", why=before.why, result=plan.output)

    def watch(self, timeout_s: float | None) -> None:
        """Return when /health answers: the readiness probe of its pod asks it, and the Deployment counts ready pods."""
        cluster, plan = self._cluster(), self._plan(self._weights())
        with when_interrupted(f"The server continues. To end it: {stop_line(cluster, plan)}"):
            wait_for_server(cluster, plan, timeout_s=timeout_s, poll_s=self._call.poll_s, say=self._call.listener.say)

    def _plan(self, weights: str) -> ServingPlan:
        return plan_serving(self._run(), weights=weights, file=self._asked.workload.file)

    def _weights(self) -> str:
        """Raises Refused, stage-not-done, before there is an export."""
        weights = exported_weights(self._exported)
        if weights is None:
            raise Refused("There is no export to serve.", fix="Export first: --from export.", id="stage-not-done")
        return weights

    def _run(self) -> Run:
        return self._asked.now().run

    def _cluster(self) -> Cluster:
        return connect(self._run().required_place())
