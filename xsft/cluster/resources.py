"""The kinds of objects xsft requests from a cluster, and where they are served."""

from __future__ import annotations

from urllib.parse import quote

from msgspec import Struct

CORE = ""


class Resource(Struct, frozen=True, kw_only=True):
    """A kind, e.g. jobsets.jobset.x-k8s.io."""

    plural: str
    group: str = CORE
    version: str = "v1"
    namespaced: bool = True
    subresource: str = ""
    """Subresource of the named object, e.g. log."""

    @property
    def full_name(self) -> str:
        """Return the name as kubectl and RBAC messages write it."""
        below = f"/{self.subresource}" if self.subresource else ""
        return f"{self.plural}.{self.group}{below}" if self.group else f"{self.plural}{below}"

    def path(self, *, namespace: str | None = None, name: str | None = None) -> str:
        if not self.version:
            return f"/apis/{self.group}" if self.group else f"/{self.plural}"
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = ("namespaces", namespace) if self.namespaced and namespace else ()
        below = self.subresource if name else ""
        return "/".join((root, *(quote(str(p), safe="") for p in (*parts, self.plural, name, below) if p)))


JOBSETS = Resource(plural="jobsets", group="jobset.x-k8s.io", version="v1alpha2")
"""source: jobset@v0.10.1 api/jobset/v1alpha2"""
JOBS = Resource(plural="jobs", group="batch")
DEPLOYMENTS = Resource(plural="deployments", group="apps")
SERVICES = Resource(plural="services")
DISRUPTION_BUDGETS = Resource(plural="poddisruptionbudgets", group="policy")
SERVER_VERSION = Resource(plural="version", version="", namespaced=False)
"""source: kubernetes.io/docs/reference/using-api/api-concepts, non-resource path /version"""
NAMESPACES = Resource(plural="namespaces", namespaced=False)
SERVICE_ACCOUNTS = Resource(plural="serviceaccounts")
RESOURCE_QUOTAS = Resource(plural="resourcequotas")
CONFIG_MAPS = Resource(plural="configmaps")
SECRETS = Resource(plural="secrets")
NODES = Resource(plural="nodes", namespaced=False)
PODS = Resource(plural="pods")
POD_LOGS = Resource(plural="pods", subresource="log")
EVENTS = Resource(plural="events")
PRIORITY_CLASSES = Resource(plural="priorityclasses", group="scheduling.k8s.io", namespaced=False)
ACCESS_REVIEWS = Resource(plural="selfsubjectaccessreviews", group="authorization.k8s.io", namespaced=False)
SELF_REVIEWS = Resource(plural="selfsubjectreviews", group="authentication.k8s.io", namespaced=False)
"""source: kubernetes 1.28, in which it became v1"""

KUEUE = "kueue.x-k8s.io"
KUEUE_VERSIONS = ("v1beta2", "v1beta1")
"""API versions of Kueue's groups, in the order in which they are tried: Kueue stores the newer one and need not convert
it; releases before 0.15 serve only the older one.
"""


def group_versions(group: str) -> Resource:
    """Return the resource that lists the served versions of a group; not found if the group is not installed."""
    return Resource(plural="versions", group=group, version="", namespaced=False)


def kueue(plural: str, *, version: str, namespaced: bool = True) -> Resource:
    return Resource(plural=plural, group=KUEUE, version=version, namespaced=namespaced)


def pending_workloads(version: str) -> Resource:
    """Return the resource that lists the pending workloads of a LocalQueue, in its order. source: kueue@v0.16.1
    apis/visibility; v1beta1 since 0.9, v1beta2 since 0.15.
    """
    return Resource(
        plural="localqueues", group="visibility.kueue.x-k8s.io", version=version, subresource="pendingworkloads"
    )
