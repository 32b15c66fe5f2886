"""`xsft serve FILE` for a workload of a cluster: plan its server, create it once, and wait until it answers."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from msgspec import Struct

from xsft.base.acceptance import for_submission
from xsft.base.errors import Refused, UsageError, refuse_errors
from xsft.base.problems import Problem
from xsft.base.reporting import AskUser, Reporter
from xsft.cluster.cluster import Cluster, connect
from xsft.launch.recording import gather_provenance
from xsft.launcher.audit import AuditRow
from xsft.launcher.server_expect import audit_server
from xsft.launcher.server_plan import ServingPlan
from xsft.machine.deadline import LOOKS_S, Deadline
from xsft.machine.interrupts import NOTHING_CREATED, when_interrupted
from xsft.planning import api
from xsft.records.record_files import record_store
from xsft.runs.waiting import WaitLimits
from xsft.spec.resolve import Run
from xsft.stages.cluster_stages import ClusterCall, SharedIntent
from xsft.stages.create_server import BegunServer, begin, confirm_server, plan_serving, stop_line, wait_for_server
from xsft.stages.export_stage import ExportOnCluster
from xsft.stages.serve_stage import exported_weights, weights_ahead
from xsft.stages.server_record import ServerRecord

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


def plan_server(
    file: str,
    *,
    settings: Sequence[str],
    run_name: str | None,
    weights: str | None,
    dry_run: bool,
    listener: Reporter,
) -> ServeCall:
    """Return the planned server. `weights`: what is served; None: the workload's export.

    Raises SpecError and UsageError for a workload that cannot be served, and Refused, serve-no-weights, before its
    export is done.
    """
    workload = api.load(file, settings=settings, run_name=run_name)
    if workload.spec.on_this_machine:
        fix = f"Give the name of its run instead: xsft serve {workload.spec.name}"
        raise UsageError(f"{file} trains on this machine; only a cluster's workload has a server.", fix=fix)
    (intent,) = api.intend((workload,))
    own = tuple(p.in_file(workload.file) for p in intent.problems if p.is_in(ITS))
    refuse_errors(own if dry_run else for_submission(own))
    intent.run.required_place()
    export = ExportOnCluster(
        SharedIntent(workload, known=intent),
        training=intent.run.run_name,
        call=ClusterCall(ask=None, poll_s=0.0, listener=listener),
    )
    served = weights or _exported_folder(export, file, dry_run=dry_run)
    plan = plan_serving(intent.run, weights=served, file=workload.file)
    audit = audit_server(plan, intent.run)
    return ServeCall(file=file, run=intent.run, plan=plan, audit=audit, problems=own)


def _exported_folder(export: ExportOnCluster, file: str, *, dry_run: bool) -> str:
    """Return what the workload's export stage wrote; for a dry run also what it will write. Raises Refused,
    serve-no-weights, before it is done."""
    weights = exported_weights(export) or (weights_ahead(export) if dry_run else None)
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
    with when_interrupted(NOTHING_CREATED), listener.working("serve") as say:
        provenance = gather_provenance(call.file, target=call.run.spec.target)
        record = ServerRecord(store=record_store(), provenance=provenance, run=call.run)
        begun = begin(cluster.by(Deadline.after(LOOKS_S)), call.plan, record=record, progress=say)
        with when_interrupted(f"The server continues. To end it: {stop_line(cluster, call.plan)}"):
            wait_for_server(cluster, call.plan, timeout_s=limits.timeout_s, poll_s=limits.poll_s, say=say)
    return AnsweringServer(cluster=cluster, begun=begun)
