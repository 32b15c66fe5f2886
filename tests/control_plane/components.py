"""The command that starts each component, all on 127.0.0.1 and all as the cluster's one administrator."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.control_plane.kueue_source import CERTIFICATES
from tests.control_plane.kueue_source import PORT as VISIBILITY_PORT
from tests.control_plane.processes import Command
from tests.control_plane.tools import Tools

PORTS = ("etcd", "etcd-peers", "api", "jobset", "kueue", "visibility", "kwok")
STAGES = Path(__file__).with_name("stages.yaml")
SERVICES = "10.200.0.0/16"
PODS = "10.64.0.0/12"
ORDER = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "jobset", "kueue", "kwok")
"""Of starting; they stop the other way round."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The folders and ports of a cluster."""

    folder: Path
    tools: Tools
    ports: dict[str, int]
    token: str

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.ports['api']}"

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    def certificate(self, name: str) -> str:
        return str(self.folder / "pki" / name)


def commands(layout: Layout) -> dict[str, Command]:
    """Return the command of each component. `write_files` writes the files they name."""
    arguments_of = {
        "etcd": _etcd(layout),
        "kube-apiserver": _apiserver(layout),
        "kube-controller-manager": _controller_manager(layout),
        "kube-scheduler": _scheduler(layout),
        "jobset": ("--config=jobset.json",),
        "kueue": ("--config=kueue.json",),
        "kwok": _kwok(layout),
    }
    env = {"KUBECONFIG": str(layout.kubeconfig), VISIBILITY_PORT: str(layout.ports["visibility"])}
    return {
        name: Command(
            name=name, argv=(layout.tools.program(name), *arguments_of[name]), env=env if name in CONTROLLERS else {}
        )
        for name in ORDER
    }


CONTROLLERS = ("jobset", "kueue")
"""They take the kubeconfig from the environment (controller-runtime)."""


def write_files(layout: Layout) -> None:
    """Configuration of the components. Paths in it are relative to the cluster's folder, where they run."""
    _write(layout.folder / "jobset.json", _jobset_config(layout))
    _write(layout.folder / "kueue.json", _kueue_config(layout))
    tokens = layout.folder / "tokens.csv"
    tokens.touch(mode=0o600)
    tokens.write_text(f'{layout.token},admin,1,"system:masters"\n', encoding="utf-8")
    served = layout.folder / CERTIFICATES
    served.mkdir(mode=0o700)
    for name in ("crt", "key"):
        (served / f"tls.{name}").symlink_to(layout.certificate(f"server.{name}"))


def _etcd(layout: Layout) -> tuple[str, ...]:
    clients, peers = (f"http://127.0.0.1:{layout.ports[name]}" for name in ("etcd", "etcd-peers"))
    return (
        "--name=default",
        "--data-dir=etcd",
        "--unsafe-no-fsync",
        "--quota-backend-bytes=8589934592",
        "--log-level=warn",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
    )


def _apiserver(layout: Layout) -> tuple[str, ...]:
    pki = layout.certificate
    return (
        f"--etcd-servers=http://127.0.0.1:{layout.ports['etcd']}",
        "--bind-address=127.0.0.1",
        f"--secure-port={layout.ports['api']}",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",  # else it refuses a loopback address
        f"--tls-cert-file={pki('server.crt')}",
        f"--tls-private-key-file={pki('server.key')}",
        f"--client-ca-file={pki('ca.crt')}",
        "--token-auth-file=tokens.csv",
        "--authorization-mode=RBAC",
        "--disable-admission-plugins=TaintNodesByCondition",  # the nodes are Ready as they come
        f"--service-account-issuer={layout.server}",
        f"--service-account-key-file={pki('service-account.pub')}",
        f"--service-account-signing-key-file={pki('service-account.key')}",
        f"--service-cluster-ip-range={SERVICES}",
        "--allow-privileged=true",  # xpk's containers are
        f"--requestheader-client-ca-file={pki('ca.crt')}",  # from here: the server of queue positions stands behind it
        "--requestheader-allowed-names=front-proxy",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pki('front-proxy.crt')}",
        f"--proxy-client-key-file={pki('front-proxy.key')}",
        f"--kubelet-client-certificate={pki('kubelet-client.crt')}",  # logs, through kwok
        f"--kubelet-client-key={pki('kubelet-client.key')}",
        f"--kubelet-certificate-authority={pki('ca.crt')}",
        "--kubelet-preferred-address-types=InternalIP",
        "--profiling=false",
    )


def _controller_manager(layout: Layout) -> tuple[str, ...]:
    without = ("cloud-node-lifecycle", "node-ipam", "node-route", "service-lb", "ttl", "endpoints", "endpointslice")
    return (
        *_client(layout),
        f"--root-ca-file={layout.certificate('ca.crt')}",
        f"--service-account-private-key-file={layout.certificate('service-account.key')}",
        "--concurrent-job-syncs=20",
        "--concurrent-gc-syncs=40",
        "--concurrent-namespace-syncs=20",
        "--node-monitor-grace-period=8760h",  # nobody beats a heart: 274 of them are most of what an idle cluster does
        f"--controllers=*,{','.join(f'-{name}-controller' for name in without)}",
    )


def _scheduler(layout: Layout) -> tuple[str, ...]:
    return _client(layout)


def _client(layout: Layout) -> tuple[str, ...]:
    names = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
    limits = ("--kube-api-qps=2000", "--kube-api-burst=4000")  # the defaults throttle 128 pods
    return (*(f"--{name}={layout.kubeconfig}" for name in names), "--leader-elect=false", "--secure-port=0", *limits)


def _kwok(layout: Layout) -> tuple[str, ...]:
    return (
        f"--kubeconfig={layout.kubeconfig}",
        f"--config={STAGES}",
        "--enable-crds=Logs,ClusterLogs",
        "--manage-all-nodes=true",
        "--node-lease-duration-seconds=0",
        "--node-ip=127.0.0.1",
        f"--node-port={layout.ports['kwok']}",
        f"--server-address=127.0.0.1:{layout.ports['kwok']}",
        f"--tls-cert-file={layout.certificate('server.crt')}",
        f"--tls-private-key-file={layout.certificate('server.key')}",
        f"--cidr={PODS}",
    )


def _jobset_config(layout: Layout) -> dict[str, Any]:
    return {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": _webhook(layout.ports["jobset"]),
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": "0"},
        "clientConnection": {"qps": 500, "burst": 1000},
    }


def _kueue_config(layout: Layout) -> dict[str, Any]:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": "kueue-system",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": _webhook(layout.ports["kueue"]),
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": "0"},
        "clientConnection": {"qps": 500, "burst": 1000},
        "integrations": {"frameworks": ["batch/job", "jobset.x-k8s.io/jobset", "pod", "deployment", "statefulset"]},
    }


def _webhook(port: int) -> dict[str, Any]:
    return {"host": "127.0.0.1", "port": port, "certDir": CERTIFICATES}


def _write(path: Path, document: Any) -> None:
    path.write_text(json.dumps(document, indent=1), encoding="utf-8")
