from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from xsft.base.problems import errors_in
from xsft.catalog import models
from xsft.planning.gather import gather
from xsft.planning.planner import make_intent
from xsft.spec.explain import read_spec
from xsft.verbs import init
from xsft.verbs.cli import main, parser

VARIANTS = {"mcjax": ("--mode", "mcjax"), "pathways": ("--mode", "pathways"), "local": ("--local",)}


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
def test_init_writes_a_workload_that_passes_check_and_plans(
    options: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.yaml"
    assert main(("init", str(file), *options)) == 0
    capsys.readouterr()
    assert main(("check", "--json", str(file))) == 0
    document = json.loads(capsys.readouterr().out)
    assert [p for p in document["problems"] if p["severity"] == "error"] == []
    spec = read_spec(file.read_text())
    intent = make_intent(spec, gather(spec, file=file, today=date(2026, 11, 28), offline=True))
    assert errors_in(intent.problems) == ()
    assert intent.trainer_argv[:2] == ("python3", "-m")
    assert spec.target == "local" or "chip_hour_price" in file.read_text()


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_warning_of_a_fresh_workload_is_explained_in_it(
    variant: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(init.workload_text(variant, folder=tmp_path))
    main(("check", "--json", str(file)))
    warned = {p["id"] for p in json.loads(capsys.readouterr().out)["problems"] if p["severity"] == "warning"}
    assert {name for name in warned if name not in file.read_text()} == set()


def test_every_template_has_an_option() -> None:
    assert {file.stem for file in init.TEMPLATES.glob("*.yaml")} == set(VARIANTS)
    verbs = parser()._subparsers._group_actions[0].choices  # type: ignore[union-attr,index]
    (mode,) = (action for action in verbs["init"]._actions if action.dest == "mode")
    assert {*mode.choices, "local"} == set(VARIANTS)


def test_init_writes_workload_yaml_and_prints_the_next_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(("init",)) == 0
    assert [file.name for file in tmp_path.iterdir()] == ["workload.yaml"]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "xsft check workload.yaml" in captured.err


def test_init_with_a_dash_prints_the_workload(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("init", "-", "--local")) == 0
    captured = capsys.readouterr()
    assert "target: local" in captured.out
    assert captured.err == ""


def test_init_overwrites_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("precious")
    assert main(("init", str(file))) == 4
    assert file.read_text() == "precious"
    assert "mine.yaml exists" in capsys.readouterr().err


def test_init_refuses_a_dangling_link(tmp_path: Path) -> None:
    link = tmp_path / "mine.yaml"
    link.symlink_to(tmp_path / "nowhere.yaml")
    assert main(("init", str(link))) == 4
    assert not (tmp_path / "nowhere.yaml").exists()


def test_init_refuses_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("init", str(tmp_path))) == 4
    assert "is a directory" in capsys.readouterr().err


def test_a_missing_folder_is_named_with_its_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("init", str(tmp_path / "no" / "mine.yaml"))) == 3
    assert f"mkdir -p {tmp_path / 'no'}" in capsys.readouterr().err
    assert not (tmp_path / "no").exists()


def test_init_refuses_a_mode_with_local(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("init", "-", "--local", "--mode", "pathways")) == 2
    assert "not allowed with argument --local" in capsys.readouterr().err


@pytest.mark.parametrize("variant", ["mcjax", "pathways"])
@pytest.mark.parametrize("name", ["qwen3-8b", "llama3.1-70b", "gemma2-2b", "gpt-oss-20b"])
def test_a_model_is_put_into_the_template_with_a_slice_that_holds_it(
    variant: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.yaml"
    assert main(("init", str(file), "--mode", variant, "--model", name)) == 0
    capsys.readouterr()
    main(("check", "--json", str(file)))
    errors = {p["id"] for p in json.loads(capsys.readouterr().out)["problems"] if p["severity"] == "error"}
    assert errors <= {"chat-template-missing", "answer-end-masked"}  # which only the user can mend
    text = file.read_text()
    assert f"  name: {name} " in text
    assert f"gs://my-bucket/{name}/0/items" in text
    assert "qwen3-0.6b" not in text.lower()


@pytest.mark.parametrize("name", models.names())
def test_every_model_gives_a_workload_that_can_be_read(name: str) -> None:
    text = init.workload_text("mcjax", folder=None, model=name)
    spec = read_spec(text)
    assert ("Or Hugging Face" in text) == ("# hf: {" in text)
    assert spec.model.name == name
    assert spec.model.tokenizer == (models.model(name).hf_id or "my-org/my-tokenizer")


def test_a_model_is_also_found_by_its_hugging_face_id(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("init", "-", "--model", "Qwen/Qwen3-8B")) == 0
    assert "  name: qwen3-8b " in capsys.readouterr().out
    assert main(("init", "-", "--model", "qwen3-8bb")) == 2
    assert "Did you mean qwen3-8b" in capsys.readouterr().err
    assert main(("init", "-", "--model", "qwen3-8b", "--local")) == 2
