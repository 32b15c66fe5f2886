"""Row order and file counts of runs that resume or restart."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checks.factory import FLAGSHIP, ids, problems, spec
from xsft.checks.hosts import check_resumption as check

RESTARTING = {"restarts": {"max": 3}}
OWN = {"hf_path": "parquet", "train_split": "train"}
FEW = "resume-few-files"


@pytest.mark.parametrize("target", ["local", "xpk"])
@pytest.mark.parametrize(
    ("changes", "order"),
    [
        ({}, "in another order"),
        ({"restarts": {"data": "reshuffle"}}, "in another order"),
        ({"restarts": {"data": "repeat"}}, "in the same order"),
        ({"data": {"shuffle": False}}, "in the same order"),
    ],
)
def test_row_order_after_a_restart_is_noted_for_cluster_and_local_runs(
    target: str, changes: dict[str, Any], order: str
) -> None:
    (problem,) = problems(check, spec(target=target, **changes))
    assert (problem.id, problem.severity) == ("resume-data-restarts", "note")
    assert order in problem.message


def test_reshuffling_of_unshuffled_rows_is_refused() -> None:
    reported = problems(check, spec(data={"shuffle": False}, restarts={"data": "reshuffle"}))
    assert ("reshuffle-unshuffled", "error") in {(p.id, p.severity) for p in reported}


def _files(pattern: str, *, rows: int | None = None, **changes: Any) -> set[str]:
    data = {**OWN, "hf_train_files": pattern, **({"rows": rows} if rows else {})}
    return ids(check, spec(data=data, **{**RESTARTING, **changes}))


# v6e-8 in McJAX is two hosts: 16 files.


@pytest.mark.parametrize(
    "pattern",
    [
        "gs://my-bucket/train.parquet",
        "gs://my-bucket/train-00000-of-00064.parquet",
        "gs://my-bucket/train-*-of-00015.parquet",
    ],
)
def test_too_few_files_for_the_hosts_are_reported(pattern: str) -> None:
    assert FEW in _files(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "gs://my-bucket/train-*-of-00016.parquet",
        "gs://my-bucket/train-?????-of-00064-*.parquet",
        "gs://my-bucket/train-*.parquet",  # nobody counted them
        "gs://my-bucket/train-00000-of-00003-*.parquet",
    ],
)
def test_enough_or_uncounted_files_give_no_warning(pattern: str) -> None:
    assert FEW not in _files(pattern)


def test_few_files_warning_counts_files_and_processes() -> None:
    (warning,) = [p for p in problems(check, spec(**RESTARTING)) if p.id == FEW]
    assert warning.severity == "warning"
    assert "3 files for 2 processes" in warning.message
    assert "16 files" in warning.fix
    (flagship,) = [p for p in problems(check, spec(FLAGSHIP, **RESTARTING)) if p.id == FEW]
    assert "3 files for 1 process that" in flagship.message


@pytest.mark.parametrize(("rows", "few"), [(1000, False), (1001, True)])
def test_file_that_fits_the_shuffle_buffer_gives_no_warning(rows: int, few: bool) -> None:
    assert (FEW in _files("gs://my-bucket/train.parquet", rows=rows)) == few


@pytest.mark.parametrize(
    "changes",
    [
        {"restarts": {}},
        {"restarts": {"max": 3, "data": "repeat"}},
        {"overrides": {"maxtext": {"dataset_type": "grain"}}},
    ],
)
def test_few_files_need_restarts_shuffling_and_the_hf_pipeline_to_warn(changes: Any) -> None:
    assert FEW not in ids(check, spec(**{**RESTARTING, **changes}))


def test_spot_slices_count_as_restarting() -> None:
    assert FEW in ids(check, spec(tpu={"capacity": "spot"}))
