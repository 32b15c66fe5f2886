"""`xsft serve FOLDER|RUN|FILE`: serve a model or a run's export on this machine, or a workload's on its cluster."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

from msgspec.structs import replace

from xsft.base.amounts import duration_text
from xsft.base.errors import INTERRUPTED
from xsft.cluster.cluster import Cluster
from xsft.launcher.audit import AuditRow
from xsft.launcher.server_manifest import ServingPlan, vllm_argv
from xsft.runs.waiting import WaitLimits
from xsft.spec.serving_inputs import PORT
from xsft.stages.create_server import stop_line
from xsft.stages.serve_here import NAMED, Server, serve_here
from xsft.stages.serve_on_cluster import ServeCall, ServeRequest, plan_server, serve_on_cluster
from xsft.verbs.document import (
    VerbDocument,
    asker,
    print_problems,
    problem_documents,
    refuse_options,
    report_document,
    request_of,
)
from xsft.verbs.plan_text import audit_lines, block, cluster_text, problems_block, shell_line, yaml_text
from xsft.verbs.terminal import terminal

WORKLOADS = (".yaml", ".yml")


class ServeDocument(VerbDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.serve/1"):
    """`xsft serve FOLDER|RUN|FILE --json`, printed when the server answers, and by `--dry-run`. `run_name` to `uid` are
    present for FILE only."""

    url: str
    """Base URL for OpenAI clients, e.g. `http://127.0.0.1:8080/v1`; for FILE inside the cluster."""
    model: str
    """The `model` of requests."""
    folder: str
    """Absolute path of the served model; for FILE `gs://…`, or its repository on the hub."""
    run_name: str | None = None
    """Name of the Deployment, the Service and the PodDisruptionBudget."""
    digest: str | None = None
    """sha256 of all inputs of the server, 64 hex digits."""
    objects: tuple[dict[str, Any], ...] = ()
    """Objects that are created: the Deployment first; it becomes the owner of the others."""
    audit: tuple[AuditRow, ...] = ()
    action: Literal["planned", "created", "adopted", "attempt"] | None = None
    uid: str | None = None
    """UID of the Deployment; null for `planned`."""


def run(args: argparse.Namespace) -> int:
    if args.model.endswith(WORKLOADS):
        refuse_options({"--port": args.port}, "is for a server on this machine")
        return _serve_on_cluster(args)
    of_clusters = {
        "--weights": args.weights,
        "--dry-run": args.dry_run,
        "--yes": args.yes,
        "--timeout": args.timeout_s,
        "--set": args.settings,
        "--run-name": args.run_name,
    }
    refuse_options(of_clusters, "is for a server on a cluster")

    def say(server: Server) -> None:
        document = ServeDocument(url=server.url, model=NAMED, folder=str(server.model.folder))
        report_document(document, partial(_here_lines, model_type=server.model.model_type), as_json=args.json)

    serve_here(args.model, port=args.port, listener=terminal(), ready=say)
    return INTERRUPTED


def _here_lines(document: ServeDocument, *, model_type: str) -> Iterator[str]:
    yield f"serving {document.folder} ({model_type}); Ctrl-C stops it"
    yield _curl(document.url, model=document.model)


def _serve_on_cluster(args: argparse.Namespace) -> int:
    """Print the plan, or create the server and wait until it answers."""
    listener = terminal()
    call = plan_server(request_of(args, ServeRequest), listener=listener)
    plan = call.plan
    document = ServeDocument(
        url=plan.output,
        model=plan.inputs.served_model_name,
        folder=plan.inputs.weights,
        run_name=plan.run_name,
        digest=plan.digest,
        objects=(plan.manifest, *plan.dependents),
        audit=call.audit,
        problems=problem_documents(call.problems),
        action="planned",
    )
    if args.dry_run:
        return report_document(document, partial(_server_plan_lines, call=call), as_json=args.json, shown=True)
    limits = request_of(args, WaitLimits)
    answering = serve_on_cluster(call, ask=asker(yes=args.yes or args.json), limits=limits, listener=listener)
    if not args.json:
        print_problems(answering.begun.problems)
    document = replace(document, action=answering.begun.action, uid=answering.begun.uid)
    text = partial(_server_lines, plan=plan, cluster=answering.cluster)
    return report_document(document, text, as_json=args.json, shown=True)


def _curl(url: str, *, model: str) -> str:
    """Return the command that asks the server of this base URL a question."""
    question = {"model": model, "messages": [{"role": "user", "content": "Hello"}]}
    kind = ("-H", "Content-Type: application/json")
    return shlex.join(("curl", "-sS", f"{url}/chat/completions", *kind, "-d", json.dumps(question)))


def _server_plan_lines(document: ServeDocument, *, call: ServeCall) -> Iterator[str]:
    """Yield the plan of a server."""
    inputs = call.plan.inputs
    shape = inputs.shape
    yield f"# {call.file}"
    yield f"run         {document.run_name}, digest {call.plan.digest[:12]}"
    yield f"serves      {document.folder} as {document.model}, {inputs.max_model_len} tokens"
    yield f"cluster     {cluster_text(call.run)}"
    yield f"machine     {shape.machine}: {shape.count} of {shape.accelerator}; outside the queue's quota"
    yield f"start       at most {duration_text(inputs.load_s)} once the weights are there"
    yield f"address     {document.url}"
    yield from block("server", shell_line(vllm_argv(inputs)))
    yield from block("objects", yaml_text(document.objects).rstrip())
    yield from audit_lines(document.audit, every_row=False)
    yield from problems_block(document.problems)


def _server_lines(document: ServeDocument, *, plan: ServingPlan, cluster: Cluster) -> Iterator[str]:
    """Yield what the server serves, its address, and how to call and end it."""
    where = ("--context", cluster.context, "-n", plan.namespace)
    forward = ("kubectl", *where, "port-forward", f"service/{document.run_name}", str(PORT))
    yield f"{document.run_name} serves {document.folder} ({document.action}, uid {document.uid})"
    yield f"address   {document.url}"
    yield f"from here {shlex.join(forward)}"
    yield f"          {_curl(f'http://127.0.0.1:{PORT}/v1', model=document.model)}"
    yield f"end it    {stop_line(cluster, plan)}"
