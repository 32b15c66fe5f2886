"""The objects of a server on a cluster: its Deployment, and the Service and PodDisruptionBudget that it owns."""

from __future__ import annotations

from msgspec import Struct

from xsft.base.aliases import JsonObject
from xsft.base.errors import Unreachable
from xsft.cluster import resources as kinds
from xsft.cluster.api import Api
from xsft.cluster.create import DRY_RUN, MANAGER, CreatedObject, ExistingObject, create
from xsft.cluster.delete import DeleteOutcome, delete
from xsft.cluster.errors import ApiRequest
from xsft.cluster.logs import ContainerLogRequest, read_log
from xsft.cluster.observation import Pod
from xsft.cluster.pod_fields import POD, pod_of
from xsft.cluster.resources import Resource

KINDS = {
    "Deployment": kinds.DEPLOYMENTS,
    "Service": kinds.SERVICES,
    "PodDisruptionBudget": kinds.DISRUPTION_BUDGETS,
}


class Servers(Struct, frozen=True):
    """Reads and creates. Each raises as `Cluster` does."""

    api: Api

    def get(self, like: JsonObject) -> JsonObject | None:
        """Return the object of the kind, name and namespace of `like`, or None."""
        metadata = like["metadata"]
        found: JsonObject | None = self.api.get(_kind(like), name=metadata["name"], namespace=metadata["namespace"])
        return found

    def dry_run(self, body: JsonObject) -> None:
        """Have the cluster validate the object with all its webhooks; a name that is taken is no error."""
        ask = ApiRequest(verb="create", resource=_kind(body), namespace=body["metadata"]["namespace"])
        reply = self.api.question(ask, query={**DRY_RUN, "fieldManager": MANAGER}, body=body)
        if not reply.ok and reply.status != 409:
            raise self.api.failed(reply, ask)

    def create(self, body: JsonObject, *, mark: str | None = None) -> CreatedObject | ExistingObject:
        """Create the object once, as `Cluster.create_jobset` does."""
        return create(self.api, _kind(body), body, mark=mark)

    def delete(self, *, name: str, namespace: str, uid: str) -> DeleteOutcome:
        """Delete the Deployment with that UID; the Service and the budget go with it. Raises as
        `Cluster.delete_jobset`.
        """
        return delete(self.api, kinds.DEPLOYMENTS, name=name, namespace=namespace, uid=uid)

    def pods(self, *, namespace: str, labels: str) -> tuple[Pod, ...]:
        listed = self.api.listed(kinds.PODS, POD, namespace=namespace, query={"labelSelector": labels})
        return tuple(map(pod_of, listed.objects))

    def last_lines(self, pod: str, container: str, *, namespace: str, count: int) -> tuple[str, ...]:
        """Return the last log lines of the container before its last restart; empty if the log cannot be read."""
        ask = ContainerLogRequest(namespace=namespace, pod=pod, container=container, tail=count, previous=True)
        try:
            lines = read_log(self.api, ask)
        except Unreachable:
            return ()
        return tuple(line.text for line in lines or ())


def _kind(body: JsonObject) -> Resource:
    return KINDS[body["kind"]]
