"""The Python seam for runs: the rows that `xsft status` prints, typed."""

from __future__ import annotations

from pathlib import Path

import pytest

import xsft
from tests.fakes.clusters import standing_in
from tests.fakes.kuberuns import Runs
from xsft.base.errors import Unreachable, UsageError
from xsft.runs.verbs import Statuses


def test_status_returns_the_rows_that_the_command_line_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with standing_in(tmp_path) as api:
        monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig))
        monkeypatch.setenv("XSFT_STATE_DIR", str(tmp_path / "state"))
        runs = Runs(api.standin.objects)
        runs.admitted("going")
        runs.queued("waits", position=1)
        runs_read = xsft.status(context=api.context)
        assert {row.run_name: row.state for row in runs_read.runs}["waits"] == "queued"
        assert runs_read.problems == ()
        (run,) = xsft.status(["going"], context=api.context).runs
        assert (run.run_name, run.tpu, run.num_slices) == ("going", "v6e-256", 2)
        with pytest.raises(UsageError, match="Did you mean going"):
            xsft.status(["goin"], context=api.context)
        api.expire_login()
        assert {row.run_name for row in xsft.status(context=api.context).runs} == {"going", "waits"}
        with pytest.raises(Unreachable):
            xsft.status(context=api.context, namespace="another")


def test_status_without_runs_or_places_returns_no_rows_and_no_problems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XSFT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    assert xsft.status() == Statuses(runs=(), problems=())
