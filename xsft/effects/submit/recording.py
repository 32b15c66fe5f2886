"""What a record says beside the plan: who, when, from which checkout, with which versions."""

from __future__ import annotations

import getpass
import hashlib
import importlib.metadata
import json
import platform
import secrets
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from xsft.effects.environments import environments
from xsft.effects.facts import gather
from xsft.effects.inputs.checkout import checkout
from xsft.effects.machine import clock
from xsft.records.model import Attempt, Cluster, Git, Image, Record
from xsft.spec.digest import canonical
from xsft.steps import Plan
from xsft.trainers.shuffling import order_at_first


class Provenance(Struct, frozen=True, kw_only=True):
    """Gathered once for a submission."""

    submitter: str
    """16 hex digits, by chance."""
    at: str
    """UTC, ISO 8601."""
    user: str
    git: Git | None
    versions: Mapping[str, str]


def gather_provenance(file: str) -> Provenance:
    """For a workload at `file`, whose folder's checkout counts. Never raises: what cannot be told is left out."""
    folder = gather.folder_of(file)
    found = checkout(folder)
    return Provenance(
        submitter=secrets.token_hex(8),
        at=clock.now(),
        user=user_name(),
        git=Git(commit=found.commit, dirty=found.dirty) if found else None,
        versions=_versions(),
    )


def record_of(
    plan: Plan, provenance: Provenance, *, number: int = 1, action: str = "created", resumes_from: int | None = None
) -> Record:
    """The record to begin: one attempt, `submitting`. `action` is what submit is about to do; `resumes_from`: the last
    step that is saved.
    """
    run = plan.run
    attempt = Attempt(
        number=number,
        spec_digest=plan.spec_digest,
        started_at=provenance.at,
        argv=plan.trainer_argv,
        env=plan.trainer_env,
        outcome="submitting",
        problems=tuple(problem for problem in plan.problems if problem.severity != "error"),
        submitter=provenance.submitter,
        action=action,
        jobset=plan.jobset if plan.on_cluster else None,
        namespace=run.namespace if plan.on_cluster else None,
        cluster=_cluster(plan),
        xpk_argv=plan.xpk_argv,
        manifest_digest=manifest_digest(plan.manifest) if plan.manifest else None,
        resolved=_resolved(plan),
        image=image_of(run.spec.image.ref) if run.spec.image.ref else None,
        git=provenance.git,
        versions={**provenance.versions, "maxtext": run.release.version},
        user=provenance.user,
        resumed_from=resumes_from,
        resumed_order=None if resumes_from is None else order_at_first(plan.run),
    )
    return Record(
        run_name=plan.run_name,
        spec_digest=plan.spec_digest,
        spec=json.loads(canonical(run)),
        steps=run.spec.train.steps,
        target=plan.target,
        mode=plan.mode.value,
        output=run.output,
        attempts=(attempt,),
    )


def manifest_digest(manifest: Mapping[str, Any]) -> str:
    """sha256 over sorted keys without spaces, 64 hex digits: equal for equal manifests, however they were written."""
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def image_of(ref: str) -> Image:
    _, _, digest = ref.partition("@")
    return Image(ref=ref, digest=digest or None)


def _cluster(plan: Plan) -> Cluster | None:
    place = plan.run.place
    if not plan.on_cluster or place is None:
        return None
    return Cluster(project=place.project, zone=place.zone, cluster=place.cluster, context=place.context)


def _resolved(plan: Plan) -> dict[str, Any]:
    run = plan.run
    document = {
        "mode_reason": plan.mode.reason,
        "tpu": run.spec.tpu.type if run.spec.tpu else None,
        "num_slices": run.num_slices,
        "chips": run.chips,
        "devices": run.devices,
        "queue": run.queue if plan.on_cluster else None,
        "checkpoint": run.checkpoint,
        "checkpoint_period": run.checkpoint_period,
        "conversion_argv": list(plan.conversion_argv) if plan.conversion_argv else None,
    }
    return {key: value for key, value in document.items() if value is not None}


def _versions() -> dict[str, str]:
    return {"xsft": _own_version(), "xpk": environments.environment_for("xpk").pins["xpk"],
            "python": platform.python_version()}  # fmt: skip


def _own_version() -> str:
    try:
        return importlib.metadata.version("xsft")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def user_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        return "unknown"
