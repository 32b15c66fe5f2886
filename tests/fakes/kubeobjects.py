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

    def _object(self, method: str, asked: Asked | None, *, query: dict[str, str], body: Any, accept: str) -> Answer:
        if asked is None or asked.version not in self.kinds.get(asked.key, ((),))[0]:
            return NOT_SERVED
        verb = {"GET": "get" if asked.name else "list", "POST": "create"}.get(method, method.lower())
        if (verb, asked.plural) in self.denied:
            return self._forbidden(verb, asked)
        served: dict[str, Callable[[], Answer]] = {
            "get": lambda: self._get(asked, accept),
            "list": lambda: self._list(asked, query, accept),
            "create": lambda: self._create(asked, body, query),
            "delete": lambda: self._delete(asked, body or {}),
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
        asked = body["spec"]["resourceAttributes"]
        return Answer(201, {**body, "status": {"allowed": (asked["verb"], asked["resource"]) not in self.denied}})

    def _forbidden(self, verb: str, asked: Asked) -> Answer:
        name = f' "{asked.name}"' if asked.name else ""
        scope = f' in the namespace "{asked.namespace}"' if asked.namespace else " at the cluster scope"
        message = (
            f'{asked.full}{name} is forbidden: User "{self.user}" cannot {verb} resource "{asked.plural}" in API group'
            f' "{asked.group}"{scope}'
        )
        return status(403, "Forbidden", message, details={"name": asked.name, "kind": asked.plural})

    def _get(self, asked: Asked, accept: str) -> Answer:
        found = self.of(asked.key).get((asked.namespace, asked.name))
        if found is None:
            details = {"name": asked.name, "group": asked.group, "kind": asked.plural}
            return status(404, "NotFound", f'{asked.full} "{asked.name}" not found', details=details)
        self._version(found)
        if "as=PartialObjectMetadata" in accept:
            return Answer(200, _metadata_of(found))
        return Answer(200, found)

    def _list(self, asked: Asked, query: dict[str, str], accept: str) -> Answer:
        every = self.of(asked.key).items()
        inside = [o for (namespace, _), o in every if asked.namespace in ("", namespace)]
        found = [o for o in inside if kuberules.selected(o, query.get("labelSelector", ""))]
        found = [o for o in found if kuberules.has_fields(o, query.get("fieldSelector", ""))]
        for one in found:
            self._version(one)
        metadata = {"resourceVersion": str(self.version)}
        if "as=PartialObjectMetadataList" in accept:
            items = [_metadata_of(one) for one in found]
            return Answer(200, {"kind": "PartialObjectMetadataList", "metadata": metadata, "items": items})
        return Answer(200, {"kind": "List", "metadata": metadata, "items": found})

    def _version(self, one: Json) -> None:
        """Give an object another resourceVersion if a test changed it since it was last sent."""
        metadata = one["metadata"]
        content = json.dumps({**one, "metadata": {**metadata, "resourceVersion": ""}}, sort_keys=True)
        uid = metadata.get("uid", "")
        if self.sent.setdefault(uid, content) != content:
            self.version += 1
            metadata["resourceVersion"] = str(self.version)
            self.sent[uid] = content

    def _create(self, asked: Asked, body: Json, query: dict[str, str]) -> Answer:
        if asked.namespace and ("", asked.namespace) not in self.of("/namespaces"):
            details = {"name": asked.namespace, "kind": "namespaces"}
            return status(404, "NotFound", f'namespaces "{asked.namespace}" not found', details=details)
        kind = self.kinds[asked.key][1]
        new = kuberules.defaulted(kind, copy.deepcopy(body))
        name = new["metadata"].get("name", "")
        refused = kuberules.refusal(kind, new, strict=query.get("fieldValidation") == "Strict")
        if refused:
            causes = [{"field": f, "message": m} for f, m in refused.causes]
            told = {"name": name, "kind": kind, "causes": causes}
            return status(refused.code, refused.reason, refused.message, details=told)
        if (asked.namespace, name) in self.of(asked.key):
            details = {"name": name, "group": asked.group, "kind": asked.plural}
            return status(409, "AlreadyExists", f'{asked.full} "{name}" already exists', details=details)
        new["metadata"]["namespace"] = asked.namespace
        manager = query.get("fieldManager", "unknown")
        if query.get("dryRun") == "All":
            return Answer(201, self._stamped(new, manager))
        return Answer(201, self._store(asked.key, new, manager=manager))

    def _delete(self, asked: Asked, options: Json) -> Answer:
        found = self.of(asked.key).get((asked.namespace, asked.name))
        details = {"name": asked.name, "group": asked.group, "kind": asked.plural}
        if found is None:
            return status(404, "NotFound", f'{asked.full} "{asked.name}" not found', details=details)
        wanted = (options.get("preconditions") or {}).get("uid")
        if wanted and wanted != found["metadata"]["uid"]:
            message = (
                f'Operation cannot be fulfilled on {asked.full} "{asked.name}": the UID in the precondition ({wanted})'
                f" does not match the UID in record ({found['metadata']['uid']})."
                " The object might have been deleted and then recreated"
            )
            return status(409, "Conflict", message, details=details)
        del self.of(asked.key)[asked.namespace, asked.name]
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


def _metadata_of(one: Json) -> Json:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": one["metadata"]}


def _taken_apart(path: str) -> Asked | None:
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, rest = "", parts[1:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, rest = parts[1], parts[2:]
    else:
        return None
    version, *rest = rest
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    return Asked(group, version, rest[0], namespace, rest[1] if len(rest) > 1 else "")
