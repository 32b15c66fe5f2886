"""Parse the Deployment of a server into the fields that a state depends on. Pure; nothing here raises."""

from __future__ import annotations

from xsft.aliases import JsonObject
from xsft.launchers.labels import DIGEST_ANNOTATION, OUTPUT_ANNOTATION, RUN_LABEL
from xsft.reading.jobsets import MANAGER_LABEL, conditions_of, tpu_of
from xsft.reading.lenient import count, mapping, rows, text
from xsft.states.model import SERVER_JOB, JobSet, ReplicatedJob


def server_of(json: JsonObject) -> JobSet:
    """Return the Deployment. Its one job is ready if the pod is: if /health answers."""
    metadata, spec, status = mapping(json, "metadata"), mapping(json, "spec"), mapping(json, "status")
    labels, annotations = mapping(metadata, "labels"), mapping(metadata, "annotations")
    name, run_name = text(metadata.get("name")) or "", text(labels.get(RUN_LABEL))
    pod = mapping(spec, "template", "spec")
    tpu = tpu_of(pod)
    return JobSet(
        kind="Deployment",
        name=name,
        namespace=text(metadata.get("namespace")) or "",
        uid=text(metadata.get("uid")) or "",
        created_at=text(metadata.get("creationTimestamp")) or "",
        run_name=run_name or name,
        ours=run_name is not None and labels.get(MANAGER_LABEL) == "xsft",
        tpu=tpu,
        num_slices=1 if tpu else None,
        output=text(annotations.get(OUTPUT_ANNOTATION)),
        spec_digest=text(annotations.get(DIGEST_ANNOTATION)),
        image=next((text(one.get("image")) for one in rows(pod.get("containers"))), None),
        conditions=conditions_of(status),
        jobs=(ReplicatedJob(name=SERVER_JOB, replicas=1, ready=count(status.get("readyReplicas"))),),
        has_status=bool(status),
        work="serve",
        deleting_at=text(metadata.get("deletionTimestamp")),
    )
