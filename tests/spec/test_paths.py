"""Relative paths of a workload start from its folder; a path that exists only in the current folder is still found."""

from __future__ import annotations

import json
from contextlib import chdir
from pathlib import Path

import pytest

from tests.checks.factory import spec
from tests.written import known_fields, local_copy, read_tree
from xsft.planning.api import intend, load_each
from xsft.planning.steps import Intent
from xsft.spec.explain import read_spec
from xsft.spec.paths import relative_paths

WORKLOAD = {
    "name": "two-folders",
    "target": "local",
    "output": "results",
    "model": {"name": "qwen3-0.6b", "tokenizer": "./tokenizer", "checkpoint": "weights/0/items"},
    "data": {
        "hf_path": "json",
        "hf_train_files": "rows.jsonl",
        "hf_eval_files": "held/*.jsonl",
        "columns": ["messages"],
    },
    "train": {"steps": 3, "per_device_batch_size": 1},
    "eval": {"interval": 3},
}
ROW = '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n'
OLD_RULE = "path-current-folder"


def intent_from(current: Path, file: Path) -> Intent:
    with chdir(current):
        loaded, problems = load_each((file,), offline=True)
        assert not problems
        return intend(loaded)[0]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    workload = tmp_path / "workloads" / "w.yaml"
    (tmp_path / "elsewhere").mkdir()
    workload.parent.mkdir()
    workload.write_text(json.dumps(WORKLOAD))
    return workload


def write_rows(folder: Path) -> None:
    (folder / "rows.jsonl").write_text(ROW)


def test_one_file_started_from_two_folders_is_one_run(file: Path, tmp_path: Path) -> None:
    write_rows(file.parent)
    here, elsewhere = (intent_from(current, file) for current in (file.parent, tmp_path / "elsewhere"))
    assert here.spec_digest == elsewhere.spec_digest
    assert here.trainer_argv == elsewhere.trainer_argv
    words = (f"hf_train_files={file.parent}/rows.jsonl", f"base_output_directory={file.parent}/results")
    assert set(words) <= set(here.trainer_argv)
    assert f"load_parameters_path={file.parent}/weights/0/items" in here.trainer_argv
    assert OLD_RULE not in {problem.id for problem in elsewhere.problems}


def test_a_path_that_exists_only_in_the_current_folder_is_found_with_a_warning(file: Path, tmp_path: Path) -> None:
    write_rows(tmp_path)
    (tmp_path / "results" / "two-folders").mkdir(parents=True)
    (file.parent / "results").mkdir()
    intent = intent_from(tmp_path, file)
    assert {f"hf_train_files={tmp_path}/rows.jsonl", f"base_output_directory={tmp_path}/results"} <= set(
        intent.trainer_argv
    )
    warned = {problem.where: problem.fix for problem in intent.problems if problem.id == OLD_RULE}
    assert set(warned) == {"data.hf_train_files", "output"}
    assert "write ../rows.jsonl." in warned["data.hf_train_files"]


def test_the_default_output_is_in_the_current_folder(file: Path, tmp_path: Path) -> None:
    file.write_text(json.dumps({**WORKLOAD, "output": None}))
    assert intent_from(tmp_path / "elsewhere", file).run.output == f"{tmp_path}/elsewhere/xsft-runs"


@pytest.mark.parametrize("question", ["run", "submit", "export"])
def test_a_run_that_72095b31_wrote_is_still_found_from_its_current_folder(tmp_path: Path, question: str) -> None:
    copy = local_copy(tmp_path)
    (tmp_path / "workloads").mkdir()
    (tmp_path / "w.yaml").rename(tmp_path / "workloads" / "w.yaml")
    words = {"run": ("run",), "submit": ("submit",), "export": ("checkpoint", "export")}[question]
    expected = read_tree("answers.json")["local"][question]
    assert known_fields(copy.ask(*words, "workloads/w.yaml"), expected) == expected


@pytest.mark.parametrize(
    ("key", "path", "relative"),
    [
        ("data.hf_train_files", "rows.jsonl", True),
        ("data.hf_train_files", "~/rows.jsonl", False),
        ("data.hf_train_files", "xsft://tiny/chat.jsonl", False),
        ("data.hf_train_files", "gs://my-bucket/rows.jsonl", False),
        ("model.tokenizer", "./tokenizer", True),
        ("model.tokenizer", "Qwen/Qwen3-0.6B", False),
        ("model.checkpoint", "weights/0/items", True),
        ("output", "/runs", False),
        ("stages.export.to", "exports", True),
        ("stages.export.to", "hf://owner/name", False),
    ],
)
def test_which_paths_are_relative(key: str, path: str, relative: bool) -> None:
    text = json.dumps({**WORKLOAD, "stages": {}})
    workload = read_spec(text, settings=(f"{key}={path}",))
    assert relative_paths(workload).get(key) == (path if relative else None)


def test_files_inside_of_a_data_set_of_the_hub_are_not_paths_of_this_machine() -> None:
    workload = read_spec(json.dumps(WORKLOAD), settings=("data.hf_path=owner/name",))
    assert not {"data.hf_train_files", "data.hf_path"} & set(relative_paths(workload))


def test_a_run_on_a_cluster_has_no_relative_paths() -> None:
    assert relative_paths(spec(output="results")) == {}
