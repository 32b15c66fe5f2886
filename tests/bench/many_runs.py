"""1,000 runs with 64,000 pods in a real API server: real ones, recorded once and stamped out under other names.

Only etcd and the API server run, so that nothing changes what is there. The copies go straight into etcd: as the API
server would store them, and a hundred times faster than through it. What a list needs beyond that - Kueue's queue
positions and the kubelets' logs - one small server of this process answers.
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
import re
import shutil
import signal
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from tests.bench import beside, recorded
from tests.bench.etcd import Etcd, Pair
from tests.bench.recorded import JOBSETS, NUMBER, WORKLOADS, Recorded
from tests.control_plane import tools, webhooks
from tests.control_plane.api import Cluster
from tests.control_plane.start import Progress, prepared, up
from tests.control_plane.tools import Tools
from xsft.machine.paths import own_cache

NAMESPACE = "runs"
SHARES = {
    "running": 19,
    "plain": 5,
    "running-pathways": 10,
    "completed": 10,
    "failed-pathways": 6,
    "queued": 45,
    "unschedulable": 5,
}
"""Of a hundred runs. They have 64 pods each on average: 128 where there are any."""
APART = timedelta(minutes=3)
"""Each run is so much older than the one before."""
FULL_S = 600.0
"""The API server reads all pods before it is ready: 20 s on an idle machine."""

_UUID = rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_TIME = rb"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"
_VARYING = re.compile(rb"(" + rb"|".join((re.escape(NUMBER), _UUID, _TIME)) + rb")")
_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, kw_only=True)
class Many:
    """A server that holds them."""

    cluster: Cluster
    runs: int
    pods: int
    mcjax: str
    """Name of a run with 128 pods."""


def digest() -> str:
    """Return a digest of everything that decides what is stored."""
    sources = [inspect.getsource(module) for module in (recorded, inspect.getmodule(stamped)) if module]
    return hashlib.sha256("\0".join((tools.digest(), *sources, *recorded.goldens())).encode()).hexdigest()[:16]


def saved(
    *, count: int, programs: Tools, progress: Progress, record: Callable[[], tuple[Recorded, ...]] | None = None
) -> Path:
    """etcd's data with so many runs, made where the cache has none: some minutes and, for 1,000 runs, 1.2 GB. Without
    `record`, a control plane of its own is started to record them.
    """
    home = own_cache() / "bench-runs"
    target = home / f"{digest()}-{count}"
    if target.is_dir():
        return target
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home) as name:
        alone = partial(_recorded_alone, Path(name) / "real", programs=programs, progress=progress)
        runs = (record or alone)()
        progress(f"writing {count} runs like them")
        with suppress(OSError):  # another benchmark was faster
            _saved(Path(name) / "many", runs, count=count, programs=programs).rename(target)
    return target


def _recorded_alone(folder: Path, *, programs: Tools, progress: Progress) -> tuple[Recorded, ...]:
    progress("recording real runs: a whole control plane starts, runs a few and ends")
    cluster = up(folder, tools=programs, name="real", progress=progress, bound=True)
    try:
        cluster.create_namespace(NAMESPACE)
        return recorded.record(cluster, NAMESPACE)
    finally:
        cluster.down()


@contextmanager
def serving(folder: Path, data: Path, *, count: int, programs: Tools) -> Iterator[Many]:
    """A server in `folder`, which must not exist, with a copy of etcd's `data`."""
    cluster = prepared(folder, tools=programs, name="many", bound=True)
    try:
        shutil.copytree(data, folder / "etcd")
        _start(cluster)
        for path in (JOBSETS, WORKLOADS, f"/api/v1/namespaces/{NAMESPACE}/pods"):  # until its caches are full
            cluster.patiently(partial(cluster.rest, "GET", f"{path.format(NAMESPACE)}?limit=1"))
        with beside.serving(cluster, NAMESPACE, done=lambda pod: stage(int(pod.split("-")[1])) == "completed"):
            first = next(number for number in range(count) if stage(number) == "running")
            yield Many(cluster=cluster, runs=count, pods=_pods(cluster), mcjax=f"{_number(first).decode()}mcjax")
    finally:
        cluster.down()


def _saved(folder: Path, runs: tuple[Recorded, ...], *, count: int, programs: Tools) -> Path:
    """etcd's data in `folder`, which must not exist."""
    cluster = prepared(folder, tools=programs, name="many", bound=True)
    try:
        _start(cluster)
        _install(cluster)
        cluster.stop("kube-apiserver")  # it would read every pod as it comes
        _fill(cluster, runs, count)
        cluster.stop("etcd", with_signal=signal.SIGTERM)
    except BaseException:
        cluster.down()
        raise
    return folder / "etcd"


def _fill(cluster: Cluster, runs: tuple[Recorded, ...], count: int) -> None:
    """Into etcd, past the API server, which need not run."""
    etcd = Etcd(cluster.layout.ports["etcd"])
    try:
        etcd.put_all(itertools.chain.from_iterable(_copies(runs, count)))
    finally:
        etcd.close()


def _start(cluster: Cluster) -> None:
    cluster.start("etcd")
    cluster.spawn("kube-apiserver")
    cluster.patiently(partial(cluster.rest.text, "GET", "/readyz"), until_s=FULL_S)


def _pods(cluster: Cluster) -> int:
    etcd = Etcd(cluster.layout.ports["etcd"])
    try:
        return etcd.count(f"/registry/pods/{NAMESPACE}/")
    finally:
        etcd.close()


def stage(number: int) -> str:
    """Return the stage of the run with that number; every hundred has its shares, well mixed."""
    every = [name for name, share in SHARES.items() for _ in range(share)]
    return every[number * 37 % len(every)]


def stamped(run: Recorded) -> Callable[[int], Iterator[Pair]]:
    """Copies of it, by number: as long to the byte (protobuf counts them), with UIDs and times of their own."""
    parts = [(_VARYING.split(key), _VARYING.split(value)) for key, value in run.pairs]

    def copy(number: int) -> Iterator[Pair]:
        changes: dict[bytes, bytes] = {NUMBER: _number(number)}
        for key, value in parts:
            yield _joined(key, number, changes), _joined(value, number, changes)

    return copy


def _copies(runs: tuple[Recorded, ...], count: int) -> Iterator[Iterator[Pair]]:
    copies = {run.stage: stamped(run) for run in runs}
    return (copies[stage(number)](number) for number in range(count))


def _joined(parts: list[bytes], number: int, changes: dict[bytes, bytes]) -> bytes:
    """Every second part varies."""
    for old in parts[1::2]:
        if old not in changes:
            changes[old] = _changed(old, number)
    return b"".join(changes[part] if i % 2 else part for i, part in enumerate(parts))


def _changed(old: bytes, number: int) -> bytes:
    if old[4:5] == b"-" and old[10:11] == b"T":
        then = datetime.strptime(old.decode(), _FORMAT).replace(tzinfo=UTC) - APART * number
        return then.strftime(_FORMAT).encode()
    made = hashlib.md5(old + b"%d" % number, usedforsecurity=False)
    return str(uuid.UUID(bytes=made.digest())).encode()


def _number(number: int) -> bytes:
    return b"run-%04d-" % number


def _install(cluster: Cluster) -> None:
    """CRDs that convert nothing: what is stored is what is read, and Kueue is not there to convert it."""
    for manifest in webhooks.objects(cluster.layout):
        if manifest["kind"] == "CustomResourceDefinition":
            manifest["spec"].pop("conversion", None)
            cluster.rest("POST", webhooks.PATHS[manifest["kind"]], manifest)
    for namespace in (NAMESPACE, "kueue-system"):
        cluster.rest("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    cluster.wait(lambda: webhooks.serves(cluster.rest, ("jobsets", "workloads")), what="the CRDs to be served")
