"""What MaxText's own pipeline answers of data sets with known truth, and of data that gives no warning."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import xsft
from tests.pipeline import Pipeline
from xsft.base.problems import Problem
from xsft.checks.data import check_row_answers
from xsft.data.findings import Summary, summarize
from xsft.data.passes import CHECKED, SPLITS, PassAnswers, inspection_of, passes_to_inspect, reading_of
from xsft.data.pipeline import parse_answers, pass_argvs, worker_job
from xsft.data.row_files import FetchedRows
from xsft.environments.installed import BuiltEnvironment
from xsft.evaluation.trainer_plan import held_out_keys
from xsft.planning import api
from xsft.spec.stages import EvaluateStage

pytestmark = [pytest.mark.contract, pytest.mark.maxtext]

TINY = Path(__file__).parents[2] / "workloads" / "tiny_local.yaml"
ROWS = 60


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str, **keys: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **keys}


def talk(number: int, answer: str = "yes", **columns: Any) -> dict[str, Any]:
    return {"messages": [user(f"is {number} a number?"), said(answer)], **columns}


GOOD = [talk(number) for number in range(ROWS)]
TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>\n{{ CONTENT }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
R1_DISTILL = (
    "{% for m in messages %}{% if m.role == 'user' %}<|user|>{{ m.content }}{% else %}{% set content = m.content %}"
    "{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}"
    "<|assistant|>{{ content }}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|><think>\n{% endif %}"
)
"""What deepseek-ai/DeepSeek-R1-Distill-Qwen-7B writes of a question and its answer, with the tiny tokenizer's tokens.
source: its tokenizer_config.json, 2025-02; the same in DeepSeek-R1 and in all its distilled models.
"""
WITHOUT_END = TEMPLATE.replace("CONTENT", "m.content").replace("<|end|>\n", "\n")
STOPS = TEMPLATE.replace("CONTENT", "m.content if m.content != 'stop' else raise_exception('no stop')")


class DataSet(NamedTuple):
    rows: list[dict[str, Any]]
    found: Mapping[str, str]
    """Id of each problem -> words of its message or fix."""
    figures: Mapping[str, Any] = {}
    template: str = ""
    settings: tuple[str, ...] = ()
    evaluated: list[dict[str, Any]] | None = None


DATA_SETS: Mapping[str, DataSet] = {
    "a key that nothing reads": DataSet(
        [{"messages": [{**user("why?"), "thinking": None}, said("so", thinking=f"{n} is odd")]} for n in range(ROWS)],
        {"data-key-unread": "thinking of messages in 60 of 60 rows (100%): it is not trained. Row 0 has '0 is odd'"},
        {"duplicates": 59},
    ),
    "a column of tools": DataSet(
        [talk(n, tools=["search"] if n % 2 else None, source="web") for n in range(ROWS)],
        {"data-key-unread": "the column tools, which has a value in 30 of 60 rows (50%)"},
    ),
    "a template that drops the reasoning": DataSet(
        [talk(n, f"<think>{n} is odd</think>yes" if n < 15 else "yes") for n in range(ROWS)],
        {"data-text-dropped": "in 15 of 60 rows (25%). Row 0 has '<think>0 is odd</think>yes' and trains 'yes<|end|>"},
        template=R1_DISTILL,
    ),
    "a template that adds an empty reasoning": DataSet(
        [{"messages": [*row["messages"], user("sure?"), said(f"<think>{n}</think>yes")]} for n, row in enumerate(GOOD)],
        {"data-text-added": "of 60 rows (100%). Row 0 has 'yes' and trains '<think>\\n\\n</think>\\n\\nyes<|im_end|>"},
        settings=("model.tokenizer={assets}/qwen3-tokenizer", "overrides.maxtext.vocab_size=151936"),
    ),
    "a role that MaxText drops": DataSet(
        [{"messages": [user("why?"), {"role": "tool", "content": f"found {n}"}, said("so")]} for n in range(ROWS)],
        {"data-role-dropped": "drops all 60 messages of the role 'tool'"},
        {"duplicates": 0},
    ),
    "rows without an answer": DataSet(
        [*GOOD[:7], {"messages": [user("why?")]}, *GOOD[8:], {"messages": [said("so")]}],
        {"data-roles": "2 of 61 rows stop MaxText: row 7 of rows.jsonl has no message of the role assistant"},
        {"sampled": 61, "no_target": 0, "duplicates": 0},
    ),
    "a row at which the template stops": DataSet(
        [*GOOD, {"messages": [user("stop"), said("so")]}],
        {"data-template": "1 of 61 rows stop MaxText: row 60 stops MaxText: no stop"},
        template=STOPS,
    ),
    "one duplicate, and equal answers": DataSet([*GOOD, GOOD[3]], {}, {"duplicates": 1, "no_target": 0}),
    "answers that are cut": DataSet(
        [talk(n, "yes " * 80 if n < 12 else "yes") for n in range(ROWS)],
        {"data-truncated": "20.0% of 60 examples are longer than 64 tokens and are cut; the longest, row"},
        {"truncated": 0.2},
        settings=("train.max_target_length=64",),
    ),
    "an end that is not trained": DataSet(
        GOOD,
        {"data-no-end": "100.0% of 60 examples", "answer-without-end": "writes no token after an answer"},
        template=WITHOUT_END,
    ),
    "ShareGPT": DataSet(
        [{"conversations": [{"from": "human", "value": "why?"}, {"from": "gpt", "value": "so"}]}] * ROWS,
        {"data-columns": "--from-sharegpt --columns conversations --rename conversations=messages"},
    ),
    "Alpaca": DataSet(
        [{"instruction": "Add.", "input": "1 2", "output": "3"}] * ROWS,
        {"data-columns": "--rename instruction=question --rename input=question --rename output=answer"},
    ),
    "rows of the evaluation that are trained": DataSet(
        GOOD, {"data-leak": "5 of 60 examples are also in the other split"}, evaluated=[*GOOD[:5], talk(99)]
    ),
    "sorted rows that nothing shuffles": DataSet(
        [talk(n, "ab"[n >= ROWS // 2]) for n in range(ROWS)],
        {"data-sorted": "sorted by answer"},
        settings=("overrides.maxtext.enable_data_shuffling=false",),
    ),
    "messages of different keys": DataSet(
        [*GOOD, {"messages": [user("why?"), said("so", name="x")]}],
        {"data-conversation": "Messages have different keys, [role, content] and [role, content, name]"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DATA_SETS)
def test_data_sets_are_judged_by_what_they_train(
    maxtext_pipeline: Pipeline, maxtext_environment: BuiltEnvironment, tmp_path: Path, name: str
) -> None:
    data_set = DATA_SETS[name]
    (assets,) = maxtext_environment.folder.glob("lib/*/site-packages/maxtext/assets/tokenizers")
    settings = [setting.format(assets=assets) for setting in data_set.settings]
    write(tmp_path / "rows.jsonl", data_set.rows)
    if data_set.evaluated:
        write(tmp_path / "eval.jsonl", data_set.evaluated)
        settings += [f"data.hf_eval_files={tmp_path}/eval.jsonl"]
    if data_set.template:
        (tmp_path / "t.jinja").write_text(data_set.template)
        settings.append("data.chat_template=t.jinja")
    problems, summary = ask(maxtext_pipeline, tmp_path, tmp_path / "rows.jsonl", *settings)
    by_id = {reported.id: f"{reported.message} {reported.fix}" for reported in problems}
    assert set(by_id) == set(data_set.found)
    for problem, words in data_set.found.items():
        assert words in by_id[problem]
    assert {figure: getattr(summary, figure) for figure in data_set.figures} == data_set.figures


SYSTEM = {"role": "system", "content": "Be brief."}
SHAPES: Mapping[str, tuple[list[dict[str, Any]], tuple[str, ...]]] = {
    "messages": (GOOD, ()),
    "a system message": ([{"messages": [SYSTEM, *row["messages"]]} for row in GOOD], ()),
    "an empty system message": ([{"messages": [{**SYSTEM, "content": ""}, *row["messages"]]} for row in GOOD], ()),
    "more columns": ([{**row, "id": n, "source": "the web"} for n, row in enumerate(GOOD)], ()),
    "names": ([{"messages": [{**user(f"{n}?"), "name": "eve"}, said("yes", name="bot")]} for n in range(ROWS)], ()),
    "prompt and completion": (
        [{"prompt": [user(f"{n}?")], "completion": [said("yes")]} for n in range(ROWS)],
        ("data.columns=[prompt,completion]",),
    ),
    "question and answer": (
        [{"question": f"{n}?", "answer": "yes"} for n in range(ROWS)],
        ("data.columns=[question,answer]",),
    ),
    "csv": (
        [{"question": f"{n}?", "answer": "yes"} for n in range(ROWS)],
        ("data.columns=[question,answer]", "data.hf_path=csv"),
    ),
    "parquet": (GOOD, ("data.hf_path=parquet",)),
    "parquet by Grain": (GOOD, ("data.hf_path=parquet", "data.pipeline=grain")),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_single_rounds_give_no_warning(maxtext_pipeline: Pipeline, tmp_path: Path, shape: str) -> None:
    rows, settings = SHAPES[shape]
    file = tmp_path / "rows.jsonl"
    if "data.hf_path=parquet" in settings:
        file = maxtext_pipeline.parquet(rows, file=tmp_path / "rows.parquet")
    elif "data.hf_path=csv" in settings:
        file = tmp_path / "rows.csv"
        with file.open("w", newline="") as opened:
            writer = csv.DictWriter(opened, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        write(file, rows)
    problems, summary = ask(maxtext_pipeline, tmp_path, file, *settings)
    assert problems == []
    assert (summary.rows, summary.no_target, summary.truncated, summary.no_end) == (ROWS, 0, 0, 0)


def ask(pipeline: Pipeline, folder: Path, file: Path, *settings: str) -> tuple[list[Problem], Summary]:
    """Return the problems of a check and the figures, for one epoch of the rows."""
    (folder / "w.yaml").write_text(TINY.read_text().replace("  rows: 480\n", ""))
    named = (f"data.hf_train_files={file}", "train.steps=4", *settings)
    (intent,) = api.intend((xsft.load(folder / "w.yaml", settings=named),))
    run, passes = intent.run, tuple(passes_to_inspect(intent.run, split="train", rows=CHECKED))
    files = zip(SPLITS, (run.spec.data.hf_train_files, run.spec.data.hf_eval_files), strict=True)
    copies = tuple(FetchedRows(split=split, pattern=pattern) for split, pattern in files if pattern)
    argvs = pass_argvs(run, passes, held_out_keys(run, EvaluateStage()))
    answers = parse_answers(pipeline.examples(worker_job(run, passes, argvs, copies, scratch=folder, tokenizer=None)))
    reported = [shown_problem for shown_problem in intent.problems if shown_problem.severity != "note"]
    return [*reported, *check_row_answers(run, answers, found=reported)], summary_of(run, answers)


def summary_of(run: Any, answers: PassAnswers) -> Summary:
    return summarize(inspection_of(run, answers), reading=reading_of(run), vocabulary=answers.vocabulary)


def write(file: Path, rows: list[dict[str, Any]]) -> None:
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
