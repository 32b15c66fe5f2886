"""`xsft data` shows what MaxText's own pipeline yields: another template, mask or length shows at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from xsft.cli import main
from xsft.commands.interface import DOCUMENTS
from xsft.effects.environments.installed import Environment

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("maxtext_environment")]

QUESTION, ANSWER = "What is 1 plus 2?", "1 plus 2 is 3."
CHAT = {"messages": [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}]}
LONG = {"messages": [{"role": "user", "content": QUESTION * 20}, {"role": "assistant", "content": ANSWER}]}
Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(tmp_path: Path, capfd: pytest.CaptureFixture[str], maxtext_environment: Environment) -> Ask:
    """What the verb prints of these rows, as a document."""

    def asked(
        action: str, rows: list[Any], *options: str, status: int = 0, **keys: Mapping[str, Any]
    ) -> dict[str, Any]:
        file = tmp_path / "rows.jsonl"
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        tiny = yaml.safe_load((Path(__file__).parents[2] / "workloads" / "tiny_local.yaml").read_text())
        tiny["data"] |= {"hf_train_files": str(file), **keys.get("data", {})}
        tiny["train"] |= keys.get("train", {})
        tiny["model"] |= keys.get("model", {})
        (tmp_path / "w.yaml").write_text(yaml.safe_dump(tiny))
        capfd.readouterr()
        assert main(("data", action, str(tmp_path / "w.yaml"), "--json", *options)) == status
        document: dict[str, Any] = json.loads(capfd.readouterr().out)
        if status == 0:
            DOCUMENTS["data"].model_validate_json(json.dumps(document), strict=True)
        return document

    return asked


def parts(document: dict[str, Any]) -> list[list[tuple[str, str]]]:
    return [[(part["part"], part["text"]) for part in one["parts"]] for one in document["examples"]]


def test_an_example_is_shown_as_the_model_sees_it(ask: Ask, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    prompt = ("masked", f"<|user|>\n{QUESTION}<|end|>\n<|assistant|>\n")
    whole, cut = parts(ask("show", [CHAT, LONG], train={"max_target_length": 32}))
    assert whole == [prompt, ("trained", f"{ANSWER}<|end|>\n")]
    assert [part for part, _text in cut] == ["masked"], "its answer is cut off"
    assert main(("data", "show", str(tmp_path / "w.yaml"), "-n", "1", "--tokens")) == 0
    out = capfd.readouterr().out
    assert "example 0: 20 tokens, 8 trained, 12 masked, 12 padding" in out
    assert "  trained 1 plus 2 is 3.<|end|>⏎" in out


def test_what_is_trained_follows_the_workload(ask: Ask) -> None:
    (everything,) = parts(ask("show", [CHAT, CHAT], "--packed", "-n", "1", data={"completion_only": False}))
    first, *rest = everything
    assert first == ("masked", "<|user|>"), "nothing predicts the first token"
    assert rest[0][0] == "trained"


def test_a_pad_token_that_ends_the_answer_is_seen(ask: Ask) -> None:
    """The end of the answer is read and not trained: the run would never learn to stop."""
    (shown,) = parts(ask("show", [CHAT], model={"pad_token": "<|end|>"}))
    assert "<|end|>" not in "".join(text for part, text in shown if part == "trained")


def test_counts(ask: Ask) -> None:
    found = ask("inspect", [CHAT, CHAT, LONG], train={"max_target_length": 32})
    summary = found["summary"]
    assert (summary["rows"], summary["sampled"]) == (3, 3)
    assert summary["tokens"]["p50"] == 20
    assert summary["tokens"]["max"] > 32
    assert (summary["truncated"], summary["no_target"]) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert summary["duplicates"] == 1
    assert {p["id"] for p in found["problems"]} == {"data-no-target", "data-truncated"}


BROKEN: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "another column": ({"text": "a"}, "messages"),
    "a template that drops the prompt": (CHAT, "Chat template generation prompt mismatch"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_data_that_maxtext_refuses_is_told_in_its_words(ask: Ask, tmp_path: Path, case: str) -> None:
    row, words = BROKEN[case]
    template = "{% for m in messages if m.role == 'assistant' %}{{ m.content }}<|end|>{% endfor %}"
    (tmp_path / "t.jinja").write_text(template)
    keys = {"chat_template": "t.jinja"} if row is CHAT else {}
    (problem,) = ask("show", [row], status=2, data=keys)["problems"]
    assert problem["id"] == "data-refused"
    assert words in problem["message"]
