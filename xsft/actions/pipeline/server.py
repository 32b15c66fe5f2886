"""`xsft serve FILE` for a workload of a cluster: plan its server, create it once, and wait until it answers."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Iterator
from typing import Any

import yaml
from msgspec import Struct
from msgspec.structs import asdict

from xsft import api
from xsft.acceptance import for_submission
from xsft.actions.pipeline.cluster import ClusterCall, SharedIntent
from xsft.actions.pipeline.export import ExportOnCluster
from xsft.actions.pipeline.serve import exported_weights, weights_ahead
from xsft.actions.pipeline.serving_wait import confirm_server, stop_line, wait_for_server
from xsft.effects.cluster.cluster import Cluster, connect
from xsft.effects.records.records import record_store
from xsft.effects.submit.interrupts import NOTHING_CREATED, when_interrupted
from xsft.effects.submit.recording import gather_provenance
from xsft.effects.submit.serving import ServerBegun, begin, plan_serving
from xsft.effects.submit.serving_record import ServerRecord
from xsft.errors import Refused, SpecError, UsageError
from xsft.launchers.audit import AuditRow
from xsft.launchers.serving_expect import audit_server
from xsft.launchers.serving_manifest import vllm_argv
from xsft.problems import Problem, errors_in
from xsft.screen.documents import print_json
from xsft.screen.failure import print_problems, problem_documents
from xsft.screen.plan_summary import cluster_text
from xsft.screen.plan_text import audit_lines, block, problems_block, shell_line
from xsft.screen.progress import shown
from xsft.serving.inputs import PORT
from xsft.serving.plan import ServingPlan
from xsft.spec.amounts import duration_text
from xsft.spec.resolve import Run

ITS = ("place", "namespace", "name", "image", "secrets", "stages")
"""Sections of a workload whose errors affect a server."""


class _Objects(yaml.SafeDumper):
    """A dumper for people: programs keep their lines, and equal parts are written out."""

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


def _represent_string(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Objects.add_representer(str, _represent_string)


class ServeCall(Struct, frozen=True, kw_only=True):
    """The server that a user asked for."""

    run: Run
    plan: ServingPlan
    audit: tuple[AuditRow, ...]
    problems: tuple[Problem, ...]
    """Problems of the sections that a server reads."""


def serve_on_cluster(args: argparse.Namespace) -> int:
    """Print the plan, or create the server and wait until /health answers.

    Raises SpecError and UsageError for a workload that cannot be served, and as `begin` and `found` do.
    """
    call = _serve_call(args)
    if args.dry_run:
        _print_plan(call, file=args.model, as_json=args.json)
        return 0
    confirm_server(call.plan, yes=args.yes or args.json)
    assert call.run.place is not None
    cluster = connect(call.run.place)
    with when_interrupted(NOTHING_CREATED), shown("serve") as say:
        begun = begin(cluster, call.plan, record=_server_record(args.model, call.run), progress=say)
        with when_interrupted(f"The server continues. To end it: {stop_line(cluster, call.plan)}"):
            wait_for_server(cluster, call.plan, timeout_s=args.timeout, poll_s=args.poll, say=say)
    print_problems(() if args.json else begun.problems)
    if args.json:
        print_json("serve", {**_server_document(call), "action": begun.action, "uid": begun.uid})
    else:
        sys.stdout.writelines(f"{line}\n" for line in _server_lines(cluster, call.plan, begun))
    return 0


def _server_record(file: str, run: Run) -> ServerRecord:
    return ServerRecord(store=record_store(), provenance=gather_provenance(file), run=run)


def _serve_call(args: argparse.Namespace) -> ServeCall:
    workload = api.load(args.model, settings=args.settings, run_name=args.run_name)
    if workload.spec.on_this_machine:
        fix = f"Give the name of its run instead: xsft serve {workload.spec.name}"
        raise UsageError(f"{args.model} trains on this machine; only a cluster's workload has a server.", fix=fix)
    (intent,) = api.intend((workload,))
    own = tuple(p.in_file(workload.file) for p in intent.problems if p.where.startswith(ITS))
    if wrong := errors_in(own if args.dry_run else for_submission(own)):
        raise SpecError(wrong)
    if intent.run.place is None:
        raise UsageError("the workload names no place.", fix="Set place: main, or write the place inline.")
    weights = args.weights or _exported(SharedIntent(workload, known=intent), intent.run.run_name, args)
    plan = plan_serving(intent.run, weights=weights, file=workload.file)
    return ServeCall(run=intent.run, plan=plan, audit=audit_server(plan, intent.run), problems=own)


def _exported(intent: SharedIntent, training: str, args: argparse.Namespace) -> str:
    """Return what the workload's export stage wrote; for a dry run also what it will write. Raises Refused,
    serve-no-weights, before it is done."""
    export = ExportOnCluster(intent, training=training, call=ClusterCall(yes=True, poll_s=args.poll))
    weights = exported_weights(export) or (weights_ahead(export) if args.dry_run else None)
    if weights is None:
        fix = f"Export it first: xsft run {shlex.quote(args.model)} --to export; or give --weights gs://bucket/folder."
        raise Refused(f"There is no export to serve: {export.find().why}.", fix=fix, id="serve-no-weights")
    return weights


def _server_lines(cluster: Cluster, plan: ServingPlan, begun: ServerBegun) -> Iterator[str]:
    forward = (
        "kubectl",
        "--context",
        cluster.context,
        "-n",
        plan.namespace,
        "port-forward",
        f"service/{plan.run_name}",
    )
    question = {"model": plan.inputs.served_model_name, "messages": [{"role": "user", "content": "Hello"}]}
    kind, url = "Content-Type: application/json", f"http://127.0.0.1:{PORT}/v1/chat/completions"
    yield f"{plan.run_name} serves {plan.inputs.weights} ({begun.action}, uid {begun.uid})"
    yield f"address   {plan.output}"
    yield f"from here {shlex.join((*forward, str(PORT)))}"
    yield f"          {shlex.join(('curl', '-sS', url, '-H', kind, '-d', json.dumps(question)))}"
    yield f"end it    {stop_line(cluster, plan)}"


def _print_plan(call: ServeCall, *, file: str, as_json: bool) -> None:
    if as_json:
        print_json("serve", {**_server_document(call), "action": "planned", "uid": None})
    else:
        sys.stdout.writelines(f"{line}\n" for line in _plan_lines(call, file=file))


def _plan_lines(call: ServeCall, *, file: str) -> Iterator[str]:
    plan, inputs = call.plan, call.plan.inputs
    shape = inputs.shape
    yield f"# {file}"
    yield f"{'run':<12}{plan.run_name}, digest {plan.digest[:12]}"
    yield f"{'serves':<12}{inputs.weights} as {inputs.served_model_name}, {inputs.max_model_len} tokens"
    yield f"{'cluster':<12}{cluster_text(call.run)}"
    yield f"{'machine':<12}{shape.machine}: {shape.count} of {shape.accelerator}; outside the queue's quota"
    yield f"{'start':<12}at most {duration_text(inputs.load_s)} once the weights are there"
    yield f"{'address':<12}{plan.output}"
    yield from block("server", shell_line(vllm_argv(inputs)))
    objects = (plan.manifest, *plan.dependents)
    yield from block("objects", yaml.dump_all(objects, Dumper=_Objects, sort_keys=False, width=10**9).rstrip())
    yield from audit_lines(call.audit, whole=False)
    yield from problems_block(call.problems)


def _server_document(call: ServeCall) -> dict[str, Any]:
    plan = call.plan
    return {
        "url": plan.output,
        "model": plan.inputs.served_model_name,
        "folder": plan.inputs.weights,
        "run_name": plan.run_name,
        "digest": plan.digest,
        "objects": [plan.manifest, *plan.dependents],
        "audit": [asdict(row) for row in call.audit],
        "problems": problem_documents(call.problems),
    }
