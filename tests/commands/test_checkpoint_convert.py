"""`xsft checkpoint convert`: what is said before and after; tests/effects/local/test_convert.py has the work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from msgspec import to_builtins
from msgspec.structs import replace

from tests.effects.machine.test_http_session import serving
from tests.hfmodels import write_model
from xsft.actions.weights.convert import ask_hub, moved, read_source_for_pods
from xsft.cli import main
from xsft.conversion.inputs import ConversionInputs, ConversionSource
from xsft.conversion.plan import ConversionPlan
from xsft.conversion.record import ConversionRecord
from xsft.errors import Unreachable
from xsft.facts import SourceFacts
from xsft.screen.terminal import Terminal

THEN, NOW = "a" * 40, "b" * 40
SOURCE = ConversionSource(repo="owner/name")
INPUTS = ConversionInputs(
    source=SOURCE, model="qwen3-0.6b", release="0.2.5", scan_layers=True, param_scan_axis=1, dtype="bfloat16"
)
PLAN = ConversionPlan(
    run_name="tiny-convert",
    training="tiny",
    output="/out",
    inputs=INPUTS,
    first="/out/converted/x",
    directory="/out/converted/x",
    argv=("python3",),
    estimate=None,
)
MADE = ConversionRecord(
    digest=INPUTS.digest,
    run_name="tiny-convert",
    outcome="completed",
    inputs=to_builtins(replace(INPUTS, source=replace(SOURCE, commit=THEN))),
)
WHOLE = replace(PLAN, whole="/out/converted/x/0/items", recorded=MADE)


@pytest.mark.parametrize(
    ("plan", "now", "expected"),
    [
        (WHOLE, NOW, ["hf-revision-moved"]),
        (WHOLE, THEN, []),
        (WHOLE, None, []),
        (replace(WHOLE, recorded=None), NOW, []),
        (PLAN, NOW, []),
    ],
)
def test_a_branch_that_moved_since_is_reported(plan: ConversionPlan, now: str | None, expected: list[str]) -> None:
    assert [problem.id for problem in moved(plan, SourceFacts(commit=now) if now else None)] == expected


def test_without_a_network_cached_files_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://{server.address}")
    assert ask_hub(WHOLE, Terminal()) is None
    with pytest.raises(Unreachable):
        ask_hub(PLAN, Terminal())


@pytest.mark.parametrize(("has_secret", "found"), [(True, ["hub-not-asked"]), (False, [])])
def test_a_repository_that_is_closed_to_this_machine_may_be_open_to_a_pod(
    monkeypatch: pytest.MonkeyPatch, has_secret: bool, found: list[str]
) -> None:
    with serving() as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://{server.address}")
        path = f"/api/models/{PLAN.inputs.source.repo}/revision/main"
        server.answers = {path: (403, {"X-Error-Code": "GatedRepo"}, b"")}
        source, said = read_source_for_pods(PLAN, Terminal(), has_secret=has_secret)
    assert [problem.id for problem in said] == found
    assert (source is None) == has_secret


def test_a_hub_that_does_not_answer_holds_back_no_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://{server.address}")
    source, said = read_source_for_pods(PLAN, Terminal(), has_secret=False)
    assert (source, [problem.id for problem in said]) == (None, ["hub-not-asked"])


def _workload(folder: Path, **model: object) -> str:
    document = {
        "name": "tiny",
        "target": "local",
        "model": {"name": "qwen3-0.6b", "tokenizer": "xsft://tiny/tokenizer", **model},
        "data": {"hf_path": "json", "hf_train_files": "nowhere.jsonl", "columns": ["messages"]},
        "train": {"steps": 2, "per_device_batch_size": 1, "max_target_length": 64},
        "output": str(folder / "out"),
    }
    file = folder / "w.yaml"
    file.write_text(yaml.safe_dump(document))
    return str(file)


@pytest.mark.parametrize(
    ("hf", "id"),
    [
        (None, "usage"),
        ({"repo": "./nowhere"}, "hf-folder-missing"),
        ({"repo": "~/model"}, "string_pattern_mismatch"),
        ({"repo": "./nowhere", "revision": "v1"}, "hf-folder-revision"),
    ],
)
def test_what_cannot_be_converted_is_refused_with_the_next_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], hf: dict[str, str] | None, id: str
) -> None:
    file = _workload(tmp_path, **({"hf": hf} if hf else {}))
    assert main(["checkpoint", "convert", file, "--json"]) == 2
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert id in {problem["id"] for problem in problems} or "owner/name" in problems[0]["message"]
    assert all(problem["fix"] for problem in problems)
    assert not (tmp_path / "out").exists()


def test_an_unreadable_cluster_prevents_a_second_conversion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_model(tmp_path / "model")
    file = _workload(tmp_path, hf={"repo": str(tmp_path / "model")})
    assert main(["checkpoint", "convert", file, "--json", "--set", "output=gs://not-logged-in/x"]) == 5
    assert "checkpoint-unread" in capsys.readouterr().out


def test_a_tokenizer_that_is_not_the_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_model(tmp_path / "model", config={"vocab_size": 100})
    file = _workload(tmp_path, hf={"repo": str(tmp_path / "model")})
    assert main(["checkpoint", "convert", file, "--json"]) == 2
    assert "tokenizer-vocabulary" in capsys.readouterr().out


def test_the_hub_refuses_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving() as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://{server.address}")
        monkeypatch.setenv("HOME", str(tmp_path))
        server.answers = {"/api/models/Qwen/Qwen3-0.6B/revision/v9": (404, {"X-Error-Code": "RevisionNotFound"}, b"")}
        file = _workload(tmp_path, hf={"repo": "Qwen/Qwen3-0.6B", "revision": "v9"})
        assert main(["checkpoint", "convert", file, "--json"]) == 2
    assert "hf-revision-unknown" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()
