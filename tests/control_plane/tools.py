"""The programs and manifests of a test cluster, pinned by go/*/go.mod. Finding them starts no process."""

from __future__ import annotations

import hashlib
import platform
import re
from dataclasses import dataclass
from pathlib import Path

from tests.control_plane.kueue_source import PATCH
from xsft.machine.paths import own_cache

GO = Path(__file__).parent / "go"


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A program."""

    name: str
    module: str
    """Folder under go/ whose go.mod pins it."""
    package: str


@dataclass(frozen=True)
class Tools:
    """Built programs and the manifests that belong to them."""

    folder: Path

    def program(self, name: str) -> str:
        return str(self.folder / "bin" / name)

    def manifests(self, project: str) -> tuple[Path, ...]:
        """`project`: jobset, kueue or kwok."""
        return tuple(sorted((self.folder / "manifests" / project).glob("*.yaml")))


TOOLS = (
    Tool(name="kube-apiserver", module="control", package="k8s.io/kubernetes/cmd/kube-apiserver"),
    Tool(name="kube-controller-manager", module="control", package="k8s.io/kubernetes/cmd/kube-controller-manager"),
    Tool(name="kube-scheduler", module="control", package="k8s.io/kubernetes/cmd/kube-scheduler"),
    Tool(name="kubectl", module="control", package="k8s.io/kubernetes/cmd/kubectl"),
    Tool(name="etcd", module="control", package="go.etcd.io/etcd/server/v3"),
    Tool(name="jobset", module="control", package="sigs.k8s.io/jobset"),
    Tool(name="kueue", module="control", package="sigs.k8s.io/kueue/cmd/kueue"),
    Tool(name="kwok", module="kwok", package="sigs.k8s.io/kwok/cmd/kwok"),
)
"""The longest first: it compiles what the others share."""

MANIFESTS = {
    "jobset": ("control", "sigs.k8s.io/jobset", ("config/components/crd/bases", "config/components/webhook")),
    "kueue": ("control", "sigs.k8s.io/kueue", ("config/components/crd/bases", "config/components/webhook")),
    "kwok": ("kwok", "sigs.k8s.io/kwok", ("kustomize/crd/bases",)),
}
"""Project: the module that pins it, the module it is in, folders."""


def version(module: str, package: str) -> str:
    """The version of `package` in go/<module>/go.mod, `v1.35.3`."""
    match = re.search(rf"^(?:require)?\s*{re.escape(package)} (v\S+)", pins(module), re.MULTILINE)
    if match is None:
        raise LookupError(f"go/{module}/go.mod requires no {package}")
    return match[1]


def pins(module: str) -> str:
    return (GO / module / "go.mod").read_text(encoding="utf-8")


def link_flags() -> str:
    """Versions that the programs tell; without them the API server calls itself v0.0.0-master (its version.go)."""
    kubernetes = version("control", "k8s.io/kubernetes")
    major, minor, _ = kubernetes.removeprefix("v").split(".")
    base = "k8s.io/component-base/version"
    version_values = {
        f"{base}.gitVersion": kubernetes,
        f"{base}.gitMajor": major,
        f"{base}.gitMinor": minor,
        f"{base}.gitTreeState": "clean",
        "k8s.io/client-go/pkg/version.gitVersion": kubernetes,
        "sigs.k8s.io/jobset/pkg/version.GitVersion": version("control", "sigs.k8s.io/jobset"),
        "sigs.k8s.io/kueue/pkg/version.GitVersion": version("control", "sigs.k8s.io/kueue"),
    }
    return " ".join(("-s", "-w", *(f"-X {name}={value}" for name, value in version_values.items())))


def digest() -> str:
    """Return a digest of what decides what is built, and for which kind of machine; 64 hex digits.

    The Go toolchain does not count: go.mod names the oldest that will do, and a newer one builds the same programs.
    """
    summed = hashlib.sha256()
    for path in sorted(GO.glob("*/*")):
        summed.update(f"{path.relative_to(GO)}\0".encode() + path.read_bytes() + b"\0")
    summed.update(repr((link_flags(), TOOLS, MANIFESTS, PATCH, platform.system(), platform.machine())).encode())
    return summed.hexdigest()


def place() -> Path:
    """Return the folder of the tools, even before they are built."""
    return own_cache() / "cluster-tools" / digest()[:16]


def find() -> Tools | None:
    """Return the tools if their folder exists: it is moved to its place when all of them are built."""
    folder = place()
    return Tools(folder) if folder.is_dir() else None
