"""The copy of MaxText's rules for rows says of generated rows what MaxText's own pipeline says."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import xsft
from tests.pipeline import Pipeline
from xsft.catalog.data import located
from xsft.data.read_rows import read_rows
from xsft.data.verdicts import row_problems
from xsft.planning import api
from xsft.trainer.chat import renderer
from xsft.workers.row_rules import RowRules, judge_row, uneven

pytestmark = [pytest.mark.contract, pytest.mark.maxtext]

TINY = Path(__file__).parents[2] / "workloads" / "tiny_local.yaml"
ROWS_OF_EACH = 70
TEMPLATES: Mapping[str, str] = {
    "messages": "",  # the tokenizer's own
    "prompt,completion": "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}"
    "{% endif %}<|{{ m.role }}|>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}",
    "question,answer": "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'user' or m.content %}{{ m.content }}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}",
}
"""By columns: one that is plain, one that stops at a role, one that writes nothing for an empty answer."""

Chance = random.Random


def content(chance: Chance) -> Any:
    return chance.choice(["hi", "how are you?", "", " ", None, 3, 1.5, True, ["a"], {"a": 1}, "{}", "2024-01-01"])


def said(chance: Chance, role: str) -> Any:
    if chance.random() < 0.8:
        return {"role": role, "content": chance.choice(["hi", "yes", "what is it?"])}
    return chance.choice(
        [
            {"role": role, "content": content(chance)},
            {"from": "human", "value": "hi"},
            {"role": role},
            {"content": "hi"},
            {"role": role, "content": "hi", "name": "x"},
            {"role": None, "content": "hi"},
            None,
            "hi",
        ]
    )


def conversation(chance: Chance) -> Any:
    if chance.random() < 0.12:
        return chance.choice(
            [None, [], "hi", json.dumps([{"role": "user", "content": "hi"}]), 3, {"role": "user"}, ["hi"]]
        )
    usual = ["system"] * (chance.random() < 0.2) + ["user", "assistant"] * chance.randint(1, 2)
    odd = chance.choices(["user", "assistant", "system", "tool", "human", "gpt"], k=chance.randint(1, 4))
    return [said(chance, role) for role in (usual if chance.random() < 0.75 else odd)]


def messages(chance: Chance) -> Any:
    return {chance.choices(["messages", "conversations"], [20, 1])[0]: conversation(chance), "id": 1}


def completion(chance: Chance) -> Any:
    prompt, answer = [said(chance, "user")], [said(chance, "assistant")]
    if chance.random() < 0.3:
        prompt = chance.choice([conversation(chance), "hi", None, []])
    if chance.random() < 0.2:
        answer = chance.choice([conversation(chance), "hi", None, []])
    return {"prompt": prompt, "completion": answer}


def question(chance: Chance) -> Any:
    row = {"question": content(chance), "answer": content(chance)}
    return row if chance.random() < 0.9 else {"question": "hi", "text": "x"}


ROWS: Mapping[str, Callable[[Chance], Any]] = {
    "messages": messages,
    "prompt,completion": completion,
    "question,answer": question,
}


@pytest.mark.parametrize("columns", ROWS)
def test_the_copy_judges_as_maxtext_does(maxtext_pipeline: Pipeline, tmp_path: Path, columns: str) -> None:
    chance = random.Random(columns)  # the same rows every time
    rows = [ROWS[columns](chance) for _ in range(ROWS_OF_EACH)]
    said = maxtext_pipeline.verdicts(argv(columns, tmp_path), files_of(rows, tmp_path), HERE)
    rules = RowRules(columns=tuple(columns.split(",")), render=renderer(template(columns), {}))
    wrong = [
        (row, verdict, judge_row(row, rules))
        for row, verdict in zip(rows, said, strict=True)
        if verdict.partition(":")[0] != outcome([row], rules)
    ]
    assert wrong == []
    assert len({verdict.partition(":")[0] for verdict in said}) > 1, "the rows tell something"


def texts(chance: Chance) -> Any:
    return {"prompt": content(chance), "completion": content(chance)}


GRAIN: Mapping[str, Callable[[Chance], Any]] = {
    "messages": messages,
    "prompt,completion": texts,
    "question,answer": question,
}


@pytest.mark.parametrize("columns", GRAIN)
def test_the_copy_judges_as_maxtexts_grain_pipeline_does(
    maxtext_pipeline: Pipeline, tmp_path: Path, columns: str
) -> None:
    chance = random.Random(columns)
    rows = [GRAIN[columns](chance) for _ in range(ROWS_OF_GRAIN)]
    rows += [{name: [1, 2] for name in columns.split(",")}]
    line = argv(columns, tmp_path, "data.pipeline=grain", "data.hf_path=parquet", "data.packing=false")
    said = maxtext_pipeline.grain_verdicts(line, rows, tmp_path, HERE)
    rules = RowRules(
        columns=tuple(columns.split(",")), render=renderer(template(columns), {}), texts=True, grain="parquet"
    )
    wrong = [
        (row, verdict, judge_row(row, rules))
        for row, verdict in said
        if verdict.partition(":")[0] != judge_row(row, rules).outcome
    ]
    assert wrong == []
    assert len(said) > ROWS_OF_GRAIN // 2
    assert len({verdict.partition(":")[0] for _row, verdict in said}) > 1, "the rows tell something"


ROWS_OF_GRAIN = 40
USER, ASSISTANT = {"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}
GOOD = {"messages": [USER, ASSISTANT]}
TOGETHER: Mapping[str, list[Any]] = {
    "alike": [GOOD, GOOD],
    "another key": [GOOD, {"messages": [{**USER, "name": "x"}, {**ASSISTANT, "name": "x"}]}],
    "another key far behind": [*[GOOD] * 200, {"messages": [{**USER, "name": "x"}, ASSISTANT]}],
    "from and value": [GOOD, {"messages": [{"from": "human", "value": "hi"}]}],
    "text": [GOOD, {"messages": "hi"}],
    "null": [GOOD, {"messages": None}],
    "missing": [GOOD, {"id": 1}],
    "another column": [GOOD, {**GOOD, "id": 1}],
    "another type": [GOOD, {"messages": [{"role": "user", "content": 3}, ASSISTANT]}],
    "no answer": [GOOD, {"messages": [USER]}],
    "empty": [],
}


def test_rows_are_judged_together_as_maxtext_does(maxtext_pipeline: Pipeline, tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.jsonl" for name in TOGETHER]
    for file, rows in zip(files, TOGETHER.values(), strict=True):
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    rules = RowRules(columns=("messages",), render=renderer(template("messages"), {}))
    said = maxtext_pipeline.verdicts(argv("messages", tmp_path), files, HERE)
    refused = [name for name, verdict in zip(TOGETHER, said, strict=True) if verdict.startswith("refused")]
    judged = [name for name, rows in TOGETHER.items() if not rows or uneven(rows, rules) or _refused(rows, rules)]
    assert judged == refused


def _refused(rows: Sequence[Any], rules: RowRules) -> bool:
    return any(judge_row(row, rules).outcome == "refused" for row in rows)


LINE, NAMED = json.dumps(GOOD), json.dumps({"messages": [{**USER, "name": "x"}, {**ASSISTANT, "name": "x"}]})
FILES: Mapping[str, list[str]] = {
    "one array": [f"[{LINE}]"],
    "a space and one array": [f" [{LINE}]"],
    "a mark and one array": [f"\ufeff[{LINE}]"],
    "a mark": [f"\ufeff{LINE}\n"],
    "an array behind": [f"{LINE}\n", f"[{LINE}]"],
    "an empty file in front": ["", f"{LINE}\n"],
    "uneven keys": [f"{LINE}\n{NAMED}\n"],
    "uneven keys and a blank line": [f"{LINE}\n{NAMED}\n\n"],
    "a key that another file lacks": [f"{NAMED}\n", f"{LINE}\n"],
    "a key more in another file": [f"{LINE}\n", f"{NAMED}\n"],
    "a key more behind a blank line": [f"{LINE}\n\n", f"{NAMED}\n"],
    "two on a line": [f"{LINE}{LINE}\n"],
    "objects over many lines": [json.dumps(GOOD, indent=1) * 2],
    "a comma behind a line": [f"{LINE},\n{LINE}\n"],
    "half a surrogate pair": [LINE + "\n" + LINE.replace("hi", r"\ud83d") + "\n"],
    "a whole surrogate pair": [LINE + "\n" + LINE.replace("hi", r"\ud83d\ude00") + "\n"],
    "a key twice": [LINE[:-1] + ', "id": 1, "id": 2}\n'],
    "a key twice in a message": [LINE.replace('"role": "user"', '"role": "user", "role": "user"') + "\n"],
    "a key twice in an array behind": [
        f"{LINE}\n",
        "[" + LINE.replace('"role": "user"', '"role": "user", "role": "user"') + "]",
    ],
    "another column in another file": [f"{LINE}\n", LINE[:-1] + ', "id": 1}\n'],
    "a column that another file lacks": [LINE[:-1] + ', "id": 1}\n', f"{LINE}\n"],
}


def test_files_are_judged_as_maxtext_does(maxtext_pipeline: Pipeline, tmp_path: Path) -> None:
    rules = RowRules(columns=("messages",), render=renderer(template("messages"), {}))
    patterns = {name: tmp_path / str(number) / "*.json" for number, name in enumerate(FILES)}
    for name, contents in FILES.items():
        patterns[name].parent.mkdir()
        for at, content in enumerate(contents):
            patterns[name].with_name(f"{at}.json").write_text(content, encoding="utf-8")
    said = maxtext_pipeline.verdicts(argv("messages", tmp_path), list(patterns.values()), HERE)
    wrong = []
    for (name, pattern), verdict in zip(patterns.items(), said, strict=True):
        found = read_rows(str(pattern), of="json", where="")
        assert found
        if verdict.startswith("refused") != bool(found.problem or list(row_problems(found, rules, where=""))):
            wrong.append((name, verdict))
    assert wrong == []


COMPRESSED: Mapping[str, bytes] = {
    "a.jsonl.gz": gzip.compress(f"{LINE}\n".encode()),
    "a.jsonl.bz2": bz2.compress(f"{LINE}\n".encode()),
    "a.jsonl.xz": lzma.compress(f"{LINE}\n".encode()),
    "cut.jsonl.gz": gzip.compress(random.Random(0).randbytes(99))[:50],
    "plain.jsonl.gz": f"{LINE}\n".encode(),
    "**.jsonl": b"",
}


def test_compressed_files_and_patterns_are_judged_as_maxtext_does(maxtext_pipeline: Pipeline, tmp_path: Path) -> None:
    for name, content in COMPRESSED.items():
        (tmp_path / name.replace("**", "stars")).write_bytes(content or f"{LINE}\n".encode())
    files = [tmp_path / name for name in COMPRESSED]
    said = maxtext_pipeline.verdicts(argv("messages", tmp_path), files, HERE)
    found = [read_rows(str(file), of="json", where="") for file in files]
    assert [bool(one and one.problem) for one in found] == [verdict.startswith("refused") for verdict in said]
    assert [file.name for file, one in zip(files, found, strict=True) if one and one.rows] == list(COMPRESSED)[:3]


HERE = {"packing": False, "per_device_batch_size": 1, "num_epoch": 1, "max_target_length": 512}


def outcome(rows: Sequence[Any], rules: RowRules) -> str:
    return "refused" if uneven(rows, rules) else judge_row(rows[0], rules).outcome


def argv(columns: str, folder: Path, *settings: str) -> tuple[str, ...]:
    named = list(settings)
    if TEMPLATES[columns]:
        (folder / "t.jinja").write_text(TEMPLATES[columns])
        named.append("data.chat_template=t.jinja")
    file = folder / "w.yaml"
    file.write_text(TINY.read_text())
    (intent,) = api.intend((xsft.load(file, settings=[f"data.columns=[{columns}]", *named]),))
    return intent.trainer_argv


def files_of(rows: Sequence[Any], folder: Path) -> list[Path]:
    files = [folder / f"{number}.jsonl" for number, _row in enumerate(rows)]
    for file, row in zip(files, rows, strict=True):
        file.write_text(f"{json.dumps(row)}\n")
    return files


def template(columns: str) -> str:
    config = json.loads(Path(located("xsft://tiny/tokenizer"), "tokenizer_config.json").read_text())
    return TEMPLATES[columns] or str(config["chat_template"])
