"""A machine whose clock is a day off, either way: its statements about runs on a real cluster stay true."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.clusterruns import STEP, Staged
from tests.control_plane.api import Cluster
from tests.control_plane.ports import free_port
from tests.fakes.kubeapi import write_kubeconfig
from xsft.machine import clock
from xsft.verbs.cli import main

pytestmark = pytest.mark.cluster
LONG_S = 900.0
"""What a test may take; a day is longer."""


@pytest.fixture
def staged(real_cluster: Cluster, cluster_namespace: str) -> Staged:
    return Staged(real=real_cluster, namespace=cluster_namespace)


@pytest.fixture
def printed_by(
    staged: Staged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., dict[str, Any]]:
    real = staged.real
    there = {"server": real.server, "token": real.token, "ca": real.ca, "context": real.context}
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "kubeconfig", **there)))
    monkeypatch.setenv("XSFT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)

    def ask(verb: str, *arguments: str) -> dict[str, Any]:
        capsys.readouterr()
        main((verb, *arguments, "--json", "--context", staged.real.context, "--namespace", staged.namespace))
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    return ask


def test_a_skewed_clock_makes_no_run_stalled_old_or_gone(
    staged: Staged, printed_by: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    for name in ("over", "going"):
        staged.submit(name)
        staged.runs(name)
        staged.says(name, STEP.format(n=1), STEP.format(n=2), STEP.format(n=3))
        if name == "over":
            staged.ends(name, code=1)
            staged.until(name, ("failed", "trainer-failed"))
    staged.until("going", ("training", ""))
    kubeconfig = tmp_path / "kubeconfig"
    reached = kubeconfig.read_text()
    for days in (1, -1):
        kubeconfig.write_text(reached)
        monkeypatch.setenv("XSFT_STATE_DIR", str(tmp_path / f"state{days}"))
        monkeypatch.setattr(clock, "utc", lambda days=days: datetime.now(UTC) + timedelta(days=days))

        rows = {row["run_name"]: row for row in printed_by("status")["runs"]}
        assert {name: row["state"] for name, row in rows.items()} == {"going": "training", "over": "failed"}
        for row in rows.values():
            assert 0 <= row["age_s"] < LONG_S
            assert 0 <= row["evidence_age_s"] < LONG_S
        assert printed_by("why", "going")["state"] == "training"
        main(("logs", "going", "--since", "15m", "--context", staged.real.context, "--namespace", staged.namespace))
        assert STEP.format(n=3) in capsys.readouterr().out

        config = yaml.safe_load(kubeconfig.read_text())
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{free_port()}"
        kubeconfig.write_text(yaml.safe_dump(config))
        silent = {row["run_name"]: row for row in printed_by("status")["runs"]}
        assert {name: row["state"] for name, row in silent.items()} == {"going": "training", "over": "failed"}
        assert all(0 <= row["evidence_age_s"] < LONG_S for row in silent.values())
