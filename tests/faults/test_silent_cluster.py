"""A cluster that accepts connections and never answers delays the answer of no other, and its runs are not lost."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.test_cluster import sent_to
from tests.fakes.clusters import ClusterApi
from tests.faults.transports import HALF, listening
from xsft.runs import read_runs
from xsft.runs.read_runs import ALONE_S, LATE_S, SEVERAL_S
from xsft.verbs.cli import main

pytestmark = pytest.mark.loopback

FAST_S = (SEVERAL_S + ALONE_S) / 2
"""Below what a silent cluster may take alone."""


Places = Callable[..., None]


@pytest.fixture
def places(cluster_api: ClusterApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    """Writes places: `main`, which is the test's cluster, and others at the given addresses."""
    monkeypatch.setenv("KUBECONFIG", str(cluster_api.kubeconfig))
    monkeypatch.setenv("XSFT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").touch()
    namespace = {"namespace": cluster_api.namespace}
    first = yaml.safe_load(cluster_api.kubeconfig.read_text())

    def at(**servers: str) -> None:
        contexts = {"main": cluster_api.context, **{name: name for name in servers}}
        placed = {name: {"context": context, **namespace} for name, context in contexts.items()}
        (tmp_path / "places.yaml").write_text(yaml.safe_dump(placed))
        config = {key: list(value) if isinstance(value, list) else value for key, value in first.items()}
        for name, server in servers.items():
            config["clusters"].append({"name": name, "cluster": {"server": server, "insecure-skip-tls-verify": True}})
            config["contexts"].append({"name": name, "context": {"cluster": name, "user": "u"}})
        cluster_api.kubeconfig.write_text(yaml.safe_dump(config))

    return at


@pytest.fixture
def look(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Exit status, rows by cluster, stderr, seconds."""

    def looked(*arguments: str) -> tuple[int, dict[str, Any], list[dict[str, Any]], float]:
        began = time.monotonic()
        status = main(("status", "--json", *arguments))
        passed = time.monotonic() - began
        document = json.loads(capsys.readouterr().out)
        return status, {row["cluster"]: row for row in document.get("runs", ())}, document["problems"], passed

    return looked


SILENT = {"mute": ("http", b""), "in-tls": ("https", b""), "half": ("http", HALF)}
"""The schemes of clusters that say nothing, and what they say before."""


def test_status_answers_soon_and_shows_the_last_state_of_silent_clusters(
    cluster_api: ClusterApi, places: Places, look: Any
) -> None:
    cluster_api.connect().create_jobset(sent_to(cluster_api))
    places(**dict.fromkeys(SILENT, cluster_api.server.url))
    status, before, problems, _ = look()
    assert (status, set(before), problems) == (0, {cluster_api.context, *SILENT}, [])
    with ExitStack() as stack:
        servers = {}
        for name, (scheme, first) in SILENT.items():
            port = stack.enter_context(listening(first=first, closes=False))
            servers[name] = f"{scheme}://127.0.0.1:{port}"
        places(**servers)
        status, rows, problems, passed = look()
    assert passed < FAST_S
    assert status == 0
    assert rows[cluster_api.context]["unread"] == []
    for name in SILENT:
        assert (rows[name]["state"], rows[name]["observed_at"]) == (before[name]["state"], before[name]["observed_at"])
    assert [(reported["id"], reported["severity"]) for reported in problems] == [("unreachable", "warning")] * len(
        SILENT
    )
    for name, problem in zip(
        sorted(SILENT), sorted(problems, key=lambda reported: str(reported["message"])), strict=True
    ):
        assert re.fullmatch(rf"{name}: no answer within 10 s; the state of its runs is unknown\.", problem["message"])
        assert "--place or --context" in problem["fix"]


def test_a_list_of_workloads_that_hangs_is_unread_and_its_jobsets_are_shown(
    cluster_api: ClusterApi, places: Places, look: Any
) -> None:
    """Where there are others as well: the cluster is given up later than its list."""
    cluster_api.connect().create_jobset(sent_to(cluster_api))
    places(lab=cluster_api.server.url)
    cluster_api.server.fail("/workloads", action="hang-before", times=9)
    status, rows, problems, _ = look()
    assert (status, set(rows), problems) == (0, {cluster_api.context, "lab"}, [])
    for row in rows.values():
        assert row["unread"] == [f"workloads: no answer within {LATE_S:g} s"]
    assert LATE_S + 1.0 <= SEVERAL_S


@pytest.mark.standin_only("silence")
def test_status_waits_longer_for_a_cluster_alone_and_then_exits_5(
    places: Places, look: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_runs, "ALONE_S", 2.0)
    with listening(first=b"", closes=False) as port:
        places(lab=f"http://127.0.0.1:{port}")
        status, rows, problems, passed = look("--place", "lab")
    assert (status, rows) == (5, {})
    assert 2.0 <= passed < ALONE_S
    assert re.search(r"lab: no answer within", problems[0]["message"])


@pytest.mark.standin_only("silence")
def test_a_terminal_shows_which_cluster_is_waited_for(
    cluster_api: ClusterApi, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os
    import pty

    monkeypatch.setattr(read_runs, "SEVERAL_S", 2.5 * read_runs.SAY_AFTER_S)
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    heard: list[bytes] = []

    def hear() -> None:
        try:
            while part := os.read(ours, 4096):
                heard.append(part)
        except OSError:
            return

    reader = threading.Thread(target=hear, daemon=True)
    reader.start()
    with listening(first=b"", closes=False) as port, os.fdopen(theirs, "w") as terminal:
        places(lab=f"http://127.0.0.1:{port}")
        monkeypatch.setattr("sys.stderr", terminal)
        assert main(("status",)) == 0
        terminal.flush()
    reader.join(5)
    os.close(ours)
    assert b"waiting for lab" in b"".join(heard)
