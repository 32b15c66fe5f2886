"""`xsft serve FOLDER|RUN|FILE`: serve a model or a run's export on this machine, or a workload's on its cluster."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from functools import partial

from xsft.base.errors import INTERRUPTED, UsageError
from xsft.runs.waiting import WaitLimits
from xsft.stages.engine_server import NAMED, Server
from xsft.stages.serve_here import serve_here
from xsft.stages.serve_on_cluster import plan_server, serve_on_cluster
from xsft.verbs.asking import asker
from xsft.verbs.failure import print_problems
from xsft.verbs.plan_document import print_json, print_lines
from xsft.verbs.server_text import server_document, server_lines, server_plan_lines
from xsft.verbs.terminal import terminal

WORKLOADS = (".yaml", ".yml")
QUESTION = {"model": NAMED, "messages": [{"role": "user", "content": "Hello"}]}


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
        "--timeout": args.timeout,
        "--set": args.settings,
        "--run-name": args.run_name,
    }
    given = [option for option, value in (local_options if is_file else cluster_options).items() if value]
    if given:
        where = "on this machine" if is_file else "on a cluster"
        raise UsageError(f"{given[0]} is for a server {where}.", fix="Leave it out.")


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
        limits = WaitLimits(timeout_s=args.timeout, poll_s=args.poll)
        answering = serve_on_cluster(call, ask=asker(yes=args.yes or args.json), limits=limits, listener=listener)
        print_problems(() if args.json else answering.begun.problems)
    if args.json:
        print_json("serve", server_document(call, answering))
    else:
        lines = server_lines(call, answering) if answering else server_plan_lines(call)
        print_lines(lines)
    return 0


def _serve_here(args: argparse.Namespace) -> int:
    serve_here(args.model, port=args.port, listener=terminal(), ready=partial(_say, as_json=args.json))
    return INTERRUPTED


def _say(server: Server, *, as_json: bool) -> None:
    if as_json:
        print_json("serve", {"url": server.url, "model": NAMED, "folder": str(server.model.folder)})
        sys.stdout.flush()
        return
    print(f"serving {server.model.folder} ({server.model.model_type}); Ctrl-C stops it")
    print(shlex.join(_curl(server)), flush=True)


def _curl(server: Server) -> tuple[str, ...]:
    kind = "Content-Type: application/json"
    return ("curl", "-sS", f"{server.url}/chat/completions", "-H", kind, "-d", json.dumps(QUESTION))
