"""`xsft checkpoint convert`: what is said before and after; tests/stages/test_convert.py has the work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.hfmodels import write_model
from tests.machine.test_http_session import serving
from xsft.verbs.cli import main


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
def test_convert_refuses_an_unusable_source_with_the_next_step(
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


def test_convert_refuses_a_tokenizer_larger_than_the_models_vocabulary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_model(tmp_path / "model", config={"vocab_size": 100})
    file = _workload(tmp_path, hf={"repo": str(tmp_path / "model")})
    assert main(["checkpoint", "convert", file, "--json"]) == 2
    assert "tokenizer-vocabulary" in capsys.readouterr().out


def test_convert_reports_an_unknown_revision_before_it_writes(
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
