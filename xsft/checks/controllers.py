"""Check the controllers that run a JobSet: JobSet's and Kueue's pods are ready, Kueue manages the JobSet, and what it
requires before a run starts, and while it starts. Pure.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping

import yaml
from msgspec import Struct

from xsft.base.acceptance import LateProblem
from xsft.base.amounts import duration_text, seconds_of, size_text
from xsft.base.lenient import JsonObject, mapping, rows, text
from xsft.base.problems import Problem, note
from xsft.checks.demand import QUEUE_LABEL, TPU, Demand
from xsft.checks.quota import groups_of
from xsft.cluster.objects import ClusterQueue, ResourceFlavor
from xsft.spec.serving_inputs import NODE_S, REMOTE_RATE

JOBSET_OLD = LateProblem(id="jobset-old")
CONTROLLER_NOT_READY = LateProblem(id="controller-not-ready")
KUEUE_NOT_MANAGING = LateProblem(id="kueue-not-managing")
QUEUE_PROVISIONING = LateProblem(id="queue-provisioning")
READY_TIMEOUT = LateProblem(id="ready-timeout")


class Controller(Struct, frozen=True, kw_only=True):
    """The Deployment of a controller."""

    namespace: str
    deployment: str


CONTROLLERS: Mapping[str, Controller] = {
    "JobSet": Controller(namespace="jobset-system", deployment="jobset-controller-manager"),
    "Kueue": Controller(namespace="kueue-system", deployment="kueue-controller-manager"),
}
"""source: jobset@v0.10.1 and kueue@v0.16.1, config/default/kustomization.yaml."""
KUEUE_CONFIG = "kueue-manager-config"
"""The ConfigMap of Kueue's configuration, in its namespace. source: kueue@v0.16.2 config/components/manager."""
PROVISIONING = "kueue.x-k8s.io/provisioning-request"
"""source: kueue@v0.16.2 apis/kueue/v1beta2/provisioningrequestconfig_types.go"""
READY_DEFAULT = "5m"
"""Kueue's default of waitForPodsReady.timeout. source: kueue@v0.16.2 apis/config/v1beta1/configuration_types.go"""


def check_controllers(deployments: Mapping[str, JsonObject], *, context: str) -> Iterator[Problem]:
    """Yield a warning for each controller without a ready pod. `deployments`: those that could be read, by the keys of
    CONTROLLERS; one that is elsewhere, or runs in another way, is not checked.
    """
    for name, deployment in deployments.items():
        if not mapping(deployment, "status").get("readyReplicas"):
            metadata = deployment["metadata"]
            replicas = mapping(deployment, "spec").get("replicas", 1)
            where = f"{metadata['name']} in the namespace {metadata['namespace']}"
            message = (
                f"{name} is not running: its Deployment {where} has 0 of {replicas} pods ready. Runs do not start "
                "meanwhile."
            )
            kubectl = _kubectl(context, metadata["namespace"])
            fix = f"Look for the cause: {kubectl} get pods ; {kubectl} describe deployment {metadata['name']}"
            if replicas == 0:
                fix = f"Start it: {kubectl} scale deployment {metadata['name']} --replicas=1"
            yield CONTROLLER_NOT_READY.warning("", message, fix)


def check_jobset_version(
    deployments: Mapping[str, JsonObject], flavors: Mapping[str, ResourceFlavor], *, context: str
) -> Iterator[Problem]:
    """Yield a warning for a JobSet that Kueue cannot suspend, once it gave the pods the labels of a flavor.

    source: github.com/kubernetes-sigs/kueue/issues/2691; jobset@v0.6.0, pull request 644.
    """
    version = version_of(deployments.get("JobSet", {}))
    labelled = sorted(name for name, flavor in flavors.items() if flavor.spec.node_labels)
    if version is None or not labelled or not _is_before(version, SUSPENDABLE):
        return
    look = f"{_kubectl(context, CONTROLLERS['JobSet'].namespace)} get deployment"
    yield JOBSET_OLD.warning(
        "",
        f"JobSet {version} cannot suspend a run that Kueue started with the node labels of a flavor"
        f" ({', '.join(labelled)}): an evicted run continues, and runs that wait for its quota never start.",
        f"Ask the administrator to upgrade JobSet to v{'.'.join(map(str, SUSPENDABLE))} or later; {look} -o wide shows"
        " it.",
    )


SUSPENDABLE = (0, 6, 0)


def version_of(deployment: JsonObject) -> str | None:
    """Return the tag of the controller's image, `v0.10.1`; None without one."""
    containers = rows(mapping(deployment, "spec", "template", "spec").get("containers"))
    image = next((str(c.get("image", "")) for c in containers if c.get("name") == "manager"), "")
    tag = image.partition("@")[0].rpartition(":")[2]
    return tag if tag and "/" not in tag else None


def _is_before(version: str, release: tuple[int, ...]) -> bool:
    """Return whether the version is older; False for a tag that is not a release."""
    numbers = re.match(r"v?(\d+)\.(\d+)\.(\d+)", version)
    return numbers is not None and tuple(map(int, numbers.groups())) < release


def check_managed(stored: JsonObject, *, context: str) -> Iterator[Problem]:
    """Yield an error if the API server's answer to a dry run shows that Kueue will not manage the JobSet: Kueue's
    webhook suspends every JobSet that names a queue. source: kueue@v0.16.1
    pkg/controller/jobs/jobset/jobset_webhook.go.
    """
    metadata = stored["metadata"]
    queue = mapping(metadata, "labels").get(QUEUE_LABEL)
    answered = "creationTimestamp" in metadata  # else the name is taken, and this is what was sent
    if queue and answered and stored["spec"].get("suspend") is not True:
        kueue = CONTROLLERS["Kueue"]
        kubectl = _kubectl(context, kueue.namespace)
        yield KUEUE_NOT_MANAGING.error(
            "queue",
            f"Kueue does not manage the JobSet, although it names the queue {queue}: the dry run came back "
            "unsuspended. Its pods would start at once, without quota, on chips that other runs hold.",
            "Let Kueue manage JobSets: add jobset.x-k8s.io/jobset to integrations.frameworks"
            f" ({kubectl} edit configmap kueue-manager-config), then {kubectl} rollout restart deployment"
            f" {kueue.deployment}; and check which namespaces its webhooks leave out (kubectl --context {context} get"
            " mutatingwebhookconfigurations -o yaml).",
        )


def check_provisioning(
    queue: ClusterQueue, checks: Mapping[str, JsonObject], flavors: Mapping[str, ResourceFlavor], demand: Demand
) -> Iterator[Problem]:
    """Yield a note on each ProvisioningRequest check that the run must pass, or a warning if it is not active.
    `checks`: the AdmissionChecks that could be read.
    """
    chip_pods = [pods for pods in demand.pod_sets if pods.requests.get(TPU)]
    groups = groups_of(queue, flavors)
    usable = {flavor.name for pods in chip_pods for group in groups for flavor in group.matching_flavors(pods)}
    for name, only_on in queue.required_checks.items():
        check = checks.get(name, {})
        if mapping(check, "spec").get("controllerName") == PROVISIONING and (not only_on or usable & set(only_on)):
            yield _provisioning_problem(name, check, demand)


def _provisioning_problem(name: str, check: JsonObject, demand: Demand) -> Problem:
    conditions = rows(mapping(check, "status").get("conditions"))
    active = next((condition for condition in conditions if condition.get("type") == "Active"), {})
    needs = (
        f"The queue {demand.queue} has the AdmissionCheck {name} (ProvisioningRequest): a run that has quota starts"
        " only after this check has passed, when the cluster has added nodes for it; until then it has no chips."
    )
    requests = f"kubectl -n {demand.namespace} get provisioningrequests"
    if active.get("status") == "True":
        return note("queue-provisioning", "queue", f"{needs} The check is active.", f"{requests} shows its progress.")
    why = text(active.get("message")) or "no controller has reported on it"
    return QUEUE_PROVISIONING.warning(
        "queue",
        f"{needs} The check is not active, so no run passes it: {why}",
        "Ask the cluster's administrator, or use another queue.",
    )


def ready_timeout_s(config: JsonObject) -> float | None:
    """Return the seconds after its admission in which all pods of a run must be ready; None if Kueue does not wait for
    them, or its ConfigMap cannot be understood. source: kueue@v0.16.2 apis/config: v1beta1 has `enable`; in v1beta2
    the section alone enables it.
    """
    try:
        settings = yaml.safe_load(str(mapping(config, "data").get("controller_manager_config.yaml", "")))
        ready = mapping(settings, "waitForPodsReady")
        needs_no_switch = str(mapping(settings).get("apiVersion")).endswith("/v1beta2")
        is_enabled = bool(ready) and ready.get("enable", needs_no_switch)
        return seconds_of(ready.get("timeout", READY_DEFAULT)) if is_enabled else None
    except (yaml.YAMLError, TypeError, ValueError):
        return None


def check_ready_timeout(
    timeout_s: float | None, *, image_bytes: int | None, lacks_nodes: bool, context: str
) -> Iterator[Problem]:
    """Yield a warning if Kueue would evict the run before its pods are ready. `image_bytes`: stored, None if unknown.

    A pod is ready when its containers run: xpk's have no readiness probe, so imports and compilation come later and do
    not count. The start is estimated from below, by the pull of the image, or by the time that a new node takes.
    source: kueue@v0.16.2 pkg/controller/jobs/jobset/jobset_controller.go [PodsReady].
    """
    if lacks_nodes:
        start_s = float(NODE_S)
        why = "nodes must be added to the cluster first"
    else:
        start_s = (image_bytes or 0) / REMOTE_RATE
        why = f"every host pulls the image, {size_text(image_bytes or 0)} at about {size_text(REMOTE_RATE)} a second"
    if timeout_s is None or start_s <= timeout_s:
        return
    kueue = CONTROLLERS["Kueue"]
    kubectl = _kubectl(context, kueue.namespace)
    yield READY_TIMEOUT.warning(
        "queue",
        f"Kueue evicts a run whose pods are not ready {duration_text(timeout_s)} after its admission"
        f" (waitForPodsReady), and this run needs about {duration_text(start_s)}: {why}. It would be evicted and queued"
        " again, each time.",
        f"Ask the administrator to raise waitForPodsReady.timeout ({kubectl} edit configmap {KUEUE_CONFIG}, then"
        f" {kubectl} rollout restart deployment {kueue.deployment}).",
    )


def _kubectl(context: str, namespace: str) -> str:
    return shlex.join(("kubectl", "--context", context, "-n", namespace))
