"""What a namespace refuses or changes about a pod, and the command for it. Pure.

source: the messages of kubernetes@v1.35 plugin/pkg/admission/{serviceaccount,limitranger,resourcequota} and
staging/src/k8s.io/pod-security-admission/admission; run against it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping

from xsft.aliases import JsonObject
from xsft.problems import Problem, error, warning

NO_ACCOUNT = re.compile(r'error looking up service account \S+: serviceaccount "(?P<name>[^"]+)" not found')
INSECURE = re.compile(r'violates PodSecurity "(?P<level>[^"]+)"')
OUT_OF_RANGE = re.compile(r"(?:maximum|minimum) \S+ usage per \w+ is|limit to request ratio per \w+ is")
OVER_QUOTA = re.compile(r"exceeded quota: (?P<name>[^,\s]+)|failed quota: (?P<failed>[^:\s]+)")


def refused_pod(said: str, pod: JsonObject, *, context: str) -> Problem | None:
    """Return the problem of a pod that admission refuses; None if `said` is of another rule. `said`: the API server's
    message.
    """
    namespace = str(pod["metadata"]["namespace"])
    kubectl = shlex.join(("kubectl", "--context", context))
    if found := NO_ACCOUNT.search(said):
        fix = f"Create it: {kubectl} -n {namespace} create serviceaccount {found['name']}"
        return _error("service-account-missing", said, fix)
    if INSECURE.search(said):
        label = "pod-security.kubernetes.io/enforce=privileged"
        fix = f"Use another namespace, or ask for: {kubectl} label namespace {namespace} {label} --overwrite"
        return _error("pod-security", said, f"The pods of xpk are privileged and use the host's network. {fix}")
    if OUT_OF_RANGE.search(said):
        fix = f"Use another namespace, or have its LimitRange changed: {kubectl} -n {namespace} get limitrange -o yaml"
        return _error("limit-range", said, fix)
    if found := OVER_QUOTA.search(said):
        name = found["name"] or found["failed"]
        fix = f"Ask for more: {kubectl} -n {namespace} describe resourcequota {name}"
        return _error("resource-quota", said, fix)
    return None


def limited_problems(*, sent: JsonObject, stored: JsonObject, context: str) -> Iterator[Problem]:
    """Yield a warning for each container that the namespace's LimitRange gives a limit which the pod has not: the
    kernel ends a trainer that needs more memory.
    """
    namespace = str(sent["metadata"]["namespace"])
    limits = _limits(sent)
    for name, held in _limits(stored).items():
        added = {key: value for key, value in held.items() if key not in limits.get(name, held)}
        if added:
            listed = ", ".join(f"{key}={value}" for key, value in sorted(added.items()))
            message = (
                f"The namespace {namespace} limits the container {name} to {listed}, which the run does not ask for."
            )
            kubectl = shlex.join(("kubectl", "--context", context, "-n", namespace))
            fix = f"Use another namespace, or have its LimitRange changed: {kubectl} get limitrange -o yaml"
            yield warning("limit-range-default", "namespace", message, fix)


def _limits(pod: JsonObject) -> dict[str, Mapping[str, str]]:
    spec = pod["spec"]
    containers = (*(spec.get("initContainers") or ()), *spec["containers"])
    return {str(one["name"]): (one.get("resources") or {}).get("limits") or {} for one in containers}


def _error(id: str, said: str, fix: str) -> Problem:
    return error(id, "namespace", f"The cluster would refuse the run's pods: {said}", fix)
