"""Check the controllers that run a JobSet: JobSet's and Kueue's pods are ready, and Kueue manages the JobSet. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping

from msgspec import Struct

from xsft.base.acceptance import LateProblem
from xsft.base.aliases import JsonObject
from xsft.base.lenient import mapping, rows
from xsft.base.problems import Problem
from xsft.checks.demand import QUEUE_LABEL

JOBSET_OLD = LateProblem(id="jobset-old")
CONTROLLER_NOT_READY = LateProblem(id="controller-not-ready")
KUEUE_NOT_MANAGING = LateProblem(id="kueue-not-managing")


class Controller(Struct, frozen=True, kw_only=True):
    """The Deployment of a controller."""

    namespace: str
    deployment: str


CONTROLLERS: Mapping[str, Controller] = {
    "JobSet": Controller(namespace="jobset-system", deployment="jobset-controller-manager"),
    "Kueue": Controller(namespace="kueue-system", deployment="kueue-controller-manager"),
}
"""source: jobset@v0.10.1 and kueue@v0.16.1, config/default/kustomization.yaml."""


def controller_problems(deployments: Mapping[str, JsonObject], *, context: str) -> Iterator[Problem]:
    """Yield a warning for each controller without a ready pod. `deployments`: those that could be read, by the keys of
    CONTROLLERS; one that is elsewhere, or runs in another way, is not checked.
    """
    for name, deployment in deployments.items():
        if not (deployment.get("status") or {}).get("readyReplicas"):
            yield _not_ready(name, deployment, context)


def version_problems(
    deployments: Mapping[str, JsonObject], flavors: Mapping[str, JsonObject], *, context: str
) -> Iterator[Problem]:
    """Yield a warning for a JobSet that Kueue cannot suspend, once it gave the pods the labels of a flavor.

    source: github.com/kubernetes-sigs/kueue/issues/2691; jobset@v0.6.0, pull request 644.
    """
    version = version_of(deployments["JobSet"]) if "JobSet" in deployments else None
    labelled = sorted(name for name, flavor in flavors.items() if (flavor.get("spec") or {}).get("nodeLabels"))
    if version is None or not labelled or not _is_before(version, SUSPENDABLE):
        return
    message = (
        f"JobSet {version} cannot suspend a run that Kueue started with the node labels of a flavor"
        f" ({', '.join(labelled)}): an evicted run continues, and runs that wait for its quota never start."
    )
    look = shlex.join(("kubectl", "--context", context, "-n", CONTROLLERS["JobSet"].namespace, "get", "deployment"))
    fix = f"Ask the administrator to upgrade JobSet to v{_release_text(SUSPENDABLE)} or later; {look} -o wide shows it."
    yield JOBSET_OLD.warning("", message, fix)


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


def _release_text(release: tuple[int, ...]) -> str:
    return ".".join(map(str, release))


def unmanaged_problems(stored: JsonObject, *, context: str) -> Iterator[Problem]:
    """Yield an error if the API server's answer to a dry run shows that Kueue will not manage the JobSet: Kueue's
    webhook suspends every JobSet that names a queue. source: kueue@v0.16.1
    pkg/controller/jobs/jobset/jobset_webhook.go.
    """
    metadata = stored["metadata"]
    queue = (metadata.get("labels") or {}).get(QUEUE_LABEL)
    answered = "creationTimestamp" in metadata  # else the name is taken, and this is what was sent
    if queue and answered and stored["spec"].get("suspend") is not True:
        yield _unmanaged_queue_problem(queue, context)


def _not_ready(name: str, deployment: JsonObject, context: str) -> Problem:
    metadata = deployment["metadata"]
    replicas = (deployment.get("spec") or {}).get("replicas", 1)
    where = f"{metadata['name']} in the namespace {metadata['namespace']}"
    message = (
        f"{name} is not running: its Deployment {where} has 0 of {replicas} pods ready. Runs do not start meanwhile."
    )
    kubectl = shlex.join(("kubectl", "--context", context, "-n", metadata["namespace"]))
    fix = f"Look for the cause: {kubectl} get pods ; {kubectl} describe deployment {metadata['name']}"
    if replicas == 0:
        fix = f"Start it: {kubectl} scale deployment {metadata['name']} --replicas=1"
    return CONTROLLER_NOT_READY.warning("", message, fix)


def _unmanaged_queue_problem(queue: str, context: str) -> Problem:
    message = (
        f"Kueue does not manage the JobSet, although it names the queue {queue}: the dry run came back unsuspended. Its"
        " pods would start at once, without quota, on chips that other runs hold."
    )
    kueue = CONTROLLERS["Kueue"]
    kubectl = shlex.join(("kubectl", "--context", context, "-n", kueue.namespace))
    fix = (
        "Let Kueue manage JobSets: add jobset.x-k8s.io/jobset to integrations.frameworks"
        f" ({kubectl} edit configmap kueue-manager-config), then {kubectl} rollout restart deployment"
        f" {kueue.deployment}; and check which namespaces its webhooks leave out (kubectl --context {context} get"
        " mutatingwebhookconfigurations -o yaml)."
    )
    return KUEUE_NOT_MANAGING.error("queue", message, fix)
