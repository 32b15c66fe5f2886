"""Nodes as GKE makes them for TPU slices: a node pool per slice, a node per host; and a pool for Pathways' heads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from xsft.catalog.tpu import Slice, parse_tpu_type

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Slices:
    """A number of slices of one type."""

    tpu_type: str
    count: int

    @property
    def shape(self) -> Slice:
        return parse_tpu_type(self.tpu_type)

    @property
    def flavor(self) -> str:
        """Name of the ResourceFlavor that xpk@1.16.0 makes for them, `2xv6e-256`."""
        return f"{self.count}x{self.tpu_type}"

    @property
    def chips(self) -> int:
        return self.count * self.shape.chips

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels of every node, with the flavour's node labels."""
        return {
            "cloud.google.com/gke-tpu-accelerator": self.shape.accelerator_label,
            "cloud.google.com/gke-tpu-topology": self.shape.topology,
        }


LARGE = Slices(tpu_type="v6e-256", count=4)
DEFAULT = (
    LARGE,
    Slices(tpu_type="v6e-8", count=2),
    Slices(tpu_type="v6e-16", count=2),
)
HEADS = 6
"""Nodes of the cpu-np pool; a Pathways head takes 48 CPUs of one."""
HEAD_CPUS, HEAD_MEMORY = "64", "256Gi"


def nodes(slices: tuple[Slices, ...]) -> Iterator[Json]:
    for one in slices:
        for number in range(one.count):
            pool = f"xsft-{one.tpu_type}-np-{number}"
            labels = {**one.labels, "cloud.google.com/gke-nodepool": pool}
            for host in range(one.shape.hosts):
                yield _node(f"gke-{pool}-{host:03d}", labels=labels, chips=one.shape.chips_per_host)
    for host in range(HEADS):
        yield _node(f"gke-cpu-np-{host:03d}", labels={"cloud.google.com/gke-nodepool": "cpu-np"}, chips=0)


def ready(node: Json, *, port: int) -> Json:
    """Return the node as its kubelet at loopback's `port` would soon report it; saves three requests for each."""
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    word = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "a test's"}
    reported = {
        "conditions": [{**word, "lastHeartbeatTime": now, "lastTransitionTime": now}],
        "addresses": [
            {"type": "InternalIP", "address": "127.0.0.1"},
            {"type": "Hostname", "address": node["metadata"]["name"]},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    return {**node, "status": {**node["status"], **reported}}


def _node(name: str, *, labels: dict[str, str], chips: int) -> Json:
    """`chips` of a TPU host, which GKE taints so that only pods that ask for them come; 0: a plain machine."""
    tpu = {"google.com/tpu": str(chips)} if chips else {}
    cpu, memory = ("180", "1440Gi") if chips else (HEAD_CPUS, HEAD_MEMORY)  # ct6e-standard-4t has these
    capacity = {"cpu": cpu, "memory": memory, "ephemeral-storage": "1Ti", "pods": "110", **tpu}
    taint = {"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux",
                "beta.kubernetes.io/arch": "amd64",
                **labels,
            },
        },
        "spec": {"taints": [taint]} if chips else {},
        "status": {"capacity": capacity, "allocatable": capacity},
    }
