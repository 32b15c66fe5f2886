"""A check counts tokens as MaxText's own pipeline does, and finds rows that are cut."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

import xsft
from tests.pipeline import Pipeline
from xsft.catalog.data import located
from xsft.checks.rows import sampled_texts
from xsft.data.tokenized import count_tokens
from xsft.planning import api, gather
from xsft.planning.planner import make_intent

pytestmark = [pytest.mark.contract, pytest.mark.maxtext, pytest.mark.usefixtures("maxtext_environment")]

TINY = Path(__file__).parents[2] / "workloads" / "tiny_local.yaml"
TOKENIZER = Path(located("xsft://tiny/tokenizer"))


def row(question: str, answer: str = "yes") -> dict[str, object]:
    return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]}


def settings(folder: Path, rows: list[dict[str, object]], *more: str) -> tuple[str, ...]:
    file = folder / "rows.jsonl"
    file.write_text("".join(f"{json.dumps(one)}\n" for one in rows))
    return (f"data.hf_train_files={file}", "data.rows=null", "train.steps=1", *more)


def ids(folder: Path, rows: list[dict[str, object]], *more: str) -> list[tuple[str, str]]:
    found = xsft.check(xsft.load(TINY, settings=settings(folder, rows, *more)))
    wanted = ("data-truncated", "data-no-target", "data-not-counted")
    return [(problem.id, problem.severity) for problem in found if problem.id in wanted]


BOS = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<|system|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"<|system|>": {"id": "<|system|>", "ids": [0], "tokens": ["<|system|>"]}},
}
"""Writes a BOS in front of every text, unless the tokenizer is loaded without."""


@pytest.mark.parametrize("post_processor", [None, BOS], ids=["tokenizers", "transformers"])
def test_counted_lengths_are_those_of_maxtext(
    maxtext_pipeline: Pipeline, tmp_path: Path, post_processor: dict[str, object] | None
) -> None:
    folder = Path(shutil.copytree(TOKENIZER, tmp_path / "tokenizer"))
    written = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps({**written, "post_processor": post_processor}))
    chance = random.Random(1)
    rows = [row("why? " * chance.randrange(9), "so. " * chance.randrange(1, 9)) for _ in range(24)]
    more = ("data.packing=false", "train.per_device_batch_size=1", f"model.tokenizer={folder}")
    loaded = xsft.load(TINY, settings=settings(tmp_path, rows, *more))
    facts = gather.gather(loaded.spec, file=TINY, today="20260101", offline=True)
    run = make_intent(loaded.spec, facts).run
    counted = count_tokens(sampled_texts(run, facts, split="train"), tokenizer=str(folder), timeout_s=200)
    (intent,) = api.intend((loaded,))
    read = maxtext_pipeline.rows(intent.trainer_argv, batches=24)
    assert [sum(answer for _prompt, answer in rounds) for rounds in counted] == [len(one.trained) for one in read]


def test_check_reports_rows_that_are_cut(tmp_path: Path) -> None:
    short, long, no_answer = row("why?"), row("why?", "so. " * 200), row("why? " * 200)
    assert ids(tmp_path, [short] * 40) == []
    assert ids(tmp_path, [short] * 38 + [long] * 2) == []
    assert ids(tmp_path, [short] * 30 + [long] * 10) == [("data-truncated", "warning")]
    assert ids(tmp_path, [long] * 40) == [("data-truncated", "error")]
    assert ids(tmp_path, [no_answer] * 40) == [("data-truncated", "error"), ("data-no-target", "error")]
    assert ids(tmp_path, [no_answer] * 40, "train.max_target_length=2048") == []


def test_rows_for_evaluation_are_counted_too(tmp_path: Path) -> None:
    files = tmp_path / "eval.jsonl"
    files.write_text(f"{json.dumps(row('why?', 'so. ' * 200))}\n" * 40)
    evaluated = (
        "eval.interval=1",
        "eval.steps=1",
        f"data.hf_eval_files={files}",
        "overrides.maxtext.eval_interval=null",
    )
    found = xsft.check(xsft.load(TINY, settings=settings(tmp_path, [row("why?")] * 40, *evaluated)))
    (problem,) = (one for one in found if one.id == "data-truncated")
    assert problem.severity == "error"
    assert "40 of 40 checked rows for evaluation" in problem.message
    assert "--split eval" in problem.fix


def test_without_maxtexts_environment_the_note_names_the_setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XSFT_CACHE_DIR", str(tmp_path / "cache"))
    loaded = xsft.load(TINY, settings=settings(tmp_path, [row("another question")]))
    (note,) = (one for one in xsft.check(loaded) if one.id == "data-not-counted")
    assert "xsft setup maxtext" in note.fix


def test_tokens_of_the_same_texts_are_counted_once() -> None:
    texts = ((("what is it?", "a text of the test, counted once"),),)
    found = count_tokens(texts, tokenizer=str(TOKENIZER), timeout_s=200)
    assert found
    assert count_tokens(texts, tokenizer=str(TOKENIZER), timeout_s=0) == found
    assert count_tokens(((("another", "text"),),), tokenizer=str(TOKENIZER), timeout_s=0) == (), "nothing is guessed"
