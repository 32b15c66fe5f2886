"""Check the answers to the dry runs of a run's Jobs and pods, and compute the Jobs that JobSet will create. Pure.

source: jobset@v0.10.1 pkg/controllers/jobset_controller.go (constructJob, labelAndAnnotateObject, coordinatorEndpoint,
GetSubdomain) and pkg/webhooks/jobset_webhook.go (defaults). JobSet's own admission checks little of a pod template: an
invalid Job is found only when its controller creates one, after Kueue has given it quota.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterator, Mapping

from xsft.base.acceptance import LateProblem
from xsft.base.lenient import JsonObject, mapping
from xsft.base.problems import Problem, error, note

JOBS_NOT_CHECKED = LateProblem(id="jobs-not-checked")
LIMIT_RANGE_DEFAULT = LateProblem(id="limit-range-default")

NO_ACCOUNT = re.compile(r'error looking up service account \S+: serviceaccount "(?P<name>[^"]+)" not found')
INSECURE = re.compile(r'violates PodSecurity "(?P<level>[^"]+)"')
OUT_OF_RANGE = re.compile(r"(?:maximum|minimum) \S+ usage per \w+ is|limit to request ratio per \w+ is")
OVER_QUOTA = re.compile(r"exceeded quota: (?P<name>[^,\s]+)|failed quota: (?P<failed>[^:\s]+)")
PREFIX = "jobset.sigs.k8s.io"
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
JOB_NAME = "batch.kubernetes.io/job-name"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
NODE_SELECTOR_STRATEGY = "alpha.jobset.sigs.k8s.io/node-selector"


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
    if match := NO_ACCOUNT.search(message):
        fix = f"Create it: {kubectl} -n {namespace} create serviceaccount {match['name']}"
        return _error("service-account-missing", message, fix)
    if INSECURE.search(message):
        label = "pod-security.kubernetes.io/enforce=privileged"
        fix = f"Use another namespace, or ask for: {kubectl} label namespace {namespace} {label} --overwrite"
        return _error("pod-security", message, f"The pods of xpk are privileged and use the host's network. {fix}")
    if OUT_OF_RANGE.search(message):
        fix = f"Use another namespace, or have its LimitRange changed: {kubectl} -n {namespace} get limitrange -o yaml"
        return _error("limit-range", message, fix)
    if match := OVER_QUOTA.search(message):
        name = match["name"] or match["failed"]
        fix = f"Ask for more: {kubectl} -n {namespace} describe resourcequota {name}"
        return _error("resource-quota", message, fix)
    return None


def limited_problems(*, sent: JsonObject, stored: JsonObject, context: str) -> Iterator[Problem]:
    """Yield a warning for each container that gets a limit from the namespace's LimitRange because it sets none: the
    kernel kills a trainer that needs more memory.
    """
    namespace = str(sent["metadata"]["namespace"])
    limits = _limits(sent)
    for name, stored_limits in _limits(stored).items():
        # a container that the cluster itself adds is not the run's
        sent_limits = limits.get(name, stored_limits)
        added = {key: amount for key, amount in stored_limits.items() if key not in sent_limits}
        if added:
            listed = ", ".join(f"{key}={value}" for key, value in sorted(added.items()))
            message = f"The namespace {namespace} limits the container {name} to {listed}, which the run does not set."
            kubectl = shlex.join(("kubectl", "--context", context, "-n", namespace))
            fix = f"Use another namespace, or have its LimitRange changed: {kubectl} get limitrange -o yaml"
            yield LIMIT_RANGE_DEFAULT.warning("namespace", message, fix)


def _limits(pod: JsonObject) -> dict[str, Mapping[str, str]]:
    spec = pod["spec"]
    containers = (*(spec.get("initContainers") or ()), *spec["containers"])
    return {str(c["name"]): mapping(c, "resources", "limits") for c in containers}


def _error(id: str, message: str, fix: str) -> Problem:
    return error(id, "namespace", f"The cluster would refuse the run's pods: {message}", fix)


def child_jobs(jobset: JsonObject) -> tuple[JsonObject, ...]:
    """Return one Job per replicated job: its last replica, which has the longest name and labels."""
    jobs = []
    for replicated in jobset["spec"]["replicatedJobs"]:
        template = replicated["template"]
        metadata = template.get("metadata") or {}
        index = max(int(replicated.get("replicas", 1)) - 1, 0)
        labels = _job_labels(jobset, replicated, index)
        exclusive: JsonObject = {}
        # the job's own annotation goes before the JobSet's
        for marks in (mapping(jobset, "metadata", "annotations"), mapping(metadata, "annotations")):
            exclusive |= {key: marks[key] for key in (EXCLUSIVE, NODE_SELECTOR_STRATEGY) if key in marks}
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                **metadata,
                "name": _job_name(jobset, replicated, index),
                "namespace": jobset["metadata"].get("namespace", "default"),
                **_marked(metadata, labels, exclusive),
            },
            "spec": {
                "completionMode": "Indexed",
                **template["spec"],
                "suspend": bool(jobset["spec"].get("suspend", False)),
                "template": _pod_template(jobset, template["spec"]["template"], labels, exclusive),
            },
        }
        jobs.append(job)
    return tuple(jobs)


def first_pods(jobset: JsonObject) -> tuple[JsonObject, ...]:
    """Return the first pod of each Job, as the Job controller makes it. JobSet's webhook admits it before any other pod
    of its Job. source: kubernetes@v1.35 pkg/controller/job/job_controller.go, jobset@v0.10.1
    pkg/webhooks/pod_admission_webhook.go.
    """
    pods = []
    for job in child_jobs(jobset):
        template = job["spec"]["template"]
        metadata = template["metadata"]
        name = job["metadata"]["name"]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{name}-0",
                "namespace": job["metadata"]["namespace"],
                "labels": {**metadata["labels"], JOB_NAME: name, COMPLETION_INDEX: "0"},
                "annotations": {**metadata["annotations"], COMPLETION_INDEX: "0"},
            },
            "spec": {**template["spec"], "hostname": f"{name}-0"},
        }
        pods.append(pod)
    return tuple(pods)


def jobless(jobset: JsonObject) -> tuple[str, ...]:
    """Return replicated jobs without any Job. The API server accepts them, but Kueue then gives the run quota and it
    never ends.

    source: run against jobset@v0.10.1 and Kueue 0.16.
    """
    return tuple(str(job["name"]) for job in jobset["spec"]["replicatedJobs"] if job.get("replicas", 1) == 0)


def _pod_template(jobset: JsonObject, template: JsonObject, labels: JsonObject, exclusive: JsonObject) -> JsonObject:
    network = jobset["spec"].get("network") or {}
    subdomain = {"subdomain": _subdomain(jobset)} if network.get("enableDNSHostnames", True) else {}
    restart = {"restartPolicy": "OnFailure"}  # JobSet's default if the template has none
    metadata = template.get("metadata", {})
    return {
        **template,
        "metadata": {**metadata, **_marked(metadata, labels, exclusive)},
        "spec": {**restart, **template["spec"], **subdomain},
    }


def _marked(metadata: JsonObject, labels: JsonObject, exclusive: JsonObject) -> JsonObject:
    return {
        "labels": {**(metadata.get("labels") or {}), **labels},
        "annotations": {**(metadata.get("annotations") or {}), **labels, **exclusive},
    }


def _job_labels(jobset: JsonObject, replicated: JsonObject, index: int) -> JsonObject:
    """Return JobSet's labels, also set as annotations; without the UID, which does not exist yet."""
    name = jobset["metadata"]["name"]
    namespace = jobset["metadata"].get("namespace", "default")
    job = _job_name(jobset, replicated, index)
    before, every = _count_jobs(jobset, replicated)
    before_in_group, in_group = _count_jobs(jobset, replicated, group=_group(replicated))
    labels = {
        f"{PREFIX}/jobset-name": name,
        f"{PREFIX}/replicatedjob-name": replicated["name"],
        f"{PREFIX}/replicatedjob-replicas": str(replicated.get("replicas", 1)),
        f"{PREFIX}/restart-attempt": "0",
        f"{PREFIX}/global-replicas": str(every),
        f"{PREFIX}/job-index": str(index),
        f"{PREFIX}/job-key": hashlib.sha1(f"{namespace}/{job}".encode(), usedforsecurity=False).hexdigest(),
        f"{PREFIX}/job-global-index": str(before + index),
        f"{PREFIX}/group-name": _group(replicated),
        f"{PREFIX}/group-replicas": str(in_group),
        f"{PREFIX}/job-group-index": str(before_in_group + index),
    }
    coordinator = jobset["spec"].get("coordinator")
    if coordinator:
        # a label's value has at most 63 characters, which limits the names of Pathways runs
        pod = f"{coordinator['replicatedJob']}-{coordinator.get('jobIndex', 0)}-{coordinator.get('podIndex', 0)}"
        labels[f"{PREFIX}/coordinator"] = f"{name}-{pod}.{_subdomain(jobset)}"
    return labels


def _count_jobs(jobset: JsonObject, replicated: JsonObject, *, group: str | None = None) -> tuple[int, int]:
    """Return the number of Jobs before those of `replicated`, and the total; of one group if given."""
    jobs = [job for job in jobset["spec"]["replicatedJobs"] if group in (None, _group(job))]
    counts = [int(job.get("replicas", 1)) for job in jobs]
    position = [str(job["name"]) for job in jobs].index(str(replicated["name"]))
    return sum(counts[:position]), sum(counts)


def _group(replicated: JsonObject) -> str:
    """Return the group; JobSet's webhook defaults to `default`."""
    return str(replicated.get("groupName") or "default")


def _job_name(jobset: JsonObject, replicated: JsonObject, index: int) -> str:
    return f"{jobset['metadata']['name']}-{replicated['name']}-{index}"


def _subdomain(jobset: JsonObject) -> str:
    return str((jobset["spec"].get("network") or {}).get("subdomain") or jobset["metadata"]["name"])
