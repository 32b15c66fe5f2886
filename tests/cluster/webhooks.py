"""The objects of JobSet, Kueue and kwok: CRDs, and webhooks that the API server really calls, on this machine.

The manifests are the projects' own, changed as their kustomizations change them, with a URL in place of a Service.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.components import Layout
from tests.cluster.rest import Rest

Json = dict[str, Any]
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


def install(api: Rest, layout: Layout) -> None:
    """CRDs and webhooks, before the controllers start."""
    api.create_all((PATHS[one["kind"]], one) for one in objects(layout))
    api("POST", "/api/v1/namespaces", {"metadata": {"name": "kueue-system"}})
    api("POST", "/api/v1/namespaces/kueue-system/secrets", _kueue_secret(layout))


def objects(layout: Layout) -> Iterator[Json]:
    """Those of the three projects, ready to create."""
    ca = base64.b64encode(Path(layout.certificate("ca.crt")).read_bytes()).decode()
    for project in ("kwok", "jobset", "kueue"):
        for one in _documents(layout.tools.manifests(project)):
            if one["kind"].endswith("WebhookConfiguration"):
                one["metadata"]["name"] = f"{project}-{one['metadata']['name']}"
                for webhook in one["webhooks"]:
                    _direct(webhook, port=layout.ports[project], ca=ca)
                    _narrow(webhook, project=project)
            elif project == "kueue" and one["kind"] == "CustomResourceDefinition":
                _convert(one, port=layout.ports["kueue"], ca=ca)
            yield one


def _documents(files: tuple[Path, ...]) -> Iterator[Json]:
    for file in files:
        found = yaml.load_all(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
        yield from (one for one in found if one and one.get("kind") in PATHS)


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


def _kueue_secret(layout: Layout) -> Json:
    """What Kueue's rotator would make itself; it takes this one over."""
    files = {"ca.crt": "ca.crt", "ca.key": "ca.key", "tls.crt": "server.crt", "tls.key": "server.key"}
    data = {
        name: base64.b64encode(Path(layout.certificate(file)).read_bytes()).decode() for name, file in files.items()
    }
    return {"metadata": {"name": "kueue-webhook-server-cert"}, "data": data}
