"""The server of a workload's export: its size, and its objects, a Deployment of vLLM with its Service and
PodDisruptionBudget. Pure.

Kueue does not manage it: it has no queue label, and never ends by itself.
"""

from __future__ import annotations

import math

from msgspec import Struct

from xsft.base.lenient import JsonObject
from xsft.base.names import stage_name
from xsft.base.pointers import JsonValue
from xsft.catalog.arrays import exact_parameters
from xsft.catalog.machines import ServingShape, serving_shape_for
from xsft.catalog.sizes import sizes
from xsft.launcher.encoding import escape_expansion
from xsft.launcher.pod_settings import HF_VOLUME
from xsft.records.jobset_paths import (
    DIGEST_ANNOTATION,
    FOR_ANNOTATION,
    OUTPUT_ANNOTATION,
    RUN_LABEL,
    SERVES_ANNOTATION,
    WORK_LABEL,
    target_label,
)
from xsft.spec.resolve import Run
from xsft.spec.serving_inputs import BUCKET, CONTAINER, COPIER, PORT, ServingInputs, TokenSecret
from xsft.spec.stages import ServeStage
from xsft.trainer.trainer import HF_TOKEN_DIRECTORY
from xsft.workers.delivery import text_of

DEFAULT_LENGTH = 2048
"""Default of MaxText's max_target_length; source: maxtext@0.2.5 configs/base.yml."""
BF16_BYTES = 2
"""Bytes of one parameter of an export."""
HEALTH = "/health"
"""Answers 200 only when the engine is loaded, and 503 when it is dead. source: vllm@0.11.0
vllm/entrypoints/openai/api_server.py health; the server listens after the engine is built (build_async_engine_client).
"""
PERIOD_S = 10
TIMEOUT_S = 5
"""Seconds of one probe; the engine answers between two steps of its model."""

WEIGHTS = "/weights"
BUCKETS = "/bucket"
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a mount point in the pod
SHARED_MEMORY_SIZE = "2Gi"
"""source: vllm@0.11.0 docs/deployment/k8s.md"""
HOST_GIB, HOST_GIB_EACH = 8, 4
"""GiB of the host's memory for the server's processes: in all, and for each accelerator."""
COPIER_GIB = 2

FUSE_DRIVER = "gcsfuse.csi.storage.gke.io"
FUSE_ANNOTATION = "gke-gcsfuse/volumes"
"""source: docs.cloud.google.com/kubernetes-engine/docs/how-to/cloud-storage-fuse-csi-driver-ephemeral"""
SERVICE_TYPES = {"cluster": "ClusterIP", "vpc": "LoadBalancer"}
VPC_ANNOTATION = "networking.gke.io/load-balancer-type"
"""source: docs.cloud.google.com/kubernetes-engine/docs/concepts/service-load-balancer-parameters"""


def serve_stage(run: Run) -> ServeStage:
    """Return the workload's serve stage; all defaults if it names none."""
    return run.spec.stages.serve or ServeStage()


def plan_of_server(run: Run, *, weights: str) -> ServingPlan | None:
    """Return the plan of the run's server on a cluster; None if it cannot be planned, and a check says why.

    `weights`: folder of the export, or its repository on the hub.
    """
    inputs = serving_inputs(run, weights=weights)
    if inputs is None:
        return None
    return serving_plan(
        inputs,
        run_name=stage_name(run_name=run.run_name, stage="serve"),
        training=run.run_name,
        target=run.spec.target,
        namespace=run.namespace,
        output=run.output or "",
        priority=run.spec.priority,
    )


def serving_inputs(run: Run, *, weights: str) -> ServingInputs | None:
    """Return the inputs that decide the server; None without an image, or without accelerators that hold the model."""
    stage = serve_stage(run)
    size = weights_bytes(run)
    shape = shape_of(run)
    if stage.image is None or size is None or shape is None:
        return None
    token = None if weights.startswith(BUCKET) else run.spec.secrets.hf_token
    return ServingInputs(
        weights=weights.rstrip("/"),
        weights_bytes=size,
        weights_by=stage.weights,
        image=stage.image,
        copier=run.spec.image.ref,
        shape=shape,
        served_model_name=run.run_name,
        max_model_len=model_len(run),
        expose=stage.expose,
        service_account=stage.service_account,
        token=TokenSecret(secret=token.secret, key=token.key) if token else None,
        pull_secret=run.spec.image.pull_secret,
    )


def shape_of(run: Run) -> ServingShape | None:
    """Return the accelerators of the server; None if none hold the model, or its size is unknown."""
    size = weights_bytes(run)
    return serving_shape_for(serve_stage(run).type, weights=size, heads=attention_heads(run)) if size else None


def model_len(run: Run) -> int:
    """Return the tokens of prompt and answer that the server takes: by default those that were trained."""
    return serve_stage(run).max_model_len or run.spec.train.max_target_length or DEFAULT_LENGTH


def weights_bytes(run: Run) -> int | None:
    """Return the bytes of the model's weights in bfloat16; None if its size is unknown."""
    exact = exact_parameters(run.spec.model.name, run.spec.overrides.maxtext, release=run.release.version)
    if exact is not None:
        return BF16_BYTES * exact
    catalogued = run.model.params_b if run.model else None
    return int(BF16_BYTES * catalogued * 1e9) if catalogued else None


def attention_heads(run: Run) -> int:
    """Return the query heads of a layer; 0, which any number divides, if they are unknown."""
    model_sizes = sizes(run.spec.model.name, run.spec.overrides.maxtext) if run.model else None
    return model_sizes["base_num_query_heads"] if model_sizes else 0


def serving_plan(
    inputs: ServingInputs, *, run_name: str, training: str, target: str, namespace: str, output: str, priority: str
) -> ServingPlan:
    """Return the plan with all three objects. `target`, `output`: the training's launcher and base_output_directory."""
    pod_labels = {"app.kubernetes.io/managed-by": "xsft", **_selector(run_name)}
    labels = {**pod_labels, **target_label(target)}
    annotations = {
        DIGEST_ANNOTATION: inputs.digest,
        OUTPUT_ANNOTATION: output,
        FOR_ANNOTATION: training,
        SERVES_ANNOTATION: inputs.weights,
    }
    metadata = {"name": run_name, "namespace": namespace, "labels": labels, "annotations": annotations}
    pod_metadata: JsonValue = {"labels": pod_labels}
    if inputs.is_in_bucket and not inputs.is_copied:
        pod_metadata["annotations"] = {FUSE_ANNOTATION: "true"}
    selector = {"matchLabels": _selector(run_name)}
    deployment = {
        "replicas": 1,
        "strategy": {"type": "Recreate"},  # a second pod beside the first would wait for accelerators that are taken
        "progressDeadlineSeconds": inputs.progress_s,
        "selector": selector,
        "template": {"metadata": pod_metadata, "spec": _pod(inputs, priority=priority)},
    }
    # It keeps the only pod during a voluntary disruption; GKE respects it for one hour.
    budget = {"minAvailable": 1, "selector": selector}
    return ServingPlan(
        run_name=run_name,
        training=training,
        namespace=namespace,
        inputs=inputs,
        manifest={"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": deployment},
        dependents=(
            _service(inputs, metadata),
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": budget},
        ),
    )


def owned_by(dependent: JsonValue, *, name: str, uid: str) -> JsonValue:
    """Return the object owned by the Deployment: the garbage collector deletes it after its owner."""
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": uid}
    return {**dependent, "metadata": {**dependent["metadata"], "ownerReferences": [owner]}}


def vllm_argv(inputs: ServingInputs) -> tuple[str, ...]:
    """Return the server's command. source: vllm@0.11.0 vllm/entrypoints/openai/cli_args.py, vllm/engine/arg_utils.py"""
    return (
        "vllm",
        "serve",
        model_path(inputs),
        *((f"--revision={inputs.commit}", f"--tokenizer-revision={inputs.commit}") if inputs.commit else ()),
        f"--served-model-name={inputs.served_model_name}",
        f"--max-model-len={inputs.max_model_len}",
        f"--tensor-parallel-size={inputs.shape.count}",
        "--host=0.0.0.0",
        f"--port={PORT}",
    )


def model_path(inputs: ServingInputs) -> str:
    """Return the model argument of vLLM: a folder in the pod, or a repository on the hub."""
    if not inputs.is_in_bucket:
        return inputs.repository
    return WEIGHTS if inputs.is_copied else f"{BUCKETS}/{inputs.folder}"


def serving_env(inputs: ServingInputs) -> dict[str, str]:
    """Return the server's variables. Weights that are in the pod are loaded without a network.

    source: vllm@0.11.0 docs/usage/usage_stats.md; huggingface_hub@1.0.0 constants.py
    """
    quiet = {"VLLM_NO_USAGE_STATS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    if inputs.is_in_bucket:
        return {**quiet, "HF_HUB_OFFLINE": "1"}
    token = {"HF_TOKEN_PATH": f"{HF_TOKEN_DIRECTORY}/{inputs.token.key}"} if inputs.token else {}
    return {**quiet, "HF_HOME": WEIGHTS, **token}


def _selector(run_name: str) -> dict[str, str]:
    return {RUN_LABEL: run_name, WORK_LABEL: "serve"}


def _pod(inputs: ServingInputs, *, priority: str) -> JsonValue:
    toleration = {"key": inputs.shape.resource, "operator": "Exists", "effect": "NoSchedule"}
    shared_memory = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": SHARED_MEMORY_SIZE}}
    return {
        "automountServiceAccountToken": False,
        "priorityClassName": priority,
        "nodeSelector": inputs.shape.node_selector,
        "tolerations": [toleration],
        **({"serviceAccountName": inputs.service_account} if inputs.service_account else {}),
        **({"imagePullSecrets": [{"name": inputs.pull_secret}]} if inputs.pull_secret else {}),
        **({"initContainers": [_copier(inputs)]} if inputs.is_copied else {}),
        "containers": [_server(inputs)],
        "volumes": [_weights_volume(inputs), *_token_volume(inputs), shared_memory],
    }


def _server(inputs: ServingInputs) -> JsonValue:
    command, *args = vllm_argv(inputs)
    token_mounts = [
        {"name": volume["name"], "mountPath": HF_TOKEN_DIRECTORY, "readOnly": True} for volume in _token_volume(inputs)
    ]
    probe = {"httpGet": {"path": HEALTH, "port": "http"}, "periodSeconds": PERIOD_S, "timeoutSeconds": TIMEOUT_S}
    return {
        "name": CONTAINER,
        "image": inputs.image,
        "command": [command],
        "args": [escape_expansion(arg) for arg in args],
        "env": [{"name": name, "value": value} for name, value in serving_env(inputs).items()],
        "ports": [{"name": "http", "containerPort": PORT}],
        "resources": server_resources(inputs),
        "securityContext": {"allowPrivilegeEscalation": False},
        "startupProbe": {**probe, "failureThreshold": math.ceil(inputs.load_s / PERIOD_S)},
        "readinessProbe": {**probe, "failureThreshold": 3},
        "volumeMounts": [_weights_mount(inputs), *token_mounts, {"name": "shm", "mountPath": SHARED_MEMORY}],
    }


def server_resources(inputs: ServingInputs) -> JsonValue:
    """Return requests and limits. Half of the machine's processors: GKE and the node's own pods need some."""
    shape = inputs.shape
    accelerators = {shape.resource: str(shape.count)}
    memory = HOST_GIB + HOST_GIB_EACH * shape.count
    if inputs.is_copied or not inputs.is_in_bucket:  # the weights are in the host's memory
        memory += inputs.copy_gib
    return {
        "requests": {"cpu": str(shape.vcpus // 2), "memory": f"{memory}Gi", **accelerators},
        "limits": accelerators,
    }


def _copier(inputs: ServingInputs) -> JsonValue:
    return {
        "name": COPIER,
        "image": inputs.copier,
        "command": ["python3", "-c", escape_expansion(text_of("xsft.workers.copy_weights"))],
        "args": [escape_expansion(inputs.weights), WEIGHTS],
        "resources": {"requests": {"cpu": "4", "memory": f"{inputs.copy_gib + COPIER_GIB}Gi"}},
        "securityContext": {"allowPrivilegeEscalation": False},
        "volumeMounts": [{"name": COPIER, "mountPath": WEIGHTS}],
    }


def _weights_volume(inputs: ServingInputs) -> JsonValue:
    """Return the volume of the weights. In the host's memory, of which these machines have more than their accelerators
    hold: no disk is needed, v6e machines attach no persistent disk, and a restarted server finds the weights there.
    """
    if inputs.is_in_bucket and not inputs.is_copied:
        attributes = {"bucketName": inputs.bucket, "mountOptions": "implicit-dirs"}
        return {"name": COPIER, "csi": {"driver": FUSE_DRIVER, "readOnly": True, "volumeAttributes": attributes}}
    return {"name": COPIER, "emptyDir": {"medium": "Memory", "sizeLimit": f"{inputs.copy_gib}Gi"}}


def _weights_mount(inputs: ServingInputs) -> JsonValue:
    if not inputs.is_in_bucket:
        return {"name": COPIER, "mountPath": WEIGHTS}
    return {"name": COPIER, "mountPath": WEIGHTS if inputs.is_copied else BUCKETS, "readOnly": True}


def _token_volume(inputs: ServingInputs) -> list[JsonValue]:
    """Return the hub's token as a file; only a server that reads the hub has it."""
    if inputs.token is None or inputs.is_in_bucket:
        return []
    secret = {"secretName": inputs.token.secret, "defaultMode": 0o444}
    return [{"name": HF_VOLUME, "secret": secret}]


def _service(inputs: ServingInputs, metadata: JsonValue) -> JsonValue:
    ports = [{"name": "http", "port": PORT, "targetPort": "http"}]
    spec = {"type": SERVICE_TYPES[inputs.expose], "selector": _selector(metadata["name"]), "ports": ports}
    if inputs.expose == "vpc":  # its load balancer would have an address of the internet
        metadata = {**metadata, "annotations": {**metadata["annotations"], VPC_ANNOTATION: "Internal"}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


class ServingPlan(Struct, frozen=True, kw_only=True):
    """One server: a run of its own, `<run_name>-serve`."""

    run_name: str
    """Name of the Deployment, the Service and the PodDisruptionBudget."""
    training: str
    """run_name of the run whose export is served."""
    namespace: str
    inputs: ServingInputs
    manifest: JsonObject
    """The Deployment: exactly what is created."""
    dependents: tuple[JsonObject, ...]
    """The Service and the PodDisruptionBudget, without the ownerReferences that name the Deployment's UID."""

    @property
    def digest(self) -> str:
        return self.inputs.digest

    @property
    def output(self) -> str:
        """Return the address of the server in the cluster."""
        return f"http://{self.run_name}.{self.namespace}.svc.cluster.local:{PORT}/v1"
