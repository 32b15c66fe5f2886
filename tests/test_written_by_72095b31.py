"""What xsft@72095b31 wrote is read: the same rows, the same stages done, the same runs adopted, the same digests."""

from __future__ import annotations

import json
import os
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.inprocess import xsft
from tests.written import (
    CLUSTER,
    LOCAL,
    Copy,
    cluster_copy,
    digests_of,
    image_of_project,
    known_fields,
    local_copy,
    read_tree,
    silence,
    workloads,
)
from xsft.environments.installed import BuiltEnvironment
from xsft.fit.cache import WRITTEN_BY_72095B31

ANSWERS = read_tree("answers.json")
WORKLOADS = workloads()


@pytest.mark.parametrize("workload", ANSWERS["digests"])
def test_digests_and_names_of_result_folders(workload: str) -> None:
    assert digests_of(WORKLOADS[workload]) == ANSWERS["digests"][workload]


def test_the_image_in_the_lock() -> None:
    assert image_of_project() == ANSWERS["image"]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return local_copy(tmp_path_factory.mktemp("local"))


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="what was written here is found at /proc/self/cwd")
@pytest.mark.parametrize("question", LOCAL)
def test_runs_of_this_machine(local: Copy, question: str) -> None:
    expected = ANSWERS["local"][question]
    assert known_fields(local.ask(*LOCAL[question]), expected) == expected


@pytest.mark.loopback
@pytest.mark.early
def test_rows_of_a_cluster(tmp_path: Path) -> None:
    with cluster_copy(tmp_path, environments=tmp_path / "envs") as copy:
        assert known_fields(copy.rows(), ANSWERS["rows"]) == ANSWERS["rows"]


@pytest.mark.loopback
@pytest.mark.early
def test_last_known_rows_of_a_silent_cluster(tmp_path: Path) -> None:
    with cluster_copy(tmp_path, environments=tmp_path / "envs") as copy:
        silence(copy)
        assert known_fields(copy.rows(), ANSWERS["known-rows"]) == ANSWERS["known-rows"]


@pytest.mark.contract
@pytest.mark.parametrize("question", CLUSTER)
def test_stages_and_runs_of_a_cluster(tmp_path: Path, xpk_environment: BuiltEnvironment, question: str) -> None:
    with cluster_copy(tmp_path, environments=xpk_environment.folder.parent) as copy:
        answer, expected = copy.ask(*CLUSTER[question]), ANSWERS["cluster"][question]
    assert known_fields(answer, expected) == expected


def test_a_verdict_of_the_compiler(tmp_path: Path) -> None:
    cached = read_tree("fit.json")
    file = tmp_path / "fit" / WRITTEN_BY_72095B31 / cached["family"] / cached["file"]
    file.parent.mkdir(parents=True)
    file.write_text(cached["text"], encoding="utf-8")
    (tmp_path / "envs").touch()  # no compiler can be installed
    with patch.dict(os.environ, {"XSFT_CACHE_DIR": str(tmp_path)}):
        done = xsft("fit", "workloads/qwen3_gsm8k.yaml", "--set", "train.per_device_batch_size=3", "--json")
    (fit,), written = json.loads(done.stdout)["fits"], json.loads(cached["text"])["verdict"]
    assert (fit["source"], fit["verdict"], fit["peak_gib"]) == ("cache", written["verdict"], written["peak_gib"])
