"""The server of a workload as text, and as a document: its plan, and how it is called."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

import yaml
from msgspec.structs import asdict

from xsft.base.amounts import duration_text
from xsft.launcher.server_manifest import vllm_argv
from xsft.spec.serving_inputs import PORT
from xsft.stages.serve_on_cluster import AnsweringServer, ServeCall
from xsft.stages.wait_for_server import stop_line
from xsft.verbs.failure import problem_documents
from xsft.verbs.plan_summary import cluster_text
from xsft.verbs.plan_text import audit_lines, block, problems_block, shell_line


class _ManifestDumper(yaml.SafeDumper):
    """A dumper for people: programs keep their lines, and equal parts are written out."""

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


def _represent_string(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_ManifestDumper.add_representer(str, _represent_string)


def server_plan_lines(call: ServeCall) -> Iterator[str]:
    """Yield the plan of a server."""
    plan, inputs = call.plan, call.plan.inputs
    shape = inputs.shape
    yield f"# {call.file}"
    yield f"{'run':<12}{plan.run_name}, digest {plan.digest[:12]}"
    yield f"{'serves':<12}{inputs.weights} as {inputs.served_model_name}, {inputs.max_model_len} tokens"
    yield f"{'cluster':<12}{cluster_text(call.run)}"
    yield f"{'machine':<12}{shape.machine}: {shape.count} of {shape.accelerator}; outside the queue's quota"
    yield f"{'start':<12}at most {duration_text(inputs.load_s)} once the weights are there"
    yield f"{'address':<12}{plan.output}"
    yield from block("server", shell_line(vllm_argv(inputs)))
    objects = (plan.manifest, *plan.dependents)
    yield from block("objects", yaml.dump_all(objects, Dumper=_ManifestDumper, sort_keys=False, width=10**9).rstrip())
    yield from audit_lines(call.audit, whole=False)
    yield from problems_block(call.problems)


def server_lines(call: ServeCall, answering: AnsweringServer) -> Iterator[str]:
    """Yield what the server serves, its address, and how to call and end it."""
    plan, cluster, begun = call.plan, answering.cluster, answering.begun
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


def server_document(call: ServeCall, answering: AnsweringServer | None) -> dict[str, Any]:
    """Return the document `xsft.serve/1` without its schema; None: of a server that is only planned."""
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
        "action": answering.begun.action if answering else "planned",
        "uid": answering.begun.uid if answering else None,
    }
