"""`xsft.submit` of Python; its cluster side: tests/contract/test_submit_cluster.py."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.localruns import WORKLOADS, FakeTrainer
from xsft.launch import local_run
from xsft.launch.local_run import LocalResult
from xsft.launch.submit import submit
from xsft.planning import api
from xsft.records.index import read_index

pytestmark = pytest.mark.loopback


def loaded(folder: Path) -> api.LoadedWorkload:
    workload = yaml.safe_load((WORKLOADS / "tiny_local.yaml").read_text())
    file = folder / "w.yaml"
    file.write_text(yaml.safe_dump({**workload, "output": str(folder / "out")}))
    return api.load(file)


@pytest.fixture
def state(tmp_path: Path, fake: FakeTrainer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the index; the trainer's stand-in trains."""
    monkeypatch.setattr(local_run, "machine_of_plan", lambda _plan, _listener: fake.machine())
    monkeypatch.setenv("XSFT_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


def test_a_local_run_from_python_is_indexed_and_has_a_loss_curve(
    tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = submit(loaded(tmp_path))
    assert isinstance(result, LocalResult)
    assert result.outcome == "completed"
    assert [entry.run_name for entry in read_index(state / "runs").entries] == ["tiny-local"]
    assert (result.record.parent / "loss.png").is_file()
    assert capsys.readouterr() == ("", "")


def test_an_index_that_cannot_be_written_is_a_warning_of_the_result(tmp_path: Path, state: Path) -> None:
    state.write_text("a file in the place of the folder")
    result = submit(loaded(tmp_path))
    assert isinstance(result, LocalResult)
    assert result.outcome == "completed"
    assert [warning.id for warning in result.warnings].count("index-not-written") == 1
