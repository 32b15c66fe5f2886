"""A command run once: what it took of time, processor and memory, with all it started; and what it asked a cluster."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.control_plane.api import Cluster
from tests.fakes.kubeapi import write_kubeconfig
from tests.faults.answer import Answer
from tests.faults.fault import Seen
from tests.faults.proxy import Upstream
from tests.faults.server import Front, served


@dataclass(frozen=True, kw_only=True)
class Cost:
    wall_s: float
    cpu_s: float
    """User and system."""
    rss_mib: float
    """Of the largest process at its largest."""


WATCH = """
import os, sys, time
started = time.monotonic()
child = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, used = os.wait4(child, 0)
with open(sys.argv[1], "w") as told:
    told.write(f"{time.monotonic() - started} {used.ru_utime + used.ru_stime} {used.ru_maxrss}")
sys.exit(os.waitstatus_to_exitcode(status))
"""
"""A small process that starts the command: Linux counts the memory of who forks as the child's, also after exec."""


@dataclass(frozen=True, kw_only=True)
class Ran:
    cost: Cost
    stdout: str
    stderr: str


def run(argv: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> Ran:
    """Raises SystemExit, with its last words, where it fails."""
    with tempfile.NamedTemporaryFile() as output:
        watched = (sys.executable, "-I", "-S", "-c", WATCH, output.name, *argv)
        done = subprocess.run(
            watched, env=env, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            text = f"{done.stdout[-1500:]}{done.stderr[-1500:]}"
            raise SystemExit(f"{' '.join(argv)} ended with {done.returncode}:\n{text}")
        wall, cpu, rss_kib = map(float, output.read().split())
    cost = Cost(wall_s=wall, cpu_s=cpu, rss_mib=rss_kib / 1024)
    return Ran(cost=cost, stdout=done.stdout, stderr=done.stderr)


def middle(costs: Sequence[Cost]) -> Cost:
    """The median of each; of memory the most."""
    return Cost(
        wall_s=statistics.median(run_cost.wall_s for run_cost in costs),
        cpu_s=statistics.median(run_cost.cpu_s for run_cost in costs),
        rss_mib=max(run_cost.rss_mib for run_cost in costs),
    )


@dataclass
class Asked:
    """The requests that a server received."""

    kubeconfig: Path
    seen: list[Seen] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    """Bytes of each answer's body, as they went over the wire."""

    @property
    def lists(self) -> list[Seen]:
        """Return the requests for collections: the verb `list` of the API server's own RBAC."""
        return [request for request in self.seen if _is_list(request)]

    @property
    def mib(self) -> float:
        return sum(self.sent) / 2**20


@contextmanager
def counting(cluster: Cluster, folder: Path) -> Iterator[Asked]:
    """A front of the cluster that passes all on and counts; its context has the cluster's name."""
    upstream = Upstream(server=cluster.server, ca=cluster.ca)
    counter = Asked(kubeconfig=folder / "counting.yaml")

    def passed(request: Seen) -> Answer:
        answer = upstream.answer(request)
        counter.seen.append(request)
        counter.sent.append(len(answer.content()))
        return answer

    certificate = (Path(cluster.layout.certificate("server.crt")), Path(cluster.layout.certificate("server.key")))
    with served(Front(behind=passed), certificate=certificate) as front:  # kubectl tells no token without TLS
        file, context = counter.kubeconfig, cluster.context
        write_kubeconfig(file, server=front.url, token=cluster.token, context=context, ca=cluster.ca)
        config = yaml.safe_load(file.read_text(encoding="utf-8"))
        file.write_text(yaml.safe_dump({**config, "current-context": context}), encoding="utf-8")
        yield counter


def _is_list(request: Seen) -> bool:
    """/api/v1/[namespaces/NS/]KIND or /apis/GROUP/VERSION/[namespaces/NS/]KIND."""
    parts = request.path.strip("/").split("/")
    inside = parts[2:] if parts[0] == "api" else parts[3:]
    kind = inside[2:] if inside[:1] == ["namespaces"] else inside
    return request.method == "GET" and len(kind) == 1
