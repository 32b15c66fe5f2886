"""Rows of the files of a local run are sampled, and counted against the steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import xsft
from tests.checks import factory
from tests.checks.factory import spec
from xsft.base.problems import Problem
from xsft.checks.data import check_rows as check
from xsft.checks.facts import Facts
from xsft.data.facts import DataFacts, SampledRow

TINY = Path(__file__).parents[2] / "workloads" / "tiny_local.yaml"
GOOD = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]}


def problems(folder: Path, rows: list[Any], *settings: str, template: str = "") -> list[Problem]:
    file = folder / "rows.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "w.yaml").write_text(TINY.read_text().replace("  rows: 480\n", ""))
    named = (f"data.hf_train_files={file}", *settings)
    if template:
        (folder / "t.jinja").write_text(template)
        named = (*named, "data.chat_template=t.jinja")
    return [p for p in xsft.check(xsft.load(folder / "w.yaml", settings=named)) if p.severity != "note"]


def ids(folder: Path, rows: list[Any], *settings: str, template: str = "") -> list[str]:
    return [p.id for p in problems(folder, rows, *settings, template=template)]


def test_good_rows_have_no_problems(tmp_path: Path) -> None:
    assert ids(tmp_path, [GOOD] * 480) == []
    assert ids(tmp_path, [{"messages": "x"}] * 480, "data.formatting_func=a.b") == [], (
        "what it makes of rows is unknown"
    )


def test_rows_of_files_are_compared_with_steps_and_data_rows(tmp_path: Path) -> None:
    assert ids(tmp_path, [GOOD] * 20) == ["steps-beyond-data"]
    assert ids(tmp_path, [GOOD] * 480, "data.rows=400") == ["data-rows"]


def test_problem_of_rows_names_the_field_of_the_files(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, [{"text": "a"}] * 480)
    assert (problem.id, problem.where) == ("data-columns", "data.hf_train_files")
    assert "row 0 of rows.jsonl has no column messages; its columns are text" in problem.message


def test_rows_of_the_evaluation_are_checked(tmp_path: Path) -> None:
    (tmp_path / "eval.jsonl").write_text('{"text": "a"}\n')
    settings = (f"data.hf_eval_files={tmp_path}/eval.jsonl", "eval.interval=10", "eval.steps=1")
    assert ("data-columns", "data.hf_eval_files") in [(p.id, p.where) for p in problems(tmp_path, [GOOD], *settings)]


@pytest.mark.parametrize("settings", [("target=xpk",), pytest.param(("data.hf_path=csv",), marks=pytest.mark.loopback)])
def test_rows_of_cluster_runs_and_csv_are_not_read(tmp_path: Path, settings: tuple[str, ...]) -> None:
    assert "data-columns" not in ids(tmp_path, [{"text": "a"}], *settings)


def test_mixture_of_grain_is_not_checked_and_gives_a_note(tmp_path: Path) -> None:
    columns = ("data.pipeline=grain", "data.hf_path=arrayrecord", "data.columns=[question,answer]")
    settings = (*columns, f"data.hf_train_files={tmp_path}/a*,0.5;{tmp_path}/b*,0.5")
    found = {p.id: p for p in xsft.check(xsft.load(TINY, settings=settings))}
    assert found["data-not-read"].severity == "note"
    assert "mixture" in found["data-not-read"].message
    missing = (*columns, f"data.hf_train_files={tmp_path}/*.array_record")
    assert "data-unreadable" in {p.id for p in xsft.check(xsft.load(TINY, settings=missing))}


@pytest.mark.parametrize("first", [{"role": "system", "content": "be kind"}, {"role": "user", "content": "and?"}])
def test_roles_that_a_known_template_refuses_are_reported(first: dict[str, str]) -> None:
    row = {"messages": [first, *GOOD["messages"]]}
    facts = Facts(data=DataFacts(rows=(SampledRow(at="row 1", row=row),)))
    gemma = {"name": "gemma2-2b", "tokenizer": "google/gemma-2-2b-it"}
    assert "data-template" in factory.ids(check, spec(model=gemma), facts)
    assert "data-template" not in factory.ids(check, spec(), facts)
    own = {"maxtext": {"chat_template": "{{ messages }}"}}
    assert "data-template" not in factory.ids(check, spec(model=gemma, overrides=own), facts)
    fitting = Facts(data=DataFacts(rows=(SampledRow(at="row 1", row={"messages": GOOD["messages"] * 2}),)))
    assert "data-template" not in factory.ids(check, spec(model=gemma), fitting)
