"""Has the cluster validate a JobSet, the Jobs that JobSet makes of it, and the first pod of each, without storing any.

JobSet's admission checks little of a Job, and a Job's checks nothing of what the namespace allows its pods: a missing
ServiceAccount or a PodSecurity level is found only when pods are created, while the run holds its quota.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping

from xsft.acceptance import late_warning
from xsft.aliases import JsonObject
from xsft.effects.cluster import resources as kinds
from xsft.effects.cluster.answers import Reply
from xsft.effects.cluster.api import Api
from xsft.effects.cluster.create import DRY_RUN, MANAGER
from xsft.effects.cluster.errors import Ask, invalid
from xsft.effects.cluster.resources import Resource
from xsft.errors import SpecError
from xsft.problems import Problem, error, note
from xsft.reading.children import child_jobs, first_pods, jobless

NO_ACCOUNT = re.compile(r'error looking up service account \S+: serviceaccount "(?P<name>[^"]+)" not found')
INSECURE = re.compile(r'violates PodSecurity "(?P<level>[^"]+)"')
OUT_OF_RANGE = re.compile(r"(?:maximum|minimum) \S+ usage per \w+ is|limit to request ratio per \w+ is")
OVER_QUOTA = re.compile(r"exceeded quota: (?P<name>[^,\s]+)|failed quota: (?P<failed>[^:\s]+)")


def stored_jobset(api: Api, manifest: JsonObject) -> JsonObject:
    """Return the JobSet as `Cluster.dry_run_jobset` does."""
    reply, ask = _tried(api, kinds.JOBSETS, manifest)
    if reply.status == 409:
        return manifest
    if not reply.ok:
        raise api.failed(reply, ask)
    return dict(reply.body)


def job_problems(api: Api, jobset: JsonObject) -> tuple[Problem, ...]:
    refused = (problem for job in child_jobs(jobset) for problem in _refused_job(api, job))
    return (*map(_makes_no_job, jobless(jobset)), *refused)


def pod_problems(api: Api, jobset: JsonObject) -> tuple[Problem, ...]:
    found = (problem for pod in first_pods(jobset) for problem in _pod_problems(api, pod))
    return tuple(dict.fromkeys(found))


def _tried(api: Api, resource: Resource, body: JsonObject) -> tuple[Reply, Ask]:
    """Send a dry run. It stores nothing, so it may be repeated like a query."""
    metadata = body["metadata"]
    ask = Ask(verb="create", resource=resource, namespace=metadata.get("namespace"), name=metadata["name"])
    return api.question(ask, query={**DRY_RUN, "fieldManager": MANAGER}, body=body), ask


def _refused_job(api: Api, job: JsonObject) -> tuple[Problem, ...]:
    """Return the problems of a refused Job. A Job whose name is taken is validated before its name is."""
    reply, ask = _tried(api, kinds.JOBS, job)
    if reply.ok or reply.status == 409:
        return ()
    if reply.status == 403 and not reply.by_admission:
        return (_jobs_not_checked(reply, ask),)
    return _refused(api, reply, ask)


def _pod_problems(api: Api, pod: JsonObject) -> tuple[Problem, ...]:
    reply, ask = _tried(api, kinds.PODS, pod)
    if reply.ok:
        return tuple(limited_problems(sent=pod, stored=reply.body, context=api.access.context))
    if reply.status == 409:
        return ()
    if reply.status == 403 and not reply.by_admission:
        return (_pods_not_checked(reply),)
    if reply.status == 403:
        found = refused_pod(reply.message, pod, context=api.access.context)
        return (found,) if found else _refused(api, reply, ask)
    return _refused(api, reply, ask)


def _refused(api: Api, reply: Reply, ask: Ask) -> tuple[Problem, ...]:
    if reply.status in (400, 422):
        return tuple(invalid(reply, ask))
    failed = api.failed(reply, ask)
    if isinstance(failed, SpecError):
        return failed.problems
    raise failed


def _makes_no_job(name: str) -> Problem:
    message = f"The replicated job {name} has 0 replicas, so JobSet creates no Job for it."
    return error(
        "manifest-invalid", "", message, "Request at least one slice; `xsft plan --manifest` prints the JobSet."
    )


def _jobs_not_checked(reply: Reply, ask: Ask) -> Problem:
    return late_warning(
        "jobs-not-checked",
        "",
        f"The Jobs could not be checked: you may not {ask.what}, not even as a dry run ({reply.message}).",
        "Ask for the verb create on jobs.batch: JobSet accepts pod templates from which no Job can be created, "
        "and the run then holds its quota.",
    )


def _pods_not_checked(reply: Reply) -> Problem:
    return note(
        "pods-not-checked",
        "",
        "Unknown: whether the namespace admits the pods (ServiceAccount, PodSecurity, LimitRange, ResourceQuota). You "
        f"may not create pods, not even as a dry run ({reply.message}).",
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
            yield late_warning("limit-range-default", "namespace", message, fix)


def _limits(pod: JsonObject) -> dict[str, Mapping[str, str]]:
    spec = pod["spec"]
    containers = (*(spec.get("initContainers") or ()), *spec["containers"])
    return {str(one["name"]): (one.get("resources") or {}).get("limits") or {} for one in containers}


def _error(id: str, message: str, fix: str) -> Problem:
    return error(id, "namespace", f"The cluster would refuse the run's pods: {message}", fix)
