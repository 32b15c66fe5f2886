"""Bring a cluster up in its folder: servers, then what they serve, then the controllers, then what they admit."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import partial
from pathlib import Path

import yaml

from tests.control_plane import podlogs, queues, webhooks
from tests.control_plane.api import Cluster, StartFailed
from tests.control_plane.certificates import write_certificates
from tests.control_plane.components import ORDER, PORTS, Layout, write_files
from tests.control_plane.nodes import DEFAULT, Slices, nodes, ready
from tests.control_plane.ports import free_ports
from tests.control_plane.processes import Spawner
from tests.control_plane.tools import Tools
from xsft.spec.place import DEFAULT_QUEUE

Progress = Callable[[str], None]
ATTEMPTS = 3
"""A port that was free may be taken before its server has it."""


def up(
    folder: Path,
    *,
    tools: Tools,
    name: str,
    progress: Progress,
    slices: tuple[Slices, ...] = DEFAULT,
    bound: bool = False,
) -> Cluster:
    """A cluster in `folder`, which must not exist. `bound`: it ends with this process.

    Raises StartFailed, with the end of the log of what failed; nothing is left running then, and the folder is gone.
    """
    for attempt in range(1, ATTEMPTS + 1):
        cluster = prepared(folder, tools=tools, name=name, bound=bound)
        try:
            _start(cluster, slices, progress)
        except BaseException as problem:
            is_port_taken = "address already in use" in "".join(
                cluster.log_tail(component, lines=200) for component in ORDER
            )
            cluster.down()
            if not (is_port_taken and isinstance(problem, StartFailed) and attempt < ATTEMPTS):
                raise
        else:
            return cluster
    raise AssertionError("the last attempt returns or raises")


def prepared(folder: Path, *, tools: Tools, name: str, bound: bool) -> Cluster:
    """With its files and nothing running."""
    folder.mkdir(parents=True, mode=0o700)
    layout = Layout(folder=folder, tools=tools, ports=free_ports(PORTS), token=secrets.token_hex(16))
    write_certificates(folder / "pki")
    write_files(layout)
    _write_kubeconfig(layout, context=name)
    return Cluster(
        name=name,
        layout=layout,
        spawner=Spawner(folder=folder, bound=bound, children={}),
        processes={},
    )


def _start(cluster: Cluster, slices: tuple[Slices, ...], progress: Progress) -> None:
    progress("starting etcd and the API server")
    cluster.start("etcd")
    cluster.start("kube-apiserver")
    progress("installing JobSet and Kueue")
    cluster.spawn("kube-controller-manager")
    cluster.spawn("kube-scheduler")
    served = webhooks.install(cluster.rest, cluster.layout)
    cluster.wait(served, what="the CRDs to be served")
    for controller in ("jobset", "kueue", "kwok"):
        cluster.spawn(controller)
    ready_nodes = [ready(node, port=cluster.layout.ports["kwok"]) for node in nodes(slices)]
    progress(f"adding {len(ready_nodes)} nodes")
    cluster.rest.create_all(("/api/v1/nodes", node) for node in ready_nodes)
    cluster.rest.create_all(queues.visibility_objects(cluster.layout.ports["visibility"]))
    _install_logs(cluster)
    progress("waiting for JobSet and Kueue")
    for path, body in queues.queue_objects(slices):
        cluster.patiently(partial(cluster.rest, "POST", path, body))
    _wait_until_admitting(cluster)
    progress("waiting for the nodes")
    cluster.wait(lambda: _ready(cluster) == len(ready_nodes), what=f"{len(ready_nodes)} nodes to be Ready")


def _install_logs(cluster: Cluster) -> None:
    """A pod without lines of its own has an empty log."""
    empty = cluster.folder / "logs" / "empty.log"
    empty.parent.mkdir(exist_ok=True)
    empty.touch()
    every = podlogs.logs_object("ClusterLogs", "empty", [{"logsFile": str(empty), "follow": True}])
    cluster.rest("POST", f"{podlogs.KWOK}/clusterlogs", every)


def _wait_until_admitting(cluster: Cluster) -> None:
    """Both webhooks answer, and Kueue has seen its queue."""
    probe = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "probe", "labels": {"kueue.x-k8s.io/queue-name": DEFAULT_QUEUE}},
        "spec": {"replicatedJobs": []},
    }
    path = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets?dryRun=All"
    cluster.patiently(lambda: cluster.rest("POST", path, probe))
    queue = f"{queues.KUEUE}/namespaces/default/localqueues/{DEFAULT_QUEUE}"

    def active() -> bool:
        conditions = cluster.rest("GET", queue).get("status", {}).get("conditions", ())
        return any(condition["type"] == "Active" and condition["status"] == "True" for condition in conditions)

    cluster.wait(active, what="the queue to be Active")


def _ready(cluster: Cluster) -> int:
    rows = cluster.rest.rows("/api/v1/nodes?resourceVersion=0&includeObject=None")
    return sum(status == "Ready" for _, status, *_ in rows)


def _write_kubeconfig(layout: Layout, *, context: str) -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "clusters": [
            {
                "name": context,
                "cluster": {"server": layout.server, "certificate-authority": layout.certificate("ca.crt")},
            }
        ],
        "users": [{"name": context, "user": {"token": layout.token}}],
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
    }
    layout.kubeconfig.touch(mode=0o600)
    layout.kubeconfig.write_text(yaml.safe_dump(document), encoding="utf-8")
