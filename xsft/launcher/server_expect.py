"""The audit of a server: the expected content of its objects, field by field of the workload. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from xsft.base.pointers import Item, NamedEntry, Pointer
from xsft.launcher.audit import AuditRow, Expectation, audit
from xsft.launcher.server_manifest import HEALTH, ServingPlan, model_len, serve_stage, shape_of
from xsft.records.jobset_paths import DIGEST_ANNOTATION, FOR_ANNOTATION, RUN_LABEL, SERVES_ANNOTATION, target_label
from xsft.spec.resolve import Run
from xsft.spec.serving_inputs import CONTAINER, COPIER, ServingInputs

POD: Pointer = ("spec", "template", "spec")
SERVER: Pointer = (*POD, "containers", NamedEntry(CONTAINER))


def audit_server(plan: ServingPlan, run: Run) -> tuple[AuditRow, ...]:
    """Return one row per field of the workload that the Deployment must hold."""
    return audit(_server_expectations(plan, run), rendered=plan.manifest, manifest=plan.manifest)


def _server_expectations(plan: ServingPlan, run: Run) -> Iterator[Expectation]:
    annotations: Pointer = ("metadata", "annotations")
    yield Expectation(field="name", path=("metadata", "name"), value=f"{run.run_name}-serve")
    yield Expectation(field="name", path=("metadata", "labels", RUN_LABEL), value=plan.run_name)
    yield Expectation(field="name", path=(*annotations, FOR_ANNOTATION), value=run.run_name)
    yield Expectation(field="name", path=(*annotations, SERVES_ANNOTATION), value=plan.inputs.weights)
    yield Expectation(field="name", path=(*annotations, DIGEST_ANNOTATION), value=plan.digest)
    for label, value in target_label(run.spec.target).items():
        yield Expectation(field="target", path=("metadata", "labels", label), value=value)
    yield Expectation(field="place.namespace", path=("metadata", "namespace"), value=run.namespace)
    yield Expectation(field="priority", path=(*POD, "priorityClassName"), value=run.spec.priority)
    stage = serve_stage(run)
    flags = {
        "name": f"--served-model-name={run.run_name}",
        "stages.serve.max_model_len": f"--max-model-len={model_len(run)}",
    }
    yield Expectation(field="stages.serve.image", path=(*SERVER, "image"), value=stage.image)
    for field, flag in flags.items():
        yield Expectation(field=field, path=(*SERVER, "args", Item(flag)), value=flag)
    if shape := shape_of(run):
        kind = "stages.serve.type"
        flag = f"--tensor-parallel-size={shape.count}"
        limit = (*SERVER, "resources", "limits", shape.resource)
        yield Expectation(field=kind, path=(*SERVER, "args", Item(flag)), value=flag, requested=stage.type)
        yield Expectation(field=kind, path=limit, value=str(shape.count), requested=stage.type)
        for label, value in shape.node_selector.items():
            yield Expectation(field=kind, path=(*POD, "nodeSelector", label), value=value, requested=stage.type)
    for probe in ("startupProbe", "readinessProbe"):
        yield Expectation(field="health", path=(*SERVER, probe, "httpGet", "path"), value=HEALTH)
    yield from _expect_weights(plan.inputs, run)


def _expect_weights(inputs: ServingInputs, run: Run) -> Iterator[Expectation]:
    stage = serve_stage(run)
    if stage.service_account:
        path = (*POD, "serviceAccountName")
        yield Expectation(field="stages.serve.service_account", path=path, value=stage.service_account)
    if run.spec.image.pull_secret:
        secret = [{"name": run.spec.image.pull_secret}]
        yield Expectation(field="image.pull_secret", path=(*POD, "imagePullSecrets"), value=secret)
    if not inputs.is_in_bucket:
        return
    if stage.weights == "copy":
        copier = (*POD, "initContainers", NamedEntry(COPIER))
        yield Expectation(field="stages.serve.weights", path=(*copier, "args", 0), value=inputs.weights)
        yield Expectation(field="image.ref", path=(*copier, "image"), value=run.spec.image.ref)
    else:
        bucket = (*POD, "volumes", NamedEntry(COPIER), "csi", "volumeAttributes", "bucketName")
        yield Expectation(field="stages.serve.weights", path=bucket, value=inputs.bucket)
