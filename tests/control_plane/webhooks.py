"""The objects of JobSet, Kueue and kwok: CRDs, and webhooks that the API server really calls, on this machine.

The manifests are the projects' own, changed as their kustomizations change them, with a URL in place of a Service.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.control_plane.components import Layout
from tests.control_plane.rest import Rest

Json = dict[str, Any]
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
CONVERTED = ("localqueues", "clusterqueues", "cohorts", "workloads", "multikueueclusters")
"""Kueue v0.16 config/components/crd/kustomization.yaml: those with a conversion webhook."""
ALL_PODS = ("mpod.kb.io", "vpod.kb.io")
KUEUE_EVERYWHERE = (*ALL_PODS, *(f"{kind}{what}.kb.io" for kind in "mv" for what in ("deployment", "statefulset")))
"""Kueue v0.16 config/components/webhook/kustomization.yaml: without it the cluster blocks itself."""
PATHS = {
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "MutatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
}


def install(api: Rest, layout: Layout) -> Callable[[], bool]:
    """CRDs and webhooks, before the controllers start. Returns what tells whether the CRDs are served: a controller
    that looks earlier gives up (Kueue: "no matches for kind Workload").
    """
    installed = tuple(objects(layout))
    api.create_all((PATHS[document["kind"]], document) for document in installed)
    api("POST", "/api/v1/namespaces", {"metadata": {"name": "kueue-system"}})
    kinds = {
        (document["spec"]["group"], version["name"], document["spec"]["names"]["plural"])
        for document in installed
        if document["kind"] == "CustomResourceDefinition"
        for version in document["spec"]["versions"]
        if version["served"]
    }
    return lambda: kinds <= _served(api)


def _served(api: Rest) -> set[tuple[str, str, str]]:
    """Group, version and plural of all that the server tells of."""
    document = json.loads(api.text("GET", "/apis", accept=DISCOVERY))
    return {
        (group["metadata"]["name"], version["version"], resource["resource"])
        for group in document["items"]
        for version in group["versions"]
        for resource in version.get("resources", ())
    }


def serves(api: Rest, plurals: tuple[str, ...]) -> bool:
    """Return whether the server lists these kinds."""
    return set(plurals) <= {plural for *_, plural in _served(api)}


def objects(layout: Layout) -> Iterator[Json]:
    """Yield the webhooks of the three projects, ready to create."""
    ca = base64.b64encode(Path(layout.certificate("ca.crt")).read_bytes()).decode()
    for project in ("kwok", "jobset", "kueue"):
        for document in _documents(layout.tools.manifests(project)):
            if document["kind"].endswith("WebhookConfiguration"):
                document["metadata"]["name"] = f"{project}-{document['metadata']['name']}"
                for webhook in document["webhooks"]:
                    _direct(webhook, port=layout.ports[project], ca=ca)
                    _narrow(webhook, project=project)
            elif project == "kueue" and document["kind"] == "CustomResourceDefinition":
                _convert(document, port=layout.ports["kueue"], ca=ca)
            yield document


def _documents(files: tuple[Path, ...]) -> Iterator[Json]:
    for file in files:
        documents = yaml.load_all(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
        yield from (document for document in documents if document and document.get("kind") in PATHS)


def _direct(webhook: Json, *, port: int, ca: str) -> None:
    path = webhook["clientConfig"]["service"]["path"]
    webhook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": ca}


def _narrow(webhook: Json, *, project: str) -> None:
    if project == "jobset" and webhook["name"] in ALL_PODS:
        webhook["objectSelector"] = {
            "matchExpressions": [{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}]
        }
    if project == "kueue" and webhook["name"] in KUEUE_EVERYWHERE:
        spared = {"operator": "NotIn", "values": ["kube-system", "kueue-system"]}
        webhook["namespaceSelector"] = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", **spared}]}


def _convert(crd: Json, *, port: int, ca: str) -> None:
    if crd["spec"]["names"]["plural"] not in CONVERTED:
        return
    client = {"url": f"https://127.0.0.1:{port}/convert", "caBundle": ca}
    crd["spec"]["conversion"] = {
        "strategy": "Webhook",
        "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client},
    }
