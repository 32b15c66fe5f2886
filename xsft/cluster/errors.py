"""What a cluster's refusals mean, and the next step for each. No secret is part of a message."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from xsft.base.amounts import duration_text
from xsft.base.errors import EnvironmentMissing, Forbidden, Refused, SpecError, Unreachable, XsftError
from xsft.base.problems import Problem, error, namespace_missing
from xsft.cluster.access import Access
from xsft.cluster.answers import Reply
from xsft.cluster.resources import JOBSETS, KUEUE, SECRETS, Resource
from xsft.machine.bounded import ODD_SHAPE

INSTALL_JOBSET = "Install JobSet (https://jobset.sigs.k8s.io/docs/installation), or `xpk cluster adapt`."


INSTALL_KUEUE = "Install Kueue (https://kueue.sigs.k8s.io/docs/installation), or `xpk cluster adapt`."


WEBHOOK = re.compile(r'failed calling webhook "|conversion webhook for \S+ Kind=\S+ failed: ')
"""source: kubernetes@v1.35 staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go,
apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go (Kueue's objects in another version than stored).
"""


SERVICE = re.compile(r"https://([a-z0-9-]+)\.([a-z0-9-]+)\.svc\b")
"""source: kubernetes@v1.35 staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook (the error of a webhook that fails
closed).
"""


DEPLOYMENTS = {"jobset": "jobset-controller-manager", "kueue": "kueue-controller-manager"}
"""The Deployments that serve the webhooks, by the first word of the service. source: jobset@v0.10.1 and kueue@v0.17.1
manifests.
"""


UNKNOWN_FIELD = re.compile(r'unknown field "(?P<field>[^"]+)"')
"""source: kubernetes@v1.35 fieldValidation=Strict."""


SINCE = {
    "startupPolicy": "v0.4.0",
    "ttlSecondsAfterFinished": "v0.5.0",
    "coordinator": "v0.6.0",
    "publishNotReadyAddresses": "v0.6.0",
    "rules": "v0.6.0",
    "restartStrategy": "v0.7.0",
    "dependsOn": "v0.8.0",
    "groupName": "v0.9.0",
}
"""The JobSet release that introduced the field, by its last name. source: jobset@v0.2.0 to v0.10.1
api/jobset/v1alpha2/jobset_types.go.
"""


@contextmanager
def last_net(cluster: str) -> Iterator[None]:
    """Raise Unreachable for an answer of the cluster that xsft fails to read, so that all others are shown."""
    try:
        yield
    except ODD_SHAPE as odd:
        raise Unreachable(
            f"The answer of the cluster {cluster} cannot be read ({type(odd).__name__}: {odd}).",
            fix="Check that its server is a Kubernetes API server; if it is, please report this.",
            id="not-served",
            again="unsure",
        ) from odd


class ApiRequest(Struct, frozen=True, kw_only=True):
    """What was requested, for messages."""

    verb: str
    """RBAC's: get, list, create."""
    resource: Resource
    namespace: str | None = None
    name: str | None = None

    @property
    def what(self) -> str:
        name = f" {self.name}" if self.name else ""
        where = f" in the namespace {self.namespace}" if self.namespace and self.resource.namespaced else ""
        return f"{self.verb} {self.resource.full_name}{name}{where}"


def explain(reply: Reply, ask: ApiRequest, access: Access) -> XsftError:
    """Return the error for an answer that is not OK."""
    if reply.status == 401:
        return login_expired(reply, access)
    if reply.status == 403:
        return _denied(reply, ask, access)
    if reply.not_served:
        return not_installed(ask.resource, access)
    if reply.status == 409:
        return Refused(
            f"{ask.name} already exists in namespace {ask.namespace}.", fix="Use another name.", id="name-taken"
        )
    if reply.status in (400, 404, 413, 422):
        problems = tuple(invalid(reply, ask))
        if reply.missing_namespace and ask.namespace:
            problems = (namespace_missing(ask.namespace, access.context),)
        return SpecError(problems)
    return _of_its_own(reply, ask, access)


def login_expired(reply: Reply, access: Access) -> Unreachable:
    ways = "gcloud auth login (in CI: a service account)" if access.gke else "renew the credentials of that context"
    return Unreachable(
        f"The cluster rejected the login of the context {access.context} (HTTP 401 {reply.message}).",
        fix=f"Log in again: {ways}; `kubectl --context {access.context} auth whoami` shows your user.",
        id="login-expired",
        again="never",
    )


def not_installed(resource: Resource, access: Access) -> XsftError:
    where = f"on the cluster (context {access.context}): it does not serve {resource.group}."
    if resource.group == JOBSETS.group:
        return EnvironmentMissing(f"JobSet is not installed {where}", fix=INSTALL_JOBSET, id="jobset-not-installed")
    if resource.group == KUEUE:
        return EnvironmentMissing(f"Kueue is not installed {where}", fix=INSTALL_KUEUE, id="kueue-not-installed")
    return EnvironmentMissing(
        f"The cluster (context {access.context}) does not serve {resource.full_name}.",
        fix="Check that the context's server is a Kubernetes API server.",
        id="not-served",
        again="unsure",
    )


def invalid(reply: Reply, ask: ApiRequest) -> Iterator[Problem]:
    """Yield one problem per cause."""
    fix = "Change the workload so that the object is valid; `xsft plan --manifest` prints it."
    unknown = UNKNOWN_FIELD.findall(reply.message)
    if ask.resource == JOBSETS and unknown:
        fix = _upgrade(unknown)
    if ask.resource == SECRETS:
        fix = "Change the name, key or value that the message mentions."
    elif reply.status == 413:
        fix = "Make the command and the environment shorter: a cluster stores at most 1.5 MB per object."
    kind = ask.resource.plural.removesuffix("s")
    what = f"the {kind} {ask.name}" if ask.name else f"to {ask.what}"
    for field, message in reply.causes or (("", reply.message),):
        path = f"{field}: " if field else ""
        yield error("manifest-invalid", "", f"The cluster refuses {what}: {path}{message}", fix)


def _upgrade(fields: list[str]) -> str:
    """Return the fix for fields that the installed JobSet does not have. Those of a pod are Kubernetes' own."""
    of_jobset = [field.rpartition(".")[2] for field in fields if ".template." not in field]
    releases = [SINCE[name] for name in of_jobset if name in SINCE]
    since = f" {max(releases)} or later" if releases else ""
    return (
        f"The installed JobSet does not support {', '.join(fields)}: upgrade it to JobSet{since} (xpk installs "
        "v0.10.1; https://jobset.sigs.k8s.io/docs/installation), or ask the cluster's administrator to do it."
    )


def _of_its_own(reply: Reply, ask: ApiRequest, access: Access) -> Unreachable:
    """Return the error for a failure of the cluster itself, or of a webhook that it calls; nothing was stored."""
    message = (
        f"The cluster (context {access.context}) could not {ask.what}: HTTP {reply.status} {reply.message}".rstrip()
    )
    if WEBHOOK.search(reply.message):
        look = _where_it_runs(reply, access)
        fix = f"Its webhook does not answer. {look}, or ask the cluster's administrator; then try again."
        return Unreachable(message, fix=fix, id="webhook-down")
    pause = duration_text(reply.retry_after_s) if reply.retry_after_s else "a minute"
    return Unreachable(message, fix=f"Try again in {pause}; nothing was recorded as done.", id="cluster-error")


def _where_it_runs(reply: Reply, access: Access) -> str:
    """Return the next step: look at the Deployment or endpoints behind the webhook service that the message names."""
    named = SERVICE.search(reply.message)
    if named is None:
        return "Check the server at its address"
    service, namespace = named[1], named[2]
    kubectl = f"kubectl --context {access.context} -n {namespace}"
    deployment = DEPLOYMENTS.get(service.partition("-")[0])
    what = f"deployment {deployment}" if deployment else f"endpoints {service}"
    return f"Check why it is down (`{kubectl} get {what}`, `{kubectl} get pods`)"


def _denied(reply: Reply, ask: ApiRequest, access: Access) -> XsftError:
    if reply.by_admission:
        message = f"The cluster refuses to {ask.what}: {reply.message}"
        fix = (
            "The message is from a rule of the cluster (webhook, quota, policy): change what it mentions, or ask the "
            "cluster's administrator."
        )
        return SpecError((error("admission-denied", "", message, fix),))
    scope = f" -n {ask.namespace}" if ask.resource.namespaced and ask.namespace else ""
    kind = "role" if scope else "clusterrole"
    rule = f"kubectl create {kind} xsft --verb={ask.verb} --resource={ask.resource.full_name}{scope}"
    gke = "roles/container.developer on the project, or " if access.gke else ""
    return Forbidden(
        f"You may not {ask.what} (context {access.context}): {reply.message}",
        fix=f"Ask for {gke}an RBAC rule that allows it ({rule}, and a binding to you).",
    )
