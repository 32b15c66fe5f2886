"""Starts a server on its cluster exactly once: read, decide, create, and wait for it. Every step is safe to repeat."""

from __future__ import annotations

import shlex
from typing import Literal

from msgspec import Struct

from xsft.base.amounts import duration_text
from xsft.base.errors import Refused, RunFailed, SpecError, TimedOut, UserRefusal, XsftError
from xsft.base.lenient import JsonObject, ShowLine
from xsft.base.problems import Problem, errors_in
from xsft.base.reporting import AskUser
from xsft.base.stage import StageFound
from xsft.checks.facts import Facts
from xsft.checks.serving import check, check_server_token
from xsft.cluster.cluster import Cluster
from xsft.cluster.exactly_once import CreatedObject, ExistingObject, is_refusal
from xsft.cluster.jobset_fields import parse_server
from xsft.cluster.observation import RunObject
from xsft.launcher.audit import audit_problems
from xsft.launcher.readback import missing_values
from xsft.launcher.server_expect import audit_server
from xsft.launcher.server_manifest import ServingPlan, owned_by, plan_of_server
from xsft.machine import clock
from xsft.machine.deadline import NEVER, Deadline
from xsft.machine.signals import when_interrupted
from xsft.records.jobset_paths import RUN_LABEL
from xsft.records.record_files import RecordRef
from xsft.runs.server_states import ServerState, server_state
from xsft.spec.resolve import Run
from xsft.stages.server_record import ServerRecord

LAST_LINES = 8
"""Lines of a crashed container's log in a message."""
MAX_DIFFERENCES = 6


ServerAction = Literal["created", "attempt", "adopted"]


class BegunServer(Struct, frozen=True, kw_only=True):
    """A server that exists on its cluster."""

    action: ServerAction
    uid: str
    """UID of the Deployment."""
    problems: tuple[Problem, ...] = ()
    """Warnings about its record."""


def plan_serving(run: Run, *, weights: str, file: str = "") -> ServingPlan:
    """Return the plan of the run's server. Raises SpecError if it cannot be served.

    `weights`: folder of the export, or its repository on the hub; it need not exist yet.
    """
    found = errors_in((*check(run, {}, Facts()), *check_server_token(run, weights=weights)))
    plan = None if found else plan_of_server(run, weights=weights)
    if plan is None:
        raise SpecError(tuple(problem.in_file(file) for problem in found))
    if lost := tuple(audit_problems(audit_server(plan, run))):
        raise SpecError(tuple(problem.in_file(file) for problem in lost))
    return plan


def find_server(cluster: Cluster, plan: ServingPlan) -> StageFound:
    """Return the state of the server with these inputs. Raises as `Cluster` does."""
    deployment = cluster.servers.get(plan.manifest)
    server = parse_server(deployment) if deployment else None
    if server is None or server.deleting_at:
        return StageFound(state="missing", why=f"there is no Deployment {plan.run_name} in {plan.namespace}")
    if server.spec_digest != plan.digest:
        return StageFound(state="missing", why=f"the Deployment {plan.run_name} serves something else")
    for body in plan.dependents:
        if cluster.servers.get(body) is None:  # its creator was killed before it created this object
            return StageFound(state="torn", why=f"the Deployment {plan.run_name} has no {body['kind']}")
    pods = cluster.reads.pods(namespace=plan.namespace, labels=f"{RUN_LABEL}={plan.run_name}").objects
    seen = server_state(server, pods)
    return StageFound(state=seen.state, why=_with_log(cluster, plan, seen), result=plan.output)


def begin(cluster: Cluster, plan: ServingPlan, *, record: ServerRecord, progress: ShowLine) -> BegunServer:
    """Create the server unless it exists, and return once its three objects do and its record says so.

    Raises Refused if one of their names is taken, SpecError if the cluster refuses one, and as `Cluster` and
    `ServerRecord.begin` do.
    """
    progress(f"looking for the Deployment {plan.run_name}")
    # Check before the Deployment exists: every caller creates it first, so an object without it has another owner.
    dependents = [(one, cluster.servers.get(one)) for one in plan.dependents]
    deployment = cluster.servers.get(plan.manifest)
    if deployment is not None:
        return _adopt_server(cluster, plan, deployment, record=record)
    for dependent, held in dependents:
        _refuse_taken(dependent, held, uid=None)
    progress("validating the server with a dry run")
    for body in (plan.manifest, *plan.dependents):
        cluster.servers.dry_run(body)
    begun = record.begin(plan)
    progress(f"creating the Deployment {plan.run_name}")
    outcome = _create(cluster, plan, begun, record=record)
    if isinstance(outcome, ExistingObject):  # another caller was first
        return _adopt_server(cluster, plan, outcome.object, record=record)
    uid = parse_server(outcome.object).uid
    _create_owned(cluster, plan, uid=uid)
    action: ServerAction = "created" if begun.record.last.number == 1 else "attempt"
    return BegunServer(action=action, uid=uid, problems=record.finish(begun, uid=uid))


def stop_argv(cluster: Cluster, plan: ServingPlan) -> tuple[str, ...]:
    """Return the command that ends the server, the Service and the budget."""
    return ("xsft", "cancel", plan.run_name, "--context", cluster.context, "--namespace", plan.namespace)


def _create(
    cluster: Cluster, plan: ServingPlan, begun: RecordRef, *, record: ServerRecord
) -> CreatedObject | ExistingObject:
    try:
        return cluster.servers.create(plan.manifest, mark=record.provenance.submitter)
    except XsftError as failed:
        if isinstance(failed, SpecError) or is_refusal(failed):
            record.refused(begun, reason=failed.message)
        raise


def _adopt_server(cluster: Cluster, plan: ServingPlan, deployment: JsonObject, *, record: ServerRecord) -> BegunServer:
    server = parse_server(deployment)
    _refuse_other(cluster, plan, server, deployment)
    _create_owned(cluster, plan, uid=server.uid)
    return BegunServer(action="adopted", uid=server.uid, problems=record.complete(plan, uid=server.uid))


def _refuse_other(cluster: Cluster, plan: ServingPlan, server: RunObject, deployment: JsonObject) -> None:
    """Raise Refused unless the Deployment is this server."""
    stop = " ".join(stop_argv(cluster, plan))
    if not server.ours or server.run_name != plan.run_name:
        message = f"The name {plan.run_name} is taken by a Deployment that xsft did not create (uid {server.uid})."
        raise Refused(message, fix="Use another name for the run: --run-name NAME.", id="server-name-taken")
    if server.deleting_at:
        message = f"The Deployment {plan.run_name} is being deleted."
        raise Refused(message, fix="Run the same command again in a minute.", id="server-ending", again="helps")
    if server.spec_digest != plan.digest:
        differs = missing_values(plan.manifest, deployment)
        lines = (f"The Deployment {plan.run_name} serves something else:", *differs[:MAX_DIFFERENCES])
        fix = f"Nothing was changed. To end that server: {stop}; then run the same command again."
        raise Refused("\n  ".join(lines), fix=fix, id="server-differs")


def _create_owned(cluster: Cluster, plan: ServingPlan, *, uid: str) -> None:
    """Create what the Deployment owns, unless it exists."""
    for dependent in plan.dependents:
        outcome = cluster.servers.create(owned_by(dependent, name=plan.run_name, uid=uid))
        if isinstance(outcome, ExistingObject):
            _refuse_taken(dependent, outcome.object, uid=uid)


def _refuse_taken(dependent: JsonObject, existing: JsonObject | None, *, uid: str | None) -> None:
    """Raise Refused if the object exists and the Deployment does not own it. `uid`: None if there is no Deployment."""
    owners = [one.get("uid") for one in (existing or {}).get("metadata", {}).get("ownerReferences") or ()]
    if existing is None or uid in owners:
        return
    kind, name = dependent["kind"], dependent["metadata"]["name"]
    whose = "an earlier server, which is being deleted" if owners else "another owner"
    fix = "Run the same command again in a minute." if owners else "Use another name for the run: --run-name NAME."
    raise Refused(f"The {kind} {name} exists and belongs to {whose}.", fix=fix, id="server-name-taken")


def _with_log(cluster: Cluster, plan: ServingPlan, seen: ServerState) -> str:
    """Return the reason, with the last log lines of a container that crashed."""
    if seen.crashed is None:
        return seen.why
    pod, container = seen.crashed
    lines = cluster.servers.last_lines(pod, container, namespace=plan.namespace, count=LAST_LINES)
    if not lines:
        return seen.why
    return "\n  ".join((f"{seen.why}; its last lines:", *lines))


def confirm_server(plan: ServingPlan, *, ask: AskUser | None) -> None:
    """Ask before accelerators are taken; None: do not ask. Raises UserRefusal for any answer but yes."""
    shape = plan.inputs.shape
    question = f"Create {plan.run_name} on one {shape.machine} ({shape.name}), until you end it? [y/N] "
    if ask is not None and not ask(question):
        raise UserRefusal("Nothing was created.")


def wait_for_server(
    cluster: Cluster, plan: ServingPlan, *, timeout_s: float | None, poll_s: float, say: ShowLine
) -> None:
    """Return when /health answers, as the readiness of its pod says. Raises RunFailed if the server cannot start or is
    deleted, TimedOut. Ctrl-C leaves the server running.
    """
    deadline = NEVER if timeout_s is None else Deadline.after(timeout_s)
    last_why = ""
    with when_interrupted(f"The server continues. To end it: {stop_line(cluster, plan)}"):
        while True:
            now = deadline.look(f"the server {plan.run_name}", lambda: find_server(cluster, plan), say=say)
            if now.why != last_why:
                say(f"{plan.run_name}: {now.why}")
                last_why = now.why
            match now.state:
                case "done":
                    return
                case "failed" | "torn" | "missing":
                    fix = f"It is kept. To end it: {stop_line(cluster, plan)}"
                    raise RunFailed(f"{plan.run_name} does not serve: {now.why}", fix=fix, id="server-failed")
                case "running":
                    pass
            if timeout_s is not None and deadline.left_s < poll_s:
                fix = "The server continues to start; the same command finds it and waits again."
                raise TimedOut(f"Timed out after {duration_text(timeout_s)}: {plan.run_name}: {now.why}.", fix=fix)
            clock.pause(poll_s)


def stop_line(cluster: Cluster, plan: ServingPlan) -> str:
    return shlex.join(stop_argv(cluster, plan))
