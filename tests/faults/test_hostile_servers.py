"""A cluster that answers anything takes nothing else down: every verb ends in time, without a traceback, in little
memory, and shows the good cluster's run.
"""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Client

from tests.cluster.test_cluster import sent_to
from tests.fakes.clusters import ClusterApi
from tests.fakes.gcs import Bucket, serving
from tests.fakes.kubeapi import write_kubeconfig
from tests.faults.hostile import LARGE, SERVERS, SLOW, hostile
from tests.replacing import replace
from tests.servers import recorded, server
from tests.submissions import planned, submitter
from xsft.base.errors import TimedOut, XsftError
from xsft.base.reporting import hear_nothing
from xsft.checks.facts import CheckpointFacts
from xsft.cluster.api import Patience
from xsft.cluster.cluster import Cluster
from xsft.machine.deadline import Deadline
from xsft.machine.google_login import google_session
from xsft.machine.storage import GcsStorage
from xsft.stages.create_server import begin, wait_for_server
from xsft.weights.read_checkpoint import read_checkpoint
from xsft.world.view import view_place

pytestmark = pytest.mark.loopback

RUN = "deepseek-ultrachat-mcjax"
VERBS: dict[str, tuple[tuple[str, ...], set[int]]] = {
    "status": (("status", "--all"), {0}),
    "why": (("why", RUN), {0}),
    "wait": (("wait", RUN, "--timeout", "3s"), {5, 7}),
    "logs": (("logs", RUN), {0, 5}),
    "compare": (("compare", RUN), {8}),
    "doctor": (("doctor",), {0, 3}),
}
"""Command lines, and their exit statuses."""
CANCEL = ("cancel", RUN, "--yes")
READABLE = {
    "a-list-as-labels",
    "a-list-as-spec",
    "a-huge-number",
    "a-screen-in-a-name",
    "a-wrong-date",
    "items-null",
    "negative-length",
    "no-number-as-length",
    "numbers-as-labels",
    "null-everywhere",
    "odd-parts",
    "the-other-parts",
    "unknown-encoding",
}
"""Servers whose answer is taken for a cluster's: with no run, or with an odd one."""
LOOKS_S = 6.0
"""Limit for the looks of one submission."""
BOUND_S = 120.0
"""Of all verbs together, on a busy machine."""
MEMORY_KB = 300 * 2**10
XSFT = """
import sys
from xsft.verbs.cli import main
status = main(sys.argv[1:])
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")), file=sys.stderr)
sys.exit(status)
"""
"""xsft, which prints its largest memory; that of a child, as the system tells it, includes the parent's."""
Starts = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def world(tmp_path: Path) -> Callable[..., Starts]:
    """Writes places: the given addresses, and a good cluster if there is one; returns how to start xsft there."""

    def made(addresses: dict[str, str], good: ClusterApi | None = None) -> Starts:
        file = (
            good.kubeconfig if good else write_kubeconfig(tmp_path / "config", server="http://127.0.0.1:9", token="t")
        )
        config = yaml.safe_load(file.read_text())
        for name, address in addresses.items():
            config["clusters"].append({"name": name, "cluster": {"server": address}})
            config["contexts"].append({"name": name, "context": {"cluster": name, "user": "u"}})
        file.write_text(yaml.safe_dump(config))
        contexts = (*([good.context] if good else []), *addresses)
        places = {f"p{n}": {"context": name} for n, name in enumerate(contexts)}
        (tmp_path / "places.yaml").write_text(yaml.safe_dump(places))
        env = {**os.environ, "KUBECONFIG": str(file), "XSFT_STATE_DIR": str(tmp_path / "state")}

        def started(*argv: str) -> subprocess.Popen[str]:
            line, pipe = (sys.executable, "-c", XSFT, *argv), subprocess.PIPE
            return subprocess.Popen(line, env=env, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True)

        return started

    return made


def read(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Return the exit status and what was printed; it must be neither a traceback nor take much memory."""
    out, err = process.communicate(timeout=BOUND_S)
    assert "Traceback" not in err
    assert "a bug in xsft" not in err
    (largest,) = re.findall(r"VmHWM:\s+(\d+) kB", err)
    assert int(largest) < MEMORY_KB
    return process.returncode, out, err


@pytest.mark.standin_only("silence")
def test_all_hostile_clusters_at_once_hide_no_run_of_a_good_one(
    cluster_api: ClusterApi, world: Callable[..., Starts]
) -> None:
    cluster_api.connect().create_jobset(sent_to(cluster_api))
    with hostile(SERVERS) as addresses:
        start = world(addresses, cluster_api)
        with ThreadPoolExecutor(2) as pool:  # `cancel` alone: the others are to find the run
            futures = {name: pool.submit(lambda argv: read(start(*argv)), argv) for name, (argv, _) in VERBS.items()}
            ends = {name: future.result() for name, future in futures.items()}
        ends["cancel"] = read(start(*CANCEL))
    assert {name: end for name, end in ends.items() if end[0] not in VERBS.get(name, ((), {0, 5}))[1]} == {}
    says = re.compile(r"^(xsft: )?(asking|reading|waiting|looking|connecting|listing)\b.*$", re.MULTILINE)
    assert {name: err[:200] for name, (_, _, err) in ends.items() if not says.search(err)} == {}, "who waits says so"
    _, out, err = ends["status"]
    assert RUN in out
    assert set(SERVERS) - set(re.findall(r"^warning: ([\w.-]+): ", err, re.MULTILINE)) == READABLE


@pytest.mark.parametrize(
    ("verb", "line"),
    [
        (("place", "show"), "xsft: reading silent"),
        (("secret", "create", "hf-token", "--from-file", "value"), "xsft: creating the Secret hf-token on silent"),
        (("doctor",), "xsft: asking the tools and the clusters"),
        (("wait", RUN, "--timeout", "30s"), f"waiting for an answer about {RUN}"),
    ],
)
def test_a_verb_says_after_two_seconds_what_it_waits_for(
    world: Callable[..., Starts], tmp_path: Path, verb: tuple[str, ...], line: str
) -> None:
    (tmp_path / "value").write_text("x")
    with hostile({"silent": SERVERS["silent"]}) as addresses:
        place = () if verb[0] == "doctor" else ("--context", "silent")
        with world(addresses)(*verb, *place) as process:
            assert process.stderr
            assert process.stderr.readline() == f"{line}\n"
            process.kill()


@pytest.mark.parametrize("verb", ["status", "place show"])
@pytest.mark.parametrize("name", LARGE)
def test_an_answer_too_large_to_read_takes_little_memory(world: Callable[..., Starts], name: str, verb: str) -> None:
    with hostile({name: LARGE[name]}) as addresses:
        status, _, err = read(world(addresses)(*verb.split(), "--context", name))
    assert status == 5
    assert re.search(r"The answer of the cluster .* has more than [\d,]+ (bytes|values|objects)\.", err), err


class HostileApi(ClusterApi):
    patience = Patience(tries=2, first_wait_s=0.05, longest_s=0.2, read_timeout_s=1.0)

    def connect(self) -> Cluster:
        return super().connect().by(Deadline.after(LOOKS_S))


def submit(api: ClusterApi, folder: Path, bucket_url: str) -> None:
    new_submitter = submitter(api, bucket_url=bucket_url, state=folder)
    replace(new_submitter, deadline=Deadline.after(LOOKS_S)).submit(planned())


def serve(api: ClusterApi, folder: Path, _bucket_url: str) -> None:
    begin(api.connect(), server(), record=recorded(folder), progress=hear_nothing)


def wait_for_it(api: ClusterApi, _folder: Path, _bucket_url: str) -> None:
    wait_for_server(api.connect(), server(), timeout_s=1.0, poll_s=0.3, say=hear_nothing)


def show_place(api: ClusterApi, _folder: Path, _bucket_url: str) -> None:
    view_place(api.connect(), namespace="default")


def create_secret(api: ClusterApi, _folder: Path, _bucket_url: str) -> None:
    api.connect().create_secret(name="token", namespace="default", data={"token": b"x"})


@pytest.mark.parametrize(
    ("act", "statuses"),
    [
        (submit, {2, 3, 4, 5, 7}),
        (serve, {2, 4, 5}),
        (wait_for_it, {2, 5, 6, 7}),
        (show_place, {0, 2, 5}),
        (create_secret, {0, 2, 5, 8}),
    ],
)
def test_an_act_on_a_hostile_cluster_ends_with_a_reason(
    act: Callable[[ClusterApi, Path, str], None], statuses: set[int], tmp_path: Path
) -> None:
    def do(name: str, address: str) -> XsftError | None:
        config = write_kubeconfig(tmp_path / f"{name}.yaml", server=address, token="t")
        try:
            act(HostileApi(kubeconfig=config), tmp_path / name, bucket.url)
        except XsftError as failed:
            return failed
        return None

    began = time.monotonic()
    with serving(Bucket({})) as bucket, hostile(SERVERS) as addresses, ThreadPoolExecutor(8) as pool:
        ends = dict(zip(addresses, pool.map(do, *zip(*addresses.items(), strict=True)), strict=True))
        assert bucket.objects == {}
    assert time.monotonic() - began < BOUND_S
    assert {name: end for name, end in ends.items() if (end.exit_status if end else 0) not in statuses} == {}
    assert {name for name, end in ends.items() if isinstance(end, TimedOut)} <= SLOW
    assert isinstance(ends["100-Continue-for-ever"], TimedOut) == (7 in statuses)


NO_CHECKPOINT = {"unreadable", "not-a-checkpoint", "missing"}


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_a_checkpoint_in_a_hostile_bucket_is_unreadable_in_time() -> None:
    def inspect(client: Client) -> CheckpointFacts:
        storage = GcsStorage(client, timeout_s=1.0, deadline_s=4.0, pauses=())
        return read_checkpoint("gs://bucket/checkpoints/7/items", storage=storage)

    login, began = AnonymousCredentials(), time.monotonic()  # type: ignore[no-untyped-call]
    with hostile({**SERVERS, "endless": LARGE["endless"]}) as addresses, ThreadPoolExecutor(8) as pool:
        clients = [
            Client(project="p", credentials=login, _http=google_session(login), client_options={"api_endpoint": server})
            for server in addresses.values()
        ]
        ends = dict(zip(addresses, pool.map(inspect, clients), strict=True))
    assert time.monotonic() - began < BOUND_S
    assert {name: end for name, end in ends.items() if end.status not in NO_CHECKPOINT} == {}
    for client in clients:
        client.close()
    gc.collect()  # google-auth leaves the connection of a 401 open
