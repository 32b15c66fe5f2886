"""The place of a run: a cluster, its queue and its bucket, from places.yaml or from the workload."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from xsft.base import forms
from xsft.spec.base import DnsLabel, GcsUri, ImageRef, Section

Project = Annotated[str, StringConstraints(pattern=forms.PROJECT)]
Zone = Annotated[str, StringConstraints(pattern=forms.ZONE)]
ClusterName = Annotated[str, StringConstraints(pattern=forms.NAME, max_length=40)]

DEFAULT_QUEUE = "multislice-queue"
"""The only LocalQueue that xpk makes (xpk@1.16.0 core/kueue_manager.py, LOCAL_QUEUE_NAME)."""


class PathwaysImages(Section):
    """Pathways' images and scratch bucket for runs in this place."""

    proxy_image: ImageRef | None = None
    """Image of the proxy, e.g. `us-docker.pkg.dev/cloud-tpu-v2-images/pathways/proxy_server:20250819-jax_0.7.0`."""
    server_image: ImageRef | None = None
    """Image of the resource manager and the workers, with the same date as the proxy's."""
    scratch: GcsUri | None = None
    """Bucket for Pathways' temporary files, e.g. `gs://my-bucket/pathways`; xpk's default is a Google-internal
    bucket.
    """


class Place(Section):
    """A cluster: project, zone and cluster name, or a kubeconfig context."""

    project: Project | None = None
    """Google Cloud project, e.g. `my-project`."""
    zone: Zone | None = None
    """Zone or region of the cluster, e.g. `us-east5-b`."""
    cluster: ClusterName | None = None
    """Name of the GKE cluster."""
    context: Annotated[str, StringConstraints(min_length=1, pattern=forms.CONTEXT)] | None = None
    """Context of the kubeconfig, instead of project, zone and cluster. It works with any Kubernetes cluster with JobSet
    and Kueue, and needs no gcloud.
    """
    namespace: DnsLabel = "default"
    """Kubernetes namespace of the run."""
    queue: DnsLabel = DEFAULT_QUEUE
    """Kueue LocalQueue in that namespace."""
    output: GcsUri | None = None
    """Bucket for results, e.g. `gs://my-bucket/runs`, if the workload has no `output` (base_output_directory)."""
    registry: Annotated[str, StringConstraints(pattern=forms.REGISTRY)] | None = None
    """Artifact Registry repository for images, e.g. `us-docker.pkg.dev/my-project/xsft`."""
    fit: Literal["required"] | None = None
    """`required`: refuse runs without a verdict of `xsft fit`."""
    chip_hour_price: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """Price of one chip-hour in your currency, e.g. `2.7`; `plan` and `submit` then print the minimum cost."""
    pathways: PathwaysImages = Field(default_factory=PathwaysImages)
