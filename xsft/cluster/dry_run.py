"""Has the cluster validate a JobSet, the Jobs that JobSet makes of it, and the first pod of each, without storing any.

JobSet's admission checks little of a Job, and a Job's checks nothing of what the namespace allows its pods: a missing
ServiceAccount or a PodSecurity level is found only when pods are created, while the run holds its quota.
"""

from __future__ import annotations

from xsft.base.errors import SpecError
from xsft.base.lenient import JsonObject
from xsft.base.problems import Problem
from xsft.cluster import resources as kinds
from xsft.cluster.answers import Reply, read_named
from xsft.cluster.api import Api
from xsft.cluster.dry_run_problems import (
    child_jobs,
    first_pods,
    jobless,
    jobs_not_checked,
    limited_problems,
    makes_no_job,
    pods_not_checked,
    refused_pod,
)
from xsft.cluster.errors import ApiRequest, invalid
from xsft.cluster.exactly_once import DRY_RUN, MANAGER
from xsft.cluster.resources import Resource


def stored_jobset(api: Api, manifest: JsonObject) -> JsonObject:
    """Return the JobSet as `Cluster.dry_run_jobset` does."""
    reply, ask = _send_dry_run(api, kinds.JOBSETS, manifest)
    if reply.status == 409:
        return manifest
    if not reply.ok:
        raise api.failed(reply, ask)
    return dict(reply.body)


def job_problems(api: Api, jobset: JsonObject) -> tuple[Problem, ...]:
    refused = (problem for job in child_jobs(jobset) for problem in _refused_job(api, job))
    return (*map(makes_no_job, jobless(jobset)), *refused)


def pod_problems(api: Api, jobset: JsonObject) -> tuple[Problem, ...]:
    found = (problem for pod in first_pods(jobset) for problem in _pod_problems(api, pod))
    return tuple(dict.fromkeys(found))


def _send_dry_run(api: Api, resource: Resource, body: JsonObject) -> tuple[Reply, ApiRequest]:
    """Send a dry run. It stores nothing, so it may be repeated like a query."""
    metadata = body["metadata"]
    ask = ApiRequest(verb="create", resource=resource, namespace=metadata.get("namespace"), name=metadata["name"])
    return api.question(ask, query={**DRY_RUN, "fieldManager": MANAGER}, body=body, read=read_named), ask


def _refused_job(api: Api, job: JsonObject) -> tuple[Problem, ...]:
    """Return the problems of a refused Job. A Job whose name is taken is validated before its name is."""
    reply, ask = _send_dry_run(api, kinds.JOBS, job)
    if reply.ok or reply.status == 409:
        return ()
    if reply.status == 403 and not reply.by_admission:
        return (jobs_not_checked(ask.what, reply.message),)
    return _refusal_problems(api, reply, ask)


def _pod_problems(api: Api, pod: JsonObject) -> tuple[Problem, ...]:
    reply, ask = _send_dry_run(api, kinds.PODS, pod)
    if reply.ok:
        return tuple(limited_problems(sent=pod, stored=reply.body, context=api.access.context))
    if reply.status == 409:
        return ()
    if reply.status == 403 and not reply.by_admission:
        return (pods_not_checked(reply.message),)
    if reply.status == 403:
        found = refused_pod(reply.message, pod, context=api.access.context)
        return (found,) if found else _refusal_problems(api, reply, ask)
    return _refusal_problems(api, reply, ask)


def _refusal_problems(api: Api, reply: Reply, ask: ApiRequest) -> tuple[Problem, ...]:
    if reply.status in (400, 422):
        return tuple(invalid(reply, ask))
    failed = api.failed(reply, ask)
    if isinstance(failed, SpecError):
        return failed.problems
    raise failed
