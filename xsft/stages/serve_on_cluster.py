"""Serve an export on a cluster, by `xsft serve FILE` and as a stage: a Deployment that is created once, and done when
/health answers.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.acceptance import for_submission
from xsft.base.errors import Refused, UsageError, refuse_errors
from xsft.base.lenient import ShowLine
from xsft.base.names import stage_name
from xsft.base.problems import Problem
from xsft.base.reporting import AskUser, Reporter
from xsft.base.stage import Stage, StageEnd, StageFound, StageName, StagePlan
from xsft.cluster.cluster import Cluster, connect
from xsft.launch.recording import gather_provenance
from xsft.launcher.audit import AuditRow
from xsft.launcher.server_expect import audit_server
from xsft.launcher.server_manifest import ServingPlan, vllm_argv
from xsft.machine.deadline import LOOKS_S, Deadline
from xsft.machine.signals import NOTHING_CREATED, when_interrupted
from xsft.planning import api
from xsft.records.record_files import record_store
from xsft.runs.waiting import WaitLimits
from xsft.spec.export_inputs import HF_PREFIX
from xsft.spec.resolve import Run
from xsft.stages.cluster_job import ClusterCall, SharedIntent, StageOnCluster
from xsft.stages.create_server import (
    BegunServer,
    ServerRecord,
    begin,
    confirm_server,
    find_server,
    plan_serving,
    wait_for_server,
)
from xsft.stages.export import staged_export

ITS = ("place", "namespace", "name", "image", "secrets", "stages")
"""Sections of a workload whose errors affect a server."""


class ServeCall(Struct, frozen=True, kw_only=True):
    """The server that a user asked for."""

    file: str
    run: Run
    plan: ServingPlan
    audit: tuple[AuditRow, ...]
    problems: tuple[Problem, ...]
    """Problems of the sections that a server reads."""


class AnsweringServer(Struct, frozen=True, kw_only=True):
    """A server whose /health answers."""

    cluster: Cluster
    begun: BegunServer


class ServeRequest(Struct, frozen=True, kw_only=True):
    """A workload whose server is planned."""

    model: str
    """The file of the workload."""
    settings: Sequence[str]
    run_name: str | None
    weights: str | None
    """What is served; None: the workload's export."""
    dry_run: bool


def plan_server(request: ServeRequest, *, listener: Reporter) -> ServeCall:
    """Return the planned server.

    Raises SpecError and UsageError for a workload that cannot be served, and Refused, serve-no-weights, before its
    export is done.
    """
    file = request.model
    workload = api.load(file, settings=request.settings, run_name=request.run_name)
    if workload.spec.on_this_machine:
        fix = f"Give the name of its run instead: xsft serve {workload.spec.name}"
        raise UsageError(f"{file} trains on this machine; only a cluster's workload has a server.", fix=fix)
    (intent,) = api.intend((workload,))
    problems = tuple(p.in_file(workload.file) for p in intent.problems if p.is_in(ITS))
    refuse_errors(problems if request.dry_run else for_submission(problems))
    intent.run.required_place()
    export = StageOnCluster(
        staged_export(SharedIntent(workload, known=intent)),
        training=intent.run.run_name,
        call=ClusterCall(ask=None, poll_s=0.0, listener=listener),
    )
    served = request.weights or _exported_folder(export, file, dry_run=request.dry_run)
    plan = plan_serving(intent.run, weights=served, file=workload.file)
    audit = audit_server(plan, intent.run)
    return ServeCall(file=file, run=intent.run, plan=plan, audit=audit, problems=problems)


def _exported_folder(export: Stage, file: str, *, dry_run: bool) -> str:
    """Return what the workload's export stage wrote; for a dry run also what it will write. Raises Refused,
    serve-no-weights, before it is done."""
    weights = exported_weights(export)
    if weights is None and dry_run:
        weights = weights_ahead(export)
    if weights is None:
        fix = f"Export it first: xsft run {shlex.quote(file)} --to export; or give --weights gs://bucket/folder."
        raise Refused(f"There is no export to serve: {export.find().why}.", fix=fix, id="serve-no-weights")
    return weights


def serve_on_cluster(
    call: ServeCall, *, ask: AskUser | None, limits: WaitLimits, listener: Reporter
) -> AnsweringServer:
    """Create the server and wait until /health answers. Raises as `confirm_server`, `begin` and `wait_for_server`."""
    confirm_server(call.plan, ask=ask)
    cluster = connect(call.run.required_place())
    deadline = Deadline.after(LOOKS_S).sooner(math.inf if limits.timeout_s is None else limits.timeout_s)
    with when_interrupted(NOTHING_CREATED), listener.working("serve") as say:
        record = _server_record(call.run, file=call.file)
        begun = begin(cluster.by(deadline), call.plan, record=record, progress=say)
        wait_for_server(cluster, call.plan, timeout_s=limits.timeout_s, poll_s=limits.poll_s, say=say)
    return AnsweringServer(cluster=cluster, begun=begun)


def _server_record(run: Run, *, file: str) -> ServerRecord:
    return ServerRecord(store=record_store(), provenance=gather_provenance(file, target=run.spec.target), run=run)


def exported_weights(exported: Stage) -> str | None:
    """Return what the export wrote; None before it is done."""
    export = exported.find()
    if export.state != "done":
        return None
    return export.result


def weights_ahead(exported: Stage) -> str:
    """Return where the export will be; a folder of the bucket has the digits of its content only later."""
    return str(exported.plan().writes).removeprefix(HF_PREFIX)


class ServeOnCluster:
    """The server of the workload's export, on its cluster."""

    name: StageName = "serve"

    def __init__(self, intent: SharedIntent, *, exported: Stage, training: str, call: ClusterCall) -> None:
        self._asked, self._exported, self._call = intent, exported, call
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
        server = replace(find_server(self._cluster(), plan), digest=plan.digest)
        if server.state == "running":
            return replace(server, state="torn")
        return server

    def perform(self, progress: ShowLine) -> StageEnd:
        plan, cluster = self._plan(self._weights()), self._cluster().by(self._call.deadline.sooner(LOOKS_S))
        before = find_server(cluster, plan)
        confirm_server(plan, ask=self._call.ask if before.state == "missing" else None)
        record = _server_record(self._run(), file=self._asked.workload.file)
        with when_interrupted(NOTHING_CREATED):
            begun = begin(cluster, plan, record=record, progress=progress)
        self._call.listener.warn(begun.problems)
        return StageEnd(action=begun.action, state="running", why=before.why, result=plan.output)

    def watch(self, timeout_s: float | None) -> None:
        """Return when /health answers: the readiness probe of its pod asks it, and the Deployment counts ready pods."""
        plan = self._plan(self._weights())
        say = self._call.listener.say
        wait_for_server(self._cluster(), plan, timeout_s=timeout_s, poll_s=self._call.poll_s, say=say)

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
