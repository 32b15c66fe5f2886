from __future__ import annotations

import io
from pathlib import Path

import pytest

from tests.localruns import FakeTrainer, local_plan
from tests.replacing import replace
from xsft.base.errors import UsageError
from xsft.base.reporting import Reporter
from xsft.stages.serve_here import serve_here
from xsft.verbs.submit import submit_local


@pytest.mark.loopback
@pytest.mark.early
def test_a_run_that_cannot_be_exported_is_refused_before_an_environment_is_built(
    tmp_path: Path, fake: FakeTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XSFT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("XSFT_CACHE_DIR", str(tmp_path / "cache"))
    machine = replace(fake.machine(), env={**fake.machine().env, "XSFT_STATE_DIR": str(tmp_path / "state")})
    submit_local(local_plan(tmp_path / "out"), json=True, machine=machine, stderr=io.StringIO())
    with pytest.raises(UsageError, match="cannot export the model") as refused:
        serve_here("tiny-local", port=None, listener=Reporter(), ready=lambda _server: None)
    assert refused.value.problem_id == "export-model"
    assert not (tmp_path / "cache" / "envs").exists()
