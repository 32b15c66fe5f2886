"""The stand-in's objects: what is served, stored, listed and refused, in the words of the real server."""

from __future__ import annotations

import copy
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.fakes import kuberules
from tests.faults.answer import Answer, status

Json = dict[str, Any]

KINDS: dict[str, tuple[tuple[str, ...], str, bool]] = {
    # group/plural: (versions, kind, namespaced)
    "/namespaces": (("v1",), "Namespace", False),
    "/nodes": (("v1",), "Node", False),
    "/serviceaccounts": (("v1",), "ServiceAccount", True),
    "/resourcequotas": (("v1",), "ResourceQuota", True),
    "/configmaps": (("v1",), "ConfigMap", True),
    "/secrets": (("v1",), "Secret", True),
    "/pods": (("v1",), "Pod", True),
    "/events": (("v1",), "Event", True),
    "/services": (("v1",), "Service", True),
    "apps/deployments": (("v1",), "Deployment", True),
    "policy/poddisruptionbudgets": (("v1",), "PodDisruptionBudget", True),
    "batch/jobs": (("v1",), "Job", True),
    "jobset.x-k8s.io/jobsets": (("v1alpha2",), "JobSet", True),
    "scheduling.k8s.io/priorityclasses": (("v1",), "PriorityClass", False),
    "kueue.x-k8s.io/localqueues": (("v1beta1", "v1beta2"), "LocalQueue", True),
    "kueue.x-k8s.io/clusterqueues": (("v1beta1", "v1beta2"), "ClusterQueue", False),
    "kueue.x-k8s.io/resourceflavors": (("v1beta1", "v1beta2"), "ResourceFlavor", False),
    "kueue.x-k8s.io/admissionchecks": (("v1beta1", "v1beta2"), "AdmissionCheck", False),
    "kueue.x-k8s.io/workloads": (("v1beta1", "v1beta2"), "Workload", True),
    "visibility.kueue.x-k8s.io/localqueues": (("v1beta1", "v1beta2"), "PendingWorkloadsSummary", True),
}
REVIEWS = {
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/apis/authentication.k8s.io/v1/selfsubjectreviews",
}


NOT_SERVED = Answer(404, "404 page not found\n")


@dataclass
class Asked:
    """A path, taken apart."""

    group: str
    version: str
    plural: str
    namespace: str
    name: str

    @property
    def key(self) -> str:
        return f"{self.group}/{self.plural}"

    @property
    def full(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


@dataclass
class Objects:
    """The stored objects. `stored[group/plural][namespace, name]`; a test may read and write it."""

    stored: dict[str, dict[tuple[str, str], Json]] = field(default_factory=dict)
    kinds: dict[str, tuple[tuple[str, ...], str, bool]] = field(default_factory=lambda: dict(KINDS))
    user: str = ""
    denied: set[tuple[str, str]] = field(default_factory=set)
    version: int = 1000
    sent: dict[str, str] = field(default_factory=dict)
    """How each object was when it was sent last, by its UID."""

    def uninstall(self, group: str) -> None:
        for key in [key for key in self.kinds if key.startswith(f"{group}/")]:
            del self.kinds[key]

    def of(self, key: str) -> dict[tuple[str, str], Json]:
        return self.stored.setdefault(key, {})

    def add(self, key: str, name: str, *, namespace: str = "", **content: Any) -> Json:
        """Put an object there, as an administrator did."""
        metadata = {**content.pop("metadata", {}), "name": name, **({"namespace": namespace} if namespace else {})}
        return self._store(key, {"metadata": metadata, **content}, manager="admin")

    def answer(self, method: str, path: str, *, query: dict[str, str], body: Any, accept: str) -> Answer:
        if path in REVIEWS or path.count("/") == 2:
            return self._review(path, body) if path in REVIEWS else self._group(path.removeprefix("/apis/"))
        return self._object(method, _taken_apart(path), query=query, body=body, accept=accept)

    def _object(self, method: str, target: Asked | None, *, query: dict[str, str], body: Any, accept: str) -> Answer:
        if target is None or target.version not in self.kinds.get(target.key, ((),))[0]:
            return NOT_SERVED
        verb = {"GET": "get" if target.name else "list", "POST": "create"}.get(method, method.lower())
        if (verb, target.plural) in self.denied:
            return self._forbidden(verb, target)
        served: dict[str, Callable[[], Answer]] = {
            "get": lambda: self._get(target, accept),
            "list": lambda: self._list(target, query, accept),
            "create": lambda: self._create(target, body, query),
            "delete": lambda: self._delete(target, body or {}),
        }
        refused = status(405, "MethodNotAllowed", f"the stand-in does not {method}")
        return served[verb]() if verb in served else refused

    def _group(self, group: str) -> Answer:
        served = [versions for key, (versions, _, _) in self.kinds.items() if key.startswith(f"{group}/")]
        if not served:
            return NOT_SERVED
        versions = [{"groupVersion": f"{group}/{v}", "version": v} for v in served[0]]
        return Answer(200, {"kind": "APIGroup", "name": group, "versions": versions, "preferredVersion": versions[-1]})

    def _review(self, path: str, body: Json) -> Answer:
        if path.endswith("selfsubjectreviews"):
            return Answer(201, {**body, "status": {"userInfo": {"username": self.user}}})
        review = body["spec"]["resourceAttributes"]
        return Answer(201, {**body, "status": {"allowed": (review["verb"], review["resource"]) not in self.denied}})

    def _forbidden(self, verb: str, target: Asked) -> Answer:
        name = f' "{target.name}"' if target.name else ""
        scope = f' in the namespace "{target.namespace}"' if target.namespace else " at the cluster scope"
        message = (
            f'{target.full}{name} is forbidden: User "{self.user}" cannot {verb} resource "{target.plural}" in API'
            f' group "{target.group}"{scope}'
        )
        return status(403, "Forbidden", message, details={"name": target.name, "kind": target.plural})

    def _get(self, target: Asked, accept: str) -> Answer:
        kube_object = self.of(target.key).get((target.namespace, target.name))
        if kube_object is None:
            details = {"name": target.name, "group": target.group, "kind": target.plural}
            return status(404, "NotFound", f'{target.full} "{target.name}" not found', details=details)
        self._version(kube_object)
        if "as=PartialObjectMetadata" in accept:
            return Answer(200, _metadata_of(kube_object))
        return Answer(200, kube_object)

    def _list(self, target: Asked, query: dict[str, str], accept: str) -> Answer:
        every = self.of(target.key).items()
        inside = [o for (namespace, _), o in every if target.namespace in ("", namespace)]
        chosen = [o for o in inside if kuberules.selected(o, query.get("labelSelector", ""))]
        chosen = [o for o in chosen if kuberules.has_fields(o, query.get("fieldSelector", ""))]
        for kube_object in chosen:
            self._version(kube_object)
        metadata = {"resourceVersion": str(self.version)}
        if "as=PartialObjectMetadataList" in accept:
            items = [_metadata_of(kube_object) for kube_object in chosen]
            return Answer(200, {"kind": "PartialObjectMetadataList", "metadata": metadata, "items": items})
        return Answer(200, {"kind": "List", "metadata": metadata, "items": chosen})

    def _version(self, document: Json) -> None:
        """Give an object another resourceVersion if a test changed it since it was last sent."""
        metadata = document["metadata"]
        content = json.dumps({**document, "metadata": {**metadata, "resourceVersion": ""}}, sort_keys=True)
        uid = metadata.get("uid", "")
        if self.sent.setdefault(uid, content) != content:
            self.version += 1
            metadata["resourceVersion"] = str(self.version)
            self.sent[uid] = content

    def _create(self, target: Asked, body: Json, query: dict[str, str]) -> Answer:
        if target.namespace and ("", target.namespace) not in self.of("/namespaces"):
            details = {"name": target.namespace, "kind": "namespaces"}
            return status(404, "NotFound", f'namespaces "{target.namespace}" not found', details=details)
        kind = self.kinds[target.key][1]
        new = kuberules.defaulted(kind, copy.deepcopy(body))
        name = new["metadata"].get("name", "")
        refused = kuberules.refusal(kind, new, strict=query.get("fieldValidation") == "Strict")
        if refused:
            causes = [{"field": f, "message": m} for f, m in refused.causes]
            manifest = {"name": name, "kind": kind, "causes": causes}
            return status(refused.code, refused.reason, refused.message, details=manifest)
        if (target.namespace, name) in self.of(target.key):
            details = {"name": name, "group": target.group, "kind": target.plural}
            return status(409, "AlreadyExists", f'{target.full} "{name}" already exists', details=details)
        new["metadata"]["namespace"] = target.namespace
        manager = query.get("fieldManager", "unknown")
        if query.get("dryRun") == "All":
            return Answer(201, self._stamped(new, manager))
        return Answer(201, self._store(target.key, new, manager=manager))

    def _delete(self, target: Asked, options: Json) -> Answer:
        kube_object = self.of(target.key).get((target.namespace, target.name))
        details = {"name": target.name, "group": target.group, "kind": target.plural}
        if kube_object is None:
            return status(404, "NotFound", f'{target.full} "{target.name}" not found', details=details)
        expected = (options.get("preconditions") or {}).get("uid")
        if expected and expected != kube_object["metadata"]["uid"]:
            message = (
                f'Operation cannot be fulfilled on {target.full} "{target.name}": the UID in the precondition'
                f" ({expected}) does not match the UID in record ({kube_object['metadata']['uid']})."
                " The object might have been deleted and then recreated"
            )
            return status(409, "Conflict", message, details=details)
        del self.of(target.key)[target.namespace, target.name]
        return Answer(200, {"kind": "Status", "apiVersion": "v1", "status": "Success", "details": details})

    def _store(self, key: str, new: Json, *, manager: str) -> Json:
        stamped = self._stamped(new, manager)
        metadata = stamped["metadata"]
        self.of(key)[metadata.get("namespace", ""), metadata["name"]] = stamped
        return stamped

    def _stamped(self, new: Json, manager: str) -> Json:
        self.version += 1
        data: Json = {"f:data": {f"f:{key}": {} for key in new["data"]}} if new.get("data") else {}
        entry = {"manager": manager, "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": data}
        metadata = {
            **new["metadata"],
            "uid": str(uuid.uuid4()),
            "resourceVersion": str(self.version),
            "generation": 1,
            "creationTimestamp": "2026-11-21T10:00:00Z",
            "managedFields": [entry],
        }
        return {**new, "metadata": metadata}


def _metadata_of(document: Json) -> Json:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": document["metadata"]}


def _taken_apart(path: str) -> Asked | None:
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, below_group = "", parts[1:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, below_group = parts[1], parts[2:]
    else:
        return None
    version, *below_group = below_group
    namespace = ""
    if below_group[0] == "namespaces" and len(below_group) > 2:
        namespace, below_group = below_group[1], below_group[2:]
    return Asked(group, version, below_group[0], namespace, below_group[1] if len(below_group) > 1 else "")
