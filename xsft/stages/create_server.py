"""Starts a server on its cluster exactly once: read, decide, record, create, and wait for it. Every step is safe to
repeat.

Its record is begun before its Deployment is created and finished with the UID, as those of other runs.
"""

from __future__ import annotations

import json
import shlex
from typing import Literal

from msgspec import Struct

from xsft.base.amounts import duration_text
from xsft.base.errors import Refused, RunFailed, SpecError, TimedOut, UserRefusal, XsftError
from xsft.base.lenient import JsonObject, ShowLine
from xsft.base.problems import Problem, errors_in, warning
from xsft.base.reporting import AskUser
from xsft.base.stage import StageFound
from xsft.checks.facts import Facts
from xsft.checks.serving import check, check_server_token
from xsft.cluster.cluster import Cluster
from xsft.cluster.exactly_once import ExistingObject, is_refusal
from xsft.cluster.jobset_fields import parse_server
from xsft.launch.recording import Provenance, image_of, manifest_digest
from xsft.launcher.audit import audit_problems
from xsft.launcher.readback import missing_values
from xsft.launcher.server_expect import audit_server
from xsft.launcher.server_manifest import ServingPlan, owned_by, plan_of_server, serving_env, vllm_argv
from xsft.machine import clock
from xsft.machine.deadline import NEVER, Deadline
from xsft.machine.signals import when_interrupted
from xsft.records.jobset_paths import RUN_LABEL
from xsft.records.record import Attempt, AttemptFacts, Record
from xsft.records.record_files import RecordRef, RecordStore, ref_of
from xsft.records.run_cluster import address_of
from xsft.runs.server_states import ServerState, server_state
from xsft.spec.digest import canonical
from xsft.spec.resolve import Run

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
    errors = errors_in((*check(run, {}, Facts()), *check_server_token(run, weights=weights)))
    plan = None if errors else plan_of_server(run, weights=weights)
    if plan is None:
        raise SpecError(tuple(problem.in_file(file) for problem in errors))
    if losses := tuple(audit_problems(audit_server(plan, run))):
        raise SpecError(tuple(problem.in_file(file) for problem in losses))
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
    state = server_state(server, pods)
    return StageFound(state=state.state, why=_with_log(cluster, plan, state), result=plan.output)


def begin(cluster: Cluster, plan: ServingPlan, *, record: ServerRecord, progress: ShowLine) -> BegunServer:
    """Create the server unless it exists, and return once its three objects do and its record says so.

    Raises Refused if one of their names is taken, SpecError if the cluster refuses one, and as `Cluster` and
    `ServerRecord.begin` do.
    """
    progress(f"looking for the Deployment {plan.run_name}")
    # Check before the Deployment exists: every caller creates it first, so an object without it has another owner.
    dependents = [(dependent_body, cluster.servers.get(dependent_body)) for dependent_body in plan.dependents]
    deployment = cluster.servers.get(plan.manifest)
    if deployment is not None:
        return _adopt_server(cluster, plan, deployment, record=record)
    for dependent, existing in dependents:
        _refuse_taken(dependent, existing, uid=None)
    progress("validating the server with a dry run")
    for body in (plan.manifest, *plan.dependents):
        cluster.servers.dry_run(body)
    begun = record.begin(plan)
    progress(f"creating the Deployment {plan.run_name}")
    try:
        outcome = cluster.servers.create(plan.manifest, mark=record.provenance.submitter)
    except XsftError as failed:
        # Any other failure may come after the create: the record stays open, and the next call looks.
        if isinstance(failed, SpecError) or is_refusal(failed):
            record.refused(begun, reason=failed.message)
        raise
    if isinstance(outcome, ExistingObject):  # another caller was first
        return _adopt_server(cluster, plan, outcome.object, record=record)
    uid = parse_server(outcome.object).uid
    _create_owned(cluster, plan, uid=uid)
    action: ServerAction = "created" if begun.record.last.number == 1 else "attempt"
    return BegunServer(action=action, uid=uid, problems=record.finish(begun, uid=uid))


def stop_argv(cluster: Cluster, plan: ServingPlan) -> tuple[str, ...]:
    """Return the command that ends the server, the Service and the budget."""
    return ("xsft", "cancel", plan.run_name, "--context", cluster.context, "--namespace", plan.namespace)


def _adopt_server(cluster: Cluster, plan: ServingPlan, deployment: JsonObject, *, record: ServerRecord) -> BegunServer:
    """Complete what another caller began. Raises Refused if the Deployment is not this server."""
    server = parse_server(deployment)
    if not server.ours or server.run_name != plan.run_name:
        message = f"The name {plan.run_name} is taken by a Deployment that xsft did not create (uid {server.uid})."
        raise Refused(message, fix="Use another name for the run: --run-name NAME.", id="server-name-taken")
    if server.deleting_at:
        message = f"The Deployment {plan.run_name} is being deleted."
        raise Refused(message, fix="Run the same command again in a minute.", id="server-ending", again="helps")
    if server.spec_digest != plan.digest:
        differs = missing_values(plan.manifest, deployment)
        lines = (f"The Deployment {plan.run_name} serves something else:", *differs[:MAX_DIFFERENCES])
        stop = " ".join(stop_argv(cluster, plan))
        fix = f"Nothing was changed. To end that server: {stop}; then run the same command again."
        raise Refused("\n  ".join(lines), fix=fix, id="server-differs")
    _create_owned(cluster, plan, uid=server.uid)
    return BegunServer(action="adopted", uid=server.uid, problems=record.complete(plan, uid=server.uid))


def _create_owned(cluster: Cluster, plan: ServingPlan, *, uid: str) -> None:
    """Create what the Deployment owns, unless it exists."""
    for dependent in plan.dependents:
        outcome = cluster.servers.create(owned_by(dependent, name=plan.run_name, uid=uid))
        if isinstance(outcome, ExistingObject):
            _refuse_taken(dependent, outcome.object, uid=uid)


def _refuse_taken(dependent: JsonObject, existing: JsonObject | None, *, uid: str | None) -> None:
    """Raise Refused if the object exists and the Deployment does not own it. `uid`: None if there is no Deployment."""
    owners = [owner.get("uid") for owner in (existing or {}).get("metadata", {}).get("ownerReferences") or ()]
    if existing is None or uid in owners:
        return
    kind, name = dependent["kind"], dependent["metadata"]["name"]
    whose = "an earlier server, which is being deleted" if owners else "another owner"
    fix = "Run the same command again in a minute." if owners else "Use another name for the run: --run-name NAME."
    raise Refused(f"The {kind} {name} exists and belongs to {whose}.", fix=fix, id="server-name-taken")


def _with_log(cluster: Cluster, plan: ServingPlan, state: ServerState) -> str:
    """Return the reason, with the last log lines of a container that crashed."""
    if state.crashed is None:
        return state.why
    pod, container = state.crashed
    lines = cluster.servers.last_lines(pod, container, namespace=plan.namespace, count=LAST_LINES)
    if not lines:
        return state.why
    return "\n  ".join((f"{state.why}; its last lines:", *lines))


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


class ServerRecord(Struct, frozen=True, kw_only=True):
    """The place where a server is recorded, and its user."""

    store: RecordStore
    provenance: Provenance
    run: Run
    """The training's."""

    def begin(self, plan: ServingPlan) -> RecordRef:
        """Write the attempt that is about to be created: the first attempt, the one that a killed caller began, or the
        next one.

        Raises as `RecordStore.begin`; nothing should be created then.
        """
        before = self.store.read_run(str(self.run.output), plan.run_name)
        number = 1
        if before:
            number = _number_after(before[-1].last)
        begun = self.store.begin(_record(plan, self.run, self.provenance, number=number, outcome="submitting"))
        return begun if isinstance(begun, RecordRef) else begun.ref

    def finish(self, ref: RecordRef, *, uid: str) -> tuple[Problem, ...]:
        """Record that the Deployment exists. Returns a warning if that cannot be written."""
        return self._finish(
            ref, AttemptFacts(outcome="created", at=clock.now(), submitter=self.provenance.submitter, uid=uid)
        )

    def refused(self, ref: RecordRef, *, reason: str) -> tuple[Problem, ...]:
        """Record that the cluster created nothing."""
        facts = AttemptFacts(outcome="not-created", at=clock.now(), submitter=self.provenance.submitter, reason=reason)
        return self._finish(ref, facts)

    def complete(self, plan: ServingPlan, *, uid: str) -> tuple[Problem, ...]:
        """Record the existing Deployment, if its creator was killed before it could. An attempt that began while
        another one created it made nothing. Never raises XsftError.
        """
        try:
            records = self.store.read_run(str(self.run.output), plan.run_name)
        except XsftError as failed:
            return (_unwritten_warning(plan.run_name, failed),)
        if not records or records[-1].last.outcome != "submitting":
            number = records[-1].last.number if records else 1
            record = _record(plan, self.run, self.provenance, number=number, outcome="created", uid=uid)
            # Another machine may have created it: the local index lacks it then.
            return self.store.index_found(record, ref_of(record).path)
        if any(earlier.last.uid == uid for earlier in records):
            return self.refused(ref_of(records[-1]), reason="another caller had created the server")
        return self.finish(ref_of(records[-1]), uid=uid)

    def _finish(self, ref: RecordRef, facts: AttemptFacts) -> tuple[Problem, ...]:
        try:
            return (*ref.problems, *self.store.finish(ref, facts).problems)
        except XsftError as failed:
            return (*ref.problems, _unwritten_warning(ref.record.run_name, failed))


def _number_after(last: Attempt) -> int:
    """Return the number of the next attempt: that of the last one if its creation was interrupted."""
    if last.outcome == "submitting":
        return last.number
    return last.number + 1


def _unwritten_warning(run_name: str, failed: XsftError) -> Problem:
    message = f"The record of {run_name} could not be completed: {failed.message}"
    return warning("record-not-finished", "", message, "Run the same command again: it adopts the server.")


def _record(
    plan: ServingPlan,
    run: Run,
    provenance: Provenance,
    *,
    number: int,
    outcome: Literal["submitting", "created"],
    uid: str | None = None,
) -> Record:
    shape = plan.inputs.shape
    attempt = Attempt(
        number=number,
        spec_digest=plan.digest,
        started_at=provenance.at,
        argv=vllm_argv(plan.inputs),
        env=serving_env(plan.inputs),
        outcome=outcome,
        uid=uid,
        submitter=provenance.submitter,
        action="created" if number == 1 else "attempt",
        jobset=plan.run_name,
        namespace=plan.namespace,
        cluster=address_of(run.place) if run.place else None,
        manifest_digest=manifest_digest(plan.manifest),
        resolved={
            "work": "serve",
            "for_run": plan.training,
            "serves": plan.inputs.weights,
            "writes": plan.output,
            "machine": shape.machine,
            "accelerators": f"{shape.count} of {shape.accelerator}",
        },
        image=image_of(plan.inputs.image),
        git=provenance.git,
        versions=provenance.versions,
        user=provenance.user,
    )
    return Record(
        run_name=plan.run_name,
        spec_digest=plan.digest,
        spec=json.loads(canonical(run)),
        target=run.spec.target,
        output=run.output,
        attempts=(attempt,),
    )
