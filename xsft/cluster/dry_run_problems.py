"""Check the answers to the dry runs of a run's Jobs and pods. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping

from xsft.base.acceptance import LateProblem
from xsft.base.aliases import JsonObject
from xsft.base.problems import Problem, error, note

JOBS_NOT_CHECKED = LateProblem(id="jobs-not-checked")
LIMIT_RANGE_DEFAULT = LateProblem(id="limit-range-default")

NO_ACCOUNT = re.compile(r'error looking up service account \S+: serviceaccount "(?P<name>[^"]+)" not found')
INSECURE = re.compile(r'violates PodSecurity "(?P<level>[^"]+)"')
OUT_OF_RANGE = re.compile(r"(?:maximum|minimum) \S+ usage per \w+ is|limit to request ratio per \w+ is")
OVER_QUOTA = re.compile(r"exceeded quota: (?P<name>[^,\s]+)|failed quota: (?P<failed>[^:\s]+)")


def makes_no_job(name: str) -> Problem:
    message = f"The replicated job {name} has 0 replicas, so JobSet creates no Job for it."
    return error(
        "manifest-invalid", "", message, "Request at least one slice; `xsft plan --manifest` prints the JobSet."
    )


def jobs_not_checked(what: str, why: str) -> Problem:
    """Return the warning that the user may not create Jobs. `what`: the right; `why`: the API server's
    message."""
    return JOBS_NOT_CHECKED.warning(
        "",
        f"The Jobs could not be checked: you may not {what}, not even as a dry run ({why}).",
        "Ask for the verb create on jobs.batch: JobSet accepts pod templates from which no Job can be created, "
        "and the run then holds its quota.",
    )


def pods_not_checked(why: str) -> Problem:
    """Return the note that the user may not create pods. `why`: the API server's message."""
    return note(
        "pods-not-checked",
        "",
        "Unknown: whether the namespace admits the pods (ServiceAccount, PodSecurity, LimitRange, ResourceQuota). You "
        f"may not create pods, not even as a dry run ({why}).",
        "Ask for the verb create on pods.",
        kind="unread",
    )


def refused_pod(message: str, pod: JsonObject, *, context: str) -> Problem | None:
    """Return the problem of a pod that admission refuses; None if another rule refused it. `message`: the API server's
    message.
    """
    namespace = str(pod["metadata"]["namespace"])
    kubectl = shlex.join(("kubectl", "--context", context))
    if found := NO_ACCOUNT.search(message):
        fix = f"Create it: {kubectl} -n {namespace} create serviceaccount {found['name']}"
        return _error("service-account-missing", message, fix)
    if INSECURE.search(message):
        label = "pod-security.kubernetes.io/enforce=privileged"
        fix = f"Use another namespace, or ask for: {kubectl} label namespace {namespace} {label} --overwrite"
        return _error("pod-security", message, f"The pods of xpk are privileged and use the host's network. {fix}")
    if OUT_OF_RANGE.search(message):
        fix = f"Use another namespace, or have its LimitRange changed: {kubectl} -n {namespace} get limitrange -o yaml"
        return _error("limit-range", message, fix)
    if found := OVER_QUOTA.search(message):
        name = found["name"] or found["failed"]
        fix = f"Ask for more: {kubectl} -n {namespace} describe resourcequota {name}"
        return _error("resource-quota", message, fix)
    return None


def limited_problems(*, sent: JsonObject, stored: JsonObject, context: str) -> Iterator[Problem]:
    """Yield a warning for each container that gets a limit from the namespace's LimitRange because it sets none: the
    kernel kills a trainer that needs more memory.
    """
    namespace = str(sent["metadata"]["namespace"])
    limits = _limits(sent)
    for name, held in _limits(stored).items():
        added = {key: value for key, value in held.items() if key not in limits.get(name, held)}
        if added:
            listed = ", ".join(f"{key}={value}" for key, value in sorted(added.items()))
            message = f"The namespace {namespace} limits the container {name} to {listed}, which the run does not set."
            kubectl = shlex.join(("kubectl", "--context", context, "-n", namespace))
            fix = f"Use another namespace, or have its LimitRange changed: {kubectl} get limitrange -o yaml"
            yield LIMIT_RANGE_DEFAULT.warning("namespace", message, fix)


def _limits(pod: JsonObject) -> dict[str, Mapping[str, str]]:
    spec = pod["spec"]
    containers = (*(spec.get("initContainers") or ()), *spec["containers"])
    return {str(one["name"]): (one.get("resources") or {}).get("limits") or {} for one in containers}


def _error(id: str, message: str, fix: str) -> Problem:
    return error(id, "namespace", f"The cluster would refuse the run's pods: {message}", fix)
