"""The record of a server: begun before its Deployment is created, finished with the UID, as those of other runs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Literal

from msgspec import Struct

from xsft.base.errors import XsftError
from xsft.base.problems import Problem, warning
from xsft.launch.recording import Provenance, image_of, manifest_digest
from xsft.launcher.server_manifest import ServingPlan, serving_env, vllm_argv
from xsft.machine import clock
from xsft.records.record import Attempt, AttemptFacts, Record
from xsft.records.record_files import RecordRef, RecordStore, ref_of
from xsft.records.run_cluster import address_of
from xsft.spec.digest import canonical
from xsft.spec.resolve import Run


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
        begun = self.store.begin(_record(plan, self.run, self.provenance, number=number))
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
            return self._index(plan, number=records[-1].last.number if records else 1, uid=uid)
        if any(one.last.uid == uid for one in records):
            return self.refused(ref_of(records[-1]), reason="another caller had created the server")
        return self.finish(ref_of(records[-1]), uid=uid)

    def _index(self, plan: ServingPlan, *, number: int, uid: str) -> tuple[Problem, ...]:
        """Add a server that another machine created to the local index."""
        record = _record(plan, self.run, self.provenance, number=number)
        found = replace(record, attempts=(replace(record.last, outcome="created", uid=uid),))
        return self.store.index_found(found, ref_of(found).path)

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


def _record(plan: ServingPlan, run: Run, provenance: Provenance, *, number: int) -> Record:
    action: Literal["created", "attempt"] = "created" if number == 1 else "attempt"
    attempt = Attempt(
        number=number,
        spec_digest=plan.digest,
        started_at=provenance.at,
        argv=vllm_argv(plan.inputs),
        env=serving_env(plan.inputs),
        outcome="submitting",
        submitter=provenance.submitter,
        action=action,
        jobset=plan.run_name,
        namespace=plan.namespace,
        cluster=address_of(run.place) if run.place else None,
        manifest_digest=manifest_digest(plan.manifest),
        resolved=_resolved_server(plan),
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


def _resolved_server(plan: ServingPlan) -> dict[str, object]:
    shape = plan.inputs.shape
    return {
        "work": "serve",
        "for_run": plan.training,
        "serves": plan.inputs.weights,
        "writes": plan.output,
        "machine": shape.machine,
        "accelerators": f"{shape.count} of {shape.accelerator}",
    }
