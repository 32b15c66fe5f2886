"""`xsft serve FOLDER|RUN|FILE`: serve a model or a run's export on this machine, or a workload's on its cluster."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

from xsft.base.amounts import duration_text
from xsft.base.errors import INTERRUPTED
from xsft.launcher.audit import AuditRow
from xsft.launcher.server_manifest import vllm_argv
from xsft.runs.waiting import WaitLimits
from xsft.spec.serving_inputs import PORT
from xsft.stages.create_server import stop_line
from xsft.stages.serve_here import NAMED, Server, serve_here
from xsft.stages.serve_on_cluster import AnsweringServer, ServeCall, plan_server, serve_on_cluster
from xsft.verbs.document import (
    VerbDocument,
    asker,
    print_document,
    print_lines,
    print_problems,
    problem_documents,
    refuse_options,
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
    is_file = args.model.endswith(WORKLOADS)
    _refuse_serve_options(args, is_file=is_file)
    return _serve_on_cluster(args) if is_file else _serve_here(args)


def _refuse_serve_options(args: argparse.Namespace, *, is_file: bool) -> None:
    local_options = {"--port": args.port}
    cluster_options = {
        "--weights": args.weights,
        "--dry-run": args.dry_run,
        "--yes": args.yes,
        "--timeout": args.timeout_s,
        "--set": args.settings,
        "--run-name": args.run_name,
    }
    if is_file:
        refuse_options(local_options, "is for a server on this machine")
    else:
        refuse_options(cluster_options, "is for a server on a cluster")


def _serve_on_cluster(args: argparse.Namespace) -> int:
    """Print the plan, or create the server and wait until it answers."""
    listener = terminal()
    call = plan_server(
        args.model,
        settings=args.settings,
        run_name=args.run_name,
        weights=args.weights,
        dry_run=args.dry_run,
        listener=listener,
    )
    answering = None
    if not args.dry_run:
        limits = request_of(args, WaitLimits)
        answering = serve_on_cluster(call, ask=asker(yes=args.yes or args.json), limits=limits, listener=listener)
        print_problems(() if args.json else answering.begun.problems)
    if args.json:
        print_document(_server_document(call, answering))
    else:
        print_lines(_server_lines(call, answering) if answering else _server_plan_lines(call))
    return 0


def _serve_here(args: argparse.Namespace) -> int:
    serve_here(args.model, port=args.port, listener=terminal(), ready=partial(_say, as_json=args.json))
    return INTERRUPTED


def _say(server: Server, *, as_json: bool) -> None:
    if as_json:
        print_document(ServeDocument(url=server.url, model=NAMED, folder=str(server.model.folder)))
        return
    serving = f"serving {server.model.folder} ({server.model.model_type}); Ctrl-C stops it"
    print_lines((serving, shlex.join(_curl(server.url, model=NAMED))))


def _curl(url: str, *, model: str) -> tuple[str, ...]:
    """Return the command that asks the server of this base URL a question."""
    question = {"model": model, "messages": [{"role": "user", "content": "Hello"}]}
    kind = ("-H", "Content-Type: application/json")
    return ("curl", "-sS", f"{url}/chat/completions", *kind, "-d", json.dumps(question))


def _server_plan_lines(call: ServeCall) -> Iterator[str]:
    """Yield the plan of a server."""
    plan, inputs = call.plan, call.plan.inputs
    shape = inputs.shape
    yield f"# {call.file}"
    yield f"run         {plan.run_name}, digest {plan.digest[:12]}"
    yield f"serves      {inputs.weights} as {inputs.served_model_name}, {inputs.max_model_len} tokens"
    yield f"cluster     {cluster_text(call.run)}"
    yield f"machine     {shape.machine}: {shape.count} of {shape.accelerator}; outside the queue's quota"
    yield f"start       at most {duration_text(inputs.load_s)} once the weights are there"
    yield f"address     {plan.output}"
    yield from block("server", shell_line(vllm_argv(inputs)))
    yield from block("objects", yaml_text((plan.manifest, *plan.dependents)).rstrip())
    yield from audit_lines(call.audit, whole=False)
    yield from problems_block(call.problems)


def _server_lines(call: ServeCall, answering: AnsweringServer) -> Iterator[str]:
    """Yield what the server serves, its address, and how to call and end it."""
    plan, begun = call.plan, answering.begun
    where = ("--context", answering.cluster.context, "-n", plan.namespace)
    forward = ("kubectl", *where, "port-forward", f"service/{plan.run_name}", str(PORT))
    curl = _curl(f"http://127.0.0.1:{PORT}/v1", model=plan.inputs.served_model_name)
    yield f"{plan.run_name} serves {plan.inputs.weights} ({begun.action}, uid {begun.uid})"
    yield f"address   {plan.output}"
    yield f"from here {shlex.join(forward)}"
    yield f"          {shlex.join(curl)}"
    yield f"end it    {stop_line(answering.cluster, plan)}"


def _server_document(call: ServeCall, answering: AnsweringServer | None) -> ServeDocument:
    """Return the document; None: of a server that is only planned."""
    plan = call.plan
    return ServeDocument(
        url=plan.output,
        model=plan.inputs.served_model_name,
        folder=plan.inputs.weights,
        run_name=plan.run_name,
        digest=plan.digest,
        objects=(plan.manifest, *plan.dependents),
        audit=call.audit,
        problems=problem_documents(call.problems),
        action=answering.begun.action if answering else "planned",
        uid=answering.begun.uid if answering else None,
    )
