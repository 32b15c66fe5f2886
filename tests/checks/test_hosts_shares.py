"""Files per process, and rows for evaluation."""

from __future__ import annotations

import pytest

from tests.checks.factory import DROP, GOOD, ids, problems, spec
from xsft.checks.facts import Facts
from xsft.checks.hosts import check_shares as check
from xsft.data.facts import DataFacts

FILES = {"hf_path": "json", "hf_train_files": "gs://my-bucket/*.jsonl", "train_split": "train", "packing": False}
SIXTEEN_HOSTS = {"tpu": {"type": "v6e-64"}, "data": FILES, "train": {"steps": 100}}
FOUR_HOSTS = {"tpu": {"type": "v6e-16"}, "data": FILES}


def facts(*, files: int, counted: int | None = None) -> Facts:
    return Facts(data=DataFacts(files=files, counted=counted))


@pytest.mark.parametrize(
    ("files", "mode", "found"), [(1, "mcjax", {"data-few-files"}), (16, "mcjax", set()), (1, "pathways", set())]
)
def test_fewer_files_than_processes_are_reported(files: int, mode: str, found: set[str]) -> None:
    assert ids(check, spec(**SIXTEEN_HOSTS, mode=mode), facts(files=files)) == found


def test_few_processes_may_each_read_all_rows() -> None:
    assert ids(check, spec(**FOUR_HOSTS), facts(files=1)) == set()


@pytest.mark.parametrize(("steps", "found"), [(40, {"data-uneven-files"}), (30, set())])
def test_file_count_that_is_no_multiple_of_the_processes_is_reported(steps: int, found: set[str]) -> None:
    """Six files for four processes: two have two files, and the others end after one."""
    workload = spec(**FOUR_HOSTS, train={"steps": steps})
    reported = problems(check, workload, facts(files=6, counted=750))
    assert {p.id for p in reported} == found
    assert all("about 31 of 40 steps" in p.message for p in reported)
    assert ids(check, workload, facts(files=8, counted=750)) == set()


@pytest.mark.parametrize(("rows", "found"), [(7, {"eval-beyond-data"}), (8, set())])
def test_evaluation_rows_must_fill_a_batch(rows: int, found: set[str]) -> None:
    files = {**FILES, "hf_eval_files": "gs://my-bucket/eval/*.jsonl"}
    evaluated = spec(GOOD, data=files, eval={"interval": 50, "steps": 1})
    assert ids(check, evaluated, Facts(eval_data=DataFacts(counted=rows))) == found
    assert ids(check, spec(data=files), Facts(eval_data=DataFacts(counted=rows))) == set()


@pytest.mark.parametrize(("workers", "found"), [(2, set()), (3, {"grain-workers-files"})])
def test_data_workers_of_grain_need_a_file_each(workers: int, found: set[str]) -> None:
    grain = {**FILES, "pipeline": "grain", "hf_path": "parquet", "train_split": DROP}
    workload = spec(**{**FOUR_HOSTS, "data": grain}, overrides={"maxtext": {"grain_worker_count": workers}})
    assert ids(check, workload, facts(files=8)) == found


def test_grain_before_0_2_5_needs_a_file_for_each_process() -> None:
    grain = {**FILES, "pipeline": "grain", "hf_path": "parquet", "train_split": DROP}
    few = Facts(data=DataFacts(files=3))
    workload = {**FOUR_HOSTS, "data": grain}
    assert ids(check, spec(**workload, image={"maxtext": "0.2.4"}), few) == {"grain-files"}
    assert ids(check, spec(**workload), few) == set()
