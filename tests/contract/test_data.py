"""`xsft data` shows what MaxText's own pipeline yields: another template, mask or length shows at once."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

import xsft
from tests import data_guide
from tests.documents import read_document
from tests.fakes.gcs import Bucket, serving
from tests.pipeline import Pipeline
from xsft.data.passes import DataPass, pieces
from xsft.data.pipeline import read_passes
from xsft.environments.installed import BuiltEnvironment
from xsft.launch.local_machine import Machine
from xsft.launch.training_data import pipeline_host
from xsft.planning import api
from xsft.verbs.cli import main

pytestmark = [pytest.mark.contract, pytest.mark.maxtext, pytest.mark.usefixtures("warm_maxtext")]

QUESTION, ANSWER = "What is 1 plus 2?", "1 plus 2 is 3."
CHAT = {"messages": [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}]}
LONG = {"messages": [{"role": "user", "content": QUESTION * 20}, {"role": "assistant", "content": ANSWER}]}
IMAGE = f"us-docker.pkg.dev/my-project/xsft/post-training@sha256:{'0' * 64}"
Ask = Callable[..., dict[str, Any]]


def lines(rows: list[Any]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


@pytest.fixture
def ask(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Ask:
    """Return a function that runs the verb on rows and returns its document."""

    def asked(
        action: str, rows: list[Any], *options: str, status: int = 0, **keys: Mapping[str, Any]
    ) -> dict[str, Any]:
        file = tmp_path / "rows.jsonl"
        file.write_text(lines(rows))
        tiny = yaml.safe_load((Path(__file__).parents[2] / "workloads" / "tiny_local.yaml").read_text())
        tiny["data"] |= {"hf_train_files": str(file), **keys.get("data", {})}
        tiny["train"] |= {"steps": 1, **keys.get("train", {})}
        tiny["model"] |= keys.get("model", {})
        (tmp_path / "w.yaml").write_text(yaml.safe_dump(tiny))
        capfd.readouterr()
        assert main(("data", action, str(tmp_path / "w.yaml"), "--json", *options)) == status
        document: dict[str, Any] = json.loads(capfd.readouterr().out)
        if status == 0:
            read_document("data", document)
        return document

    return asked


def parts(document: dict[str, Any]) -> list[list[tuple[str, str]]]:
    return [[(part["part"], part["text"]) for part in shown_example["parts"]] for shown_example in document["examples"]]


def test_an_example_is_shown_as_the_model_sees_it(ask: Ask, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    prompt = ("masked", f"<|user|>\n{QUESTION}<|end|>\n<|assistant|>\n")
    uncut, cut = parts(ask("show", [CHAT, LONG], train={"max_target_length": 32}))
    assert uncut == [prompt, ("trained", f"{ANSWER}<|end|>\n")]
    assert [part for part, _text in cut] == ["masked"], "its answer is cut off"
    assert main(("data", "show", str(tmp_path / "w.yaml"), "-n", "1", "--tokens")) == 0
    out = capfd.readouterr().out
    assert "example 0: 20 tokens, 8 trained, 12 masked, 12 padding" in out
    assert "  trained 1 plus 2 is 3.<|end|>⏎" in out
    assert "  padding 12 x <|pad|>" in out
    assert "<|end|> (EOS) is trained at the end; begins without BOS" in out


def test_the_trained_tokens_follow_the_workload(ask: Ask) -> None:
    document = ask("show", [CHAT, CHAT], "--packed", "-n", "1", data={"completion_only": False})
    (everything,) = parts(document)
    first, *later_examples = everything
    assert first == ("masked", "<|user|>"), "nothing predicts the first token"
    assert later_examples[0][0] == "trained"
    segments = [part["segment"] for part in document["examples"][0]["parts"]]
    assert segments == sorted(segments)
    assert set(segments) == {1, 2}, "the border shows"


def test_a_pad_token_that_ends_the_answer_is_reported(ask: Ask) -> None:
    """The end of the answer is read and not trained: the run would never learn to stop."""
    document = ask("show", [CHAT], model={"pad_token": "<|end|>"})
    (shown,) = parts(document)
    assert "<|end|>" not in "".join(text for part, text in shown if part == "trained")
    assert document["examples"][0]["end"] is None


def test_inspect_counts_rows_tokens_and_duplicates(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "eval.jsonl").write_text(lines([CHAT]))
    rows = [CHAT, CHAT, LONG, {"messages": [{"role": "system", "content": ""}, *CHAT["messages"]]}]
    data = {"hf_eval_files": str(tmp_path / "eval.jsonl")}
    picture = tmp_path / "lengths.png"
    answer = ask("inspect", rows, "--png", str(picture), data=data, train={"max_target_length": 32})
    assert (answer["rows"], answer["sampled"], answer["everything"]) == (4, 4, True)
    assert answer["tokens"]["p50"] == 20
    assert answer["tokens"]["max"] > 32
    assert (answer["truncated"], answer["no_target"], answer["no_end"]) == (0.25, 0.25, 0)
    assert (answer["duplicates"], answer["in_other"], answer["whole_in_other"]) == (1, 3, 2)
    assert [(role["role"], role["turns"], role["empty"], role["dropped"]) for role in answer["roles"]] == [
        ("user", 4, 0, 0),
        ("assistant", 4, 0, 0),
        ("system", 1, 1, 0),
    ]
    assert {p["id"] for p in answer["problems"]} == {"data-no-target", "data-truncated", "data-leak"}
    assert answer["picture"] == str(picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert len(parts(ask("show", rows, "--split", "eval", data=data))) == 1


def test_rows_in_a_bucket_are_checked_shown_and_counted(
    ask: Ask, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first training on this machine would stop: MaxText's environment has no gcsfs; an image has it."""
    data = {"hf_train_files": "gs://my-bucket/d/*.jsonl", "hf_eval_files": "gs://my-bucket/e.jsonl"}
    files = {"d/a.jsonl": lines([CHAT, LONG]).encode(), "d/b.jsonl": lines([CHAT]).encode()}
    with serving(Bucket({**files, "e.jsonl": lines([CHAT]).encode()})) as bucket:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", bucket.url)
        counted = ask("inspect", [], data=data, train={"max_target_length": 32})
        assert (counted["rows"], counted["duplicates"], counted["whole_in_other"]) == (3, 1, 2)
        assert len(parts(ask("show", [], data=data))) == 3
        checks = [checked(capfd, tmp_path / "w.yaml", *settings) for settings in ((), ("--set", f"image.ref={IMAGE}"))]
    assert checks[0]["data-unreadable"].endswith("MaxText's environment has no gcsfs.")
    assert "2 of 3 examples are also in the other split" in checks[1]["data-leak"]


def checked(capfd: pytest.CaptureFixture[str], file: Path, *options: str) -> dict[str, str]:
    capfd.readouterr()
    main(("check", str(file), "--json", *options))
    return {problem["id"]: problem["message"] for problem in json.loads(capfd.readouterr().out)["problems"]}


PATCHES = {"self.completion_only and element": "not element"}
"""Of input_pipeline_utils.py: the answers are masked in place of the prompts."""


def test_data_show_runs_the_pipeline_of_the_installed_maxtext(
    maxtext_environment: BuiltEnvironment, tmp_path: Path
) -> None:
    """Another pipeline in the worker's path changes what is shown."""
    python = another_maxtext(maxtext_environment, tmp_path)
    file = tmp_path / "rows.jsonl"
    file.write_text(lines([CHAT]))
    workload = xsft.load(
        Path(__file__).parents[2] / "workloads" / "tiny_local.yaml", settings=[f"data.hf_train_files={file}"]
    )
    (intent,) = api.intend((workload,))
    machine = Machine(python=python, env=dict(os.environ), cache=tmp_path)
    host = pipeline_host(machine, digest="", online=False)
    answers = read_passes(intent.run, (DataPass(rows=1, packing=False),), host=host, held_out={})
    shown = pieces(answers.passes[0].rows[0], answers.vocabulary)
    assert shown[-1].part == "masked"
    assert shown[-1].text.startswith(ANSWER)
    assert any(QUESTION in one.text for one in shown if one.part == "trained")


def another_maxtext(environment: BuiltEnvironment, folder: Path) -> Path:
    """An interpreter that imports a copy of MaxText in which PATCHES are made."""
    (original,) = environment.folder.glob("lib/python3*/site-packages/maxtext")
    copy = folder / "patched" / "maxtext"
    shutil.copytree(original, copy, ignore=shutil.ignore_patterns("__pycache__", "assets"))
    pipeline = copy / "input_pipeline" / "input_pipeline_utils.py"
    text = pipeline.read_text()
    for old, new in PATCHES.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    pipeline.write_text(text)
    program = (
        "import runpy, sys; sys.path.insert(0, {!r}); del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    python = folder / "python"
    words = shlex.join((str(environment.python), "-I", "-c", program.format(str(copy.parent))))
    python.write_text(f'#!/bin/sh\nshift\nexec {words} "$@"\n')
    python.chmod(0o755)
    return python


BROKEN: Mapping[str, tuple[Mapping[str, Any], str, str]] = {
    "another column": ({"text": "a"}, "data-columns", "has no column messages; its columns are text"),
    "a template that drops the prompt": (CHAT, "data-template", "Chat template generation prompt mismatch"),
}


def test_data_inspect_counts_rows_of_grain(ask: Ask, maxtext_pipeline: Pipeline, tmp_path: Path) -> None:
    file = str(maxtext_pipeline.parquet([CHAT, CHAT, LONG], file=tmp_path / "rows.parquet"))
    data = {"pipeline": "grain", "hf_path": "parquet", "hf_train_files": file, "hf_eval_files": file}
    answer = ask("inspect", [CHAT], data=data, train={"max_target_length": 32})
    assert (answer["rows"], answer["truncated"], answer["in_other"]) == (3, pytest.approx(1 / 3), 2)
    assert [(role["role"], role["turns"], role["dropped"]) for role in answer["roles"]] == [
        ("user", 3, 0),
        ("assistant", 3, 0),
    ]


def test_files_without_rows_and_broken_ones_are_distinguished(ask: Ask, tmp_path: Path) -> None:
    assert [problem["id"] for problem in ask("show", [], status=2)["problems"]] == ["data-empty"]
    (tmp_path / "rows.parquet").write_bytes(b"PAR1 and no more")
    data = {"hf_path": "parquet", "hf_train_files": str(tmp_path / "rows.parquet")}
    (problem,) = ask("show", [CHAT], status=2, data=data)["problems"]
    assert problem["id"] == "data-unreadable"
    assert "whole files" in problem["fix"]


def test_a_tokenizer_of_another_model_is_reported(ask: Ask) -> None:
    answer = ask("inspect", [CHAT], "--set", "overrides.maxtext.vocab_size=100", status=2)
    assert answer["beyond_vocabulary"] == 1
    assert "data-vocabulary" in {problem["id"] for problem in answer["problems"]}


DEAF = (
    "{% for m in messages %}<|{{ m.role }}|>{% if m.role != 'user' %}{{ m.content }}{% endif %}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
MUTE = (
    "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'user' %}{{ m.content }}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
ENDLESS = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)

Seen = Callable[[dict[str, Any], dict[str, Any]], bool]
"""Whether `show` and `inspect` tell it: (example, figures)."""

WRONG: Mapping[str, tuple[str, Seen, str, set[str]]] = {
    "a wrong template": (
        DEAF,
        lambda example, figures: QUESTION not in str(example) and figures["roles"][0]["dropped"] == 1,
        "data-role-dropped",
        {"data-role-dropped"},
    ),
    "a mask that covers everything": (
        MUTE,
        lambda example, figures: example["trained"] == 0 and figures["no_target"] == 1,
        "data-no-target",
        {"data-no-target"},
    ),
    "a missing EOS": (
        ENDLESS,
        lambda example, figures: example["trained"] > 0 and example["end"] is None and figures["no_end"] == 1,
        "data-no-end",
        {"answer-without-end"},
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_bad_template_is_shown_counted_and_reported_by_check(ask: Ask, tmp_path: Path, case: str) -> None:
    template, is_shown, counted, checked = WRONG[case]
    (tmp_path / "t.jinja").write_text(template)
    data, error = {"chat_template": "t.jinja"}, counted == "data-no-target"
    example = ask("show", [CHAT], data=data)["examples"][0]
    figures = ask("inspect", [CHAT], data=data, status=2 if error else 0)
    assert is_shown(example, figures)
    assert counted in {problem["id"] for problem in figures["problems"]}
    assert checked <= {problem.id for problem in xsft.check(xsft.load(tmp_path / "w.yaml"))}


@pytest.mark.parametrize("command", data_guide.shown(), ids=str)
def test_the_guide_shows_the_printed_output(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert data_guide.printed(command) == data_guide.shown()[command], "run `make pictures`"


@pytest.mark.parametrize("case", BROKEN)
def test_data_that_maxtext_refuses_is_reported_in_its_words(ask: Ask, tmp_path: Path, case: str) -> None:
    row, name, words = BROKEN[case]
    template = "{% for m in messages if m.role == 'assistant' %}{{ m.content }}<|end|>{% endfor %}"
    (tmp_path / "t.jinja").write_text(template)
    keys = {"chat_template": "t.jinja"} if row is CHAT else {}
    (problem,) = ask("show", [row], status=2, data=keys)["problems"]
    assert problem["id"] == name
    assert words in problem["message"]
