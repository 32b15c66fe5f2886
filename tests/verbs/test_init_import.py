"""The verb: streams, files and exit statuses."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from tests.documents import read_document
from tests.importing.pastes import EXPORTS, TOKEN, paste
from xsft.spec.explain import read_spec
from xsft.verbs.cli import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def pasted(tmp_path: Path) -> str:
    file = tmp_path / "pasted.txt"
    file.write_text(paste())
    return str(file)


def test_the_workload_goes_to_stdout_and_the_differences_to_stderr(pasted: str, capsys: Capture) -> None:
    assert main(("import", pasted)) == 0
    out, err = capsys.readouterr()
    assert out.startswith("# yaml-language-server: $schema=")
    assert read_spec(out).name == "sft"
    assert "hf_access_token" in err
    assert TOKEN not in out + err


def test_import_writes_a_valid_workload_and_never_overwrites_it(pasted: str, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "mine.yaml"
    assert main(("import", pasted, "-o", str(out))) == 0
    before = out.read_text()
    assert read_spec(before).tpu is not None
    assert capsys.readouterr().out == ""
    assert main(("import", pasted, "-o", str(out))) == 4
    assert out.read_text() == before


def test_import_prints_one_json_document(pasted: str, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "mine.yaml"
    assert main(("import", pasted, "-o", str(out), "--json")) == 0
    document = read_document("import", capsys.readouterr().out)
    assert document["workload"] == out.read_text()
    assert {d["what"] for d in document["differences"]} >= {"hf_access_token", "exec", "checkpoint_period"}


def test_an_unset_variable_exits_2_and_the_file_is_written(tmp_path: Path, capsys: Capture) -> None:
    file, out = tmp_path / "pasted.txt", tmp_path / "mine.yaml"
    file.write_text(paste(exports=EXPORTS.replace("export MODEL=", "export OTHER=")))
    assert main(("import", str(file), "-o", str(out), "--json")) == 2
    document = json.loads(capsys.readouterr().out)
    assert [(p["id"], p["where"]) for p in document["problems"]] == [("import-unset", "model.name")]
    assert "${MODEL}" in out.read_text()


def test_import_reads_stdin(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(paste().encode())))
    assert main(("import",)) == 0
    assert read_spec(capsys.readouterr().out).mode == "mcjax"


@pytest.mark.parametrize(
    ("content", "id"),
    [
        (b"", "file-empty"),
        (b"\xff\xfe\x00", "file-encoding"),
        (b"\x7fELF\x02\x01", "import-text"),
        (b"a" * (10 * 1024 * 1024), "file-too-big"),
        (b"kubectl get pods\n", "import-no-line"),
    ],
    ids=["empty", "binary", "elf", "10 MB", "no line"],
)
def test_an_unusable_paste_is_one_problem_and_writes_no_file(
    content: bytes, id: str, tmp_path: Path, capsys: Capture
) -> None:
    file, out = tmp_path / "pasted.txt", tmp_path / "mine.yaml"
    file.write_bytes(content)
    assert main(("import", str(file), "-o", str(out), "--json")) == 2
    captured = capsys.readouterr()
    (problem,) = json.loads(captured.out)["problems"]
    assert problem["id"] == id
    assert "Traceback" not in captured.err
    assert "a workload" not in problem["message"]
    assert not out.exists()


def test_an_env_file_is_read_where_it_is(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my.env").write_text(f"# comment\nFOO=a b\nHF_TOKEN={TOKEN}\nINHERITED\nexport IGNORED=1\n")
    Path("pasted.txt").write_text(paste().strip() + " --env-file=my.env")
    assert main(("import", "pasted.txt", "--json")) == 2
    document = json.loads(capsys.readouterr().out)
    assert read_spec(document["workload"]).env == {"FOO": "a b"}
    assert [p["where"] for p in document["problems"]] == ["env.INHERITED"]
    assert TOKEN not in json.dumps(document)


def test_the_reason_why_plan_refuses_the_import_is_reported(pasted: str, tmp_path: Path, capsys: Capture) -> None:
    """A tutorial's own command: an image without a digest, and a model that needs more slices."""
    out = tmp_path / "mine.yaml"
    assert main(("import", pasted, "-o", str(out))) == 0
    said = capsys.readouterr().err.partition("refuse this workload because:\n")[2]
    assert main(("check", str(out))) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(errors) >= 2
    assert all(line in said for line in errors)


def test_json_says_why_plan_will_refuse_it(pasted: str, capsys: Capture) -> None:
    assert main(("import", pasted, "--json")) == 0
    document = json.loads(capsys.readouterr().out)
    assert "image-untagged" in [p["id"] for p in document["refused"]]
