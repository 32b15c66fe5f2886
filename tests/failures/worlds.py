"""A world for generated workloads: a bucket with checkpoints and rows, a hub, a registry, and a cluster.

Servers on loopback: of Google's and the hub's APIs stand-ins, as their documentation has them; the registry serves real
manifests, the cluster is xpk's with two slices of each type that the workloads take.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.checkpoints import small_files
from tests.fakes.clusters import ClusterApi, standing_in
from tests.fakes.gcs import Bucket
from tests.fakes.gcs import serving as serving_bucket
from tests.machine.test_http_session import Server
from tests.machine.test_http_session import serving as serving_http
from xsft.base.acceptance import for_submission
from xsft.base.problems import Problem
from xsft.cluster.cluster import Cluster
from xsft.image.lock_file import look_at_image
from xsft.launch import notes
from xsft.launch.admission import examine
from xsft.planning import api
from xsft.planning.steps import Plan

STEP = b'{"init_timestamp_nsecs": 1, "commit_timestamp_nsecs": 2, "custom_metadata": {"scan_layers": true}}'
CHAT = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]}
ROWS = f"{json.dumps(CHAT)}\n".encode() * 4000
TABLE = {
    "dataset_info": {
        "default": {"features": {"messages": {}}, "splits": {"train_sft": {}, "test_sft": {}}},
        "math": {"features": {"messages": {}, "id": {}}, "splits": {"train": {}, "test": {}}},
    },
    "pending": [],
    "failed": [],
    "partial": False,
}
LABELS = {"dev.xsft.maxtext.version": "0.2.5", "dev.xsft.packages": "jax==0.11.0 libtpu==0.0.44"}
QUEUE = {"queue": "multislice-queue", "namespace": "default", "output": "gs://my-bucket/runs"}


@dataclass(frozen=True, kw_only=True)
class GoodWorld:
    """The servers; a test may change what they hold."""

    bucket: Bucket
    web: Server
    cluster: ClusterApi

    @property
    def image(self) -> str:
        return f"{self.web.address}/team/post-training@{_digest(_manifest())}"

    @contextmanager
    def slow(self, delay_s: float) -> Iterator[None]:
        """Every answer comes so much later."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.bucket, "delay_s", delay_s)
            patch.setattr(self.web, "delay_s", delay_s)
            patch.setattr(self.cluster.server, "delay_s", delay_s)
            yield

    def write(self, folder: Path, name: str, tree: Mapping[str, Any]) -> str:
        """Write a workload that names this world's cluster and image; return its path."""
        place = {"context": self.cluster.context, **QUEUE, **tree.get("place", {})}
        image = {"ref": self.image, "maxtext": "0.2.5", **tree.get("image", {})}
        path = folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump({"image": image, **tree, "name": name, "place": place}))
        return str(path)

    def said(self, files: Sequence[str]) -> dict[str, list[str]]:
        """Return what `check` and `submit` would print of each file, with its errors and warnings."""
        plans = api.plan([api.load(file) for file in files])
        cluster = self.cluster.connect()
        lines_by_file = {
            run_plan.run_name: (*for_submission(run_plan.problems), *self._submission(run_plan, cluster))
            for run_plan in plans
        }
        return {
            name: [f"{p.id}: {p.message}" for p in problems_of_file if p.severity != "note"]
            for name, problems_of_file in lines_by_file.items()
        }

    def _submission(self, plan: Plan, cluster: Cluster) -> tuple[Problem, ...]:
        facts, problems = examine(cluster, plan)
        image = notes.image_of(plan, look=look_at_image)
        starting = notes.start_notes(plan, image, facts, found=problems)
        return (*problems, *notes.image_notes(plan, image), *starting)


@contextmanager
def good_world(folder: Path, models: Sequence[str]) -> Iterator[GoodWorld]:
    with serving_bucket(Bucket(_objects(models))) as bucket, serving_http() as web, standing_in(folder) as cluster:
        web.answers = dict(_answers())
        furnish_slices(cluster)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("STORAGE_EMULATOR_HOST", bucket.url)
            patch.setenv("HF_ENDPOINT", f"http://{web.address}")
            patch.setenv("KUBECONFIG", str(cluster.kubeconfig))
            yield GoodWorld(bucket=bucket, web=web, cluster=cluster)


def _objects(models: Sequence[str]) -> dict[str, bytes]:
    bucket_objects = {f"rows/{n}.jsonl": ROWS for n in range(64)}
    for model in models:
        bucket_objects[f"{model}/0/_CHECKPOINT_METADATA"] = STEP
        bucket_objects |= {f"{model}/0/items/{name}": content for name, content in small_files(model).items()}
    return bucket_objects


def _answers() -> Iterator[tuple[str, tuple[int, dict[str, str], bytes]]]:
    yield "/api/datasets/me/rows", (200, {}, b'{"gated": false}')
    yield "/info", (200, {}, json.dumps(TABLE).encode())
    manifest = _manifest()
    kind = {"Content-Type": "application/vnd.oci.image.manifest.v1+json"}
    yield f"/v2/team/post-training/manifests/{_digest(manifest)}", (200, kind, manifest)
    yield f"/v2/team/post-training/blobs/{_digest(_config())}", (200, {}, _config())


def _config() -> bytes:
    return json.dumps({"os": "linux", "architecture": "amd64", "config": {"Labels": LABELS}}).encode()


def _manifest() -> bytes:
    config = {"digest": _digest(_config()), "size": len(_config())}
    return json.dumps({"config": config, "layers": [{"digest": _digest(b"x"), "size": 2**31}]}).encode()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


SLICES = {"v6e-8": ("2x4", 2), "v6e-16": ("4x4", 4)}
"""Topology and hosts; v6e-256 is there already."""


def furnish_slices(cluster: ClusterApi) -> None:
    """Add two slices of each type, with their flavors and quota."""
    objects = cluster.standin.objects
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    queue = objects.of("kueue.x-k8s.io/clusterqueues")["", "cluster-queue"]
    flavors = queue["spec"]["resourceGroups"][0]["flavors"]
    for name, (topology, hosts) in SLICES.items():
        labels = tpu_labels(topology)
        objects.add("kueue.x-k8s.io/resourceflavors", name, spec={"nodeLabels": labels})
        flavors.append({"name": name, "resources": [{"name": "google.com/tpu", "nominalQuota": 64}]})
        for pool in range(2):
            pool_labels = {**labels, "cloud.google.com/gke-nodepool": f"{name}-{pool}"}
            for host in range(hosts):
                metadata = {"labels": pool_labels}
                objects.add("/nodes", f"gke-{name}-{pool}-{host}", metadata=metadata, status=ready)


def tpu_labels(topology: str) -> dict[str, str]:
    return {
        "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
        "cloud.google.com/gke-tpu-topology": topology,
    }
