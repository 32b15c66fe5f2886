"""A chat template in a file beside the workload: read once, with limits, relative to the workload's folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

import xsft
from tests.checks.factory import GOOD, merged
from xsft.base.problems import Problem, errors_in
from xsft.planning import api
from xsft.planning.gather import MAX_TEMPLATE_BYTES, template_facts
from xsft.spec.facts import TemplateFacts
from xsft.spec.model import WorkloadSpec
from xsft.trainer.arguments import argument

JINJA = "{% for m in messages %}{{ m['content'] }}{% endfor %}"


def spec(name: str | None = "chat.jinja") -> WorkloadSpec:
    return WorkloadSpec.model_validate(merged(GOOD, {"data": {"chat_template": name}}))


def written(folder: Path, **changes: Any) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / "w.yaml"
    file.write_text(yaml.safe_dump(merged(GOOD, {"data": {"chat_template": "chat.jinja"}, **changes})))
    return file


def problem_of(folder: Path, name: str) -> Problem:
    template_read = template_facts(spec(name), file=folder / "w.yaml")
    assert template_read is not None
    assert template_read.text == ""
    assert template_read.problem is not None
    assert (template_read.problem.where, template_read.problem.severity, bool(template_read.problem.fix)) == (
        "data.chat_template",
        "error",
        True,
    )
    return template_read.problem


def test_a_workload_without_a_template_has_no_template_facts() -> None:
    assert template_facts(spec(None), file="w.yaml") is None


def test_a_template_is_read_unchanged_without_its_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "chat.jinja").write_bytes(b"\xef\xbb\xbf{{ x }}\r\n\t\xc3\xa9 ")
    assert template_facts(spec(), file=tmp_path / "w.yaml") == TemplateFacts(text="{{ x }}\r\n\té ")


def test_the_path_is_relative_to_the_workloads_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "workloads").mkdir()
    (tmp_path / "templates" / "chat.jinja").write_text(JINJA)
    for name in ("../templates/chat.jinja", str(tmp_path / "templates" / "chat.jinja")):
        assert template_facts(spec(name), file=tmp_path / "workloads" / "w.yaml") == TemplateFacts(text=JINJA)
    monkeypatch.chdir(tmp_path)
    assert template_facts(spec("templates/chat.jinja"), file="-") == TemplateFacts(text=JINJA), "as of standard input"


def test_an_unreadable_template_is_a_problem_with_its_own_id(tmp_path: Path) -> None:
    (tmp_path / "chats.jinja").write_text(JINJA)
    (tmp_path / "folder.jinja").mkdir()
    os.mkfifo(tmp_path / "pipe.jinja")
    (tmp_path / "empty.jinja").write_text(" \n")
    (tmp_path / "big.jinja").write_text("x" * (MAX_TEMPLATE_BYTES + 1))
    (tmp_path / "latin.jinja").write_bytes(b"\xe9")
    (tmp_path / "device.jinja").symlink_to("/dev/zero")
    assert "chats.jinja" in problem_of(tmp_path, "chat.jinja").fix
    ids = {
        name: problem_of(tmp_path, f"{name}.jinja").id for name in ("folder", "pipe", "empty", "big", "latin", "device")
    }
    assert ids == {
        "folder": "file-directory",
        "pipe": "file-not-regular",
        "empty": "file-empty",
        "big": "file-too-big",
        "latin": "file-encoding",
        "device": "file-not-regular",
    }
    assert problem_of(tmp_path, "nul\0.jinja").id == "file-unreadable"
    assert problem_of(tmp_path, "gs://my-bucket/chat.jinja").id == "chat-template-file"


def test_a_template_of_the_maximum_size_fits_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "chat.jinja").write_text(f"{JINJA}{{#{'x' * (MAX_TEMPLATE_BYTES - len(JINJA.encode()) - 4)}#}}")
    (intent,) = api.intend([api.load(written(tmp_path))])
    assert intent.xpk_argv is not None
    assert [p for p in errors_in(intent.problems) if p.where == "data.chat_template"] == []


def test_a_template_whose_quoted_command_is_too_long_is_reported(tmp_path: Path) -> None:
    (tmp_path / "chat.jinja").write_text("{{ x }}" + "'" * (MAX_TEMPLATE_BYTES - 7))
    (intent,) = api.intend([api.load(written(tmp_path))])
    assert "command-encoding" in {p.id for p in intent.problems}


def test_a_missing_template_is_reported_with_the_other_problems(tmp_path: Path) -> None:
    (intent,) = api.intend([xsft.load(written(tmp_path, model={"name": "qwen3-06b"}))])
    assert {"file-missing", "model-unknown"} <= {p.id for p in intent.problems}


def test_a_later_attempt_uses_the_template_read_with_the_workload(tmp_path: Path) -> None:
    """A submission plans again for a later attempt; a file that changed meanwhile must not make it another run."""
    (tmp_path / "chat.jinja").write_text(JINJA)
    loaded = api.load(written(tmp_path))
    (before,) = api.intend([loaded])
    (tmp_path / "chat.jinja").write_text("{{ other }}")
    (after,) = api.intend([loaded], attempt=2)
    assert after.spec_digest == before.spec_digest
    assert argument("chat_template", JINJA) in set(before.trainer_argv) & set(after.trainer_argv)
    (anew,) = api.intend([api.load(written(tmp_path))])
    assert anew.spec_digest != before.spec_digest


def test_a_template_in_a_setting_is_relative_to_the_workloads_folder(tmp_path: Path) -> None:
    (tmp_path / "other.jinja").write_text("{{ other }}")
    loaded = api.load(written(tmp_path), settings=["data.chat_template=other.jinja"])
    assert loaded.template == TemplateFacts(text="{{ other }}")
