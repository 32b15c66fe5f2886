"""The verbs about runs, whole, where two runs on this machine have one name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.localruns import FakeTrainer, local_plan
from xsft.launch.local_run import run_local
from xsft.records.index import IndexEntry, keep_entry
from xsft.verbs.cli import main

pytestmark = pytest.mark.loopback

NOW = "2026-11-21T12:00:00+00:00"


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Return the folders of two ended runs of one name."""
    monkeypatch.setenv("XSFT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    folders_made = []
    for name in ("a", "b"):
        plan = local_plan(tmp_path / name)
        (tmp_path / name).mkdir(exist_ok=True)
        trainer = FakeTrainer(folder=tmp_path / name)
        run_local(plan, machine=trainer.machine(plain=[f"of {name}"]), on_event=lambda _: None)
        output = plan.run.output or ""
        entry = IndexEntry(run_name=plan.run_name, target="local", output=output, updated_at=NOW)
        keep_entry(tmp_path / "state" / "runs", entry)
        folders_made.append(f"{output}/{plan.run_name}")
    return folders_made[0], folders_made[1]


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.early
def test_status_shows_both_runs_with_their_folders(
    folders: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = asked(capsys, "status", "--all", "--json")
    runs: list[dict[str, Any]] = json.loads(out)["runs"]
    assert status == 0
    assert sorted(f"{run['output']}/{run['run_name']}" for run in runs) == sorted(folders)
    assert len({run["run_name"] for run in runs}) == 1
    _, table, _ = asked(capsys, "status", "--all")
    assert all(f"this machine: {Path(folder).parent}" in table for folder in folders)


def test_verbs_refuse_an_ambiguous_name(folders: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    name = Path(folders[0]).name
    for verb in (("why",), ("logs",), ("wait",), ("cancel", "--yes"), ("compare",)):
        status, out, err = asked(capsys, verb[0], name, *verb[1:])
        assert (status, out) == (2, ""), verb
        assert all(f"this machine, {folder}" in err for folder in folders), verb
        assert "its folder instead of its name" in err


def test_a_run_is_named_by_its_folder(folders: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    for folder, mark in zip(folders, ("of a", "of b"), strict=True):
        status, out, err = asked(capsys, "logs", folder)
        assert (status, err) == (0, "")
        assert [line for line in out.splitlines() if line in ("of a", "of b")] == [mark]
        status, out, _ = asked(capsys, "why", f"{folder}/", "--json")
        assert (status, json.loads(out)["state"]) == (0, "succeeded")
        status, out, _ = asked(capsys, "status", folder, "--json")
        assert [run["output"] for run in json.loads(out)["runs"]] == [str(Path(folder).parent)]
    status, out, _ = asked(capsys, "compare", *folders, "--json")
    assert [run["run_name"] for run in json.loads(out)["runs"]] == list(folders)


def test_a_broken_places_file_above_is_a_warning_and_the_runs_of_the_index_are_shown(
    folders: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "places.yaml").write_text("main: {nonsense: 1}\n")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    status, out, _ = asked(capsys, "status", "--json", "--all")
    document = json.loads(out)
    assert (status, len(document["runs"])) == (0, 2)
    assert {(p["severity"], p["file"]) for p in document["problems"]} == {("warning", str(tmp_path / "places.yaml"))}
    assert asked(capsys, "why", folders[0])[0] == 0
    assert asked(capsys, "status", "--place", "main")[0] == 2


def test_status_does_not_hang_on_a_named_pipe(folders: tuple[str, str], tmp_path: Path) -> None:
    """In a process of its own, which can be ended where it hangs."""
    first, second = map(Path, folders)
    (log,) = (second / "xsft").glob("trainer-*.log")
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "places.yaml").write_text("lab: {project: my-lab-1, zone: us-east5-b, cluster: lab}\n")
    for path in (first / "xsft" / "run.json", log, tmp_path / "state" / "runs" / "x.json", tmp_path / "none"):
        path.unlink(missing_ok=True)
        os.mkfifo(path)
    argv = (sys.executable, "-m", "xsft", "status", "--all", "--json")
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert {problem["id"] for problem in document["problems"]} >= {"index-unreadable", "kubeconfig-unreadable"}
    states = {run["output"]: run["state"] for run in document["runs"]}
    assert states == {str(first.parent): "unknown", str(second.parent): "succeeded"}


def test_logs_escapes_control_characters_unless_raw_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XSFT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    token = "hf" + "_" + "aB3" * 12
    plan = local_plan(tmp_path)
    text = f"\x1b[31mred\x1b[0m\x1b[2J\u202e {token}"
    run_local(plan, machine=FakeTrainer(folder=tmp_path).machine(plain=[text]), on_event=lambda _: None)
    output = plan.run.output or ""
    entry = IndexEntry(run_name=plan.run_name, target="local", output=output, updated_at=NOW)
    keep_entry(tmp_path / "state" / "runs", entry)
    folder = f"{output}/{plan.run_name}"
    _, shown, _ = asked(capsys, "logs", folder)
    _, raw, _ = asked(capsys, "logs", folder, "--raw")
    assert "red\\u001b[2J\\u202e …" in shown.splitlines()
    assert "\x1b[31mred\x1b[0m\x1b[2J\u202e …" in raw.splitlines()
