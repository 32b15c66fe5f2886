"""`xsft check`: what it looks at, what it does not, and how often."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.checkpoints import small_files
from tests.checks.factory import GOOD, merged
from tests.fakes.gcs import Bucket, serving
from tests.inprocess import xsft
from tests.weights.test_read_checkpoint import CONVERTED

DATA = {"hf_path": "json", "hf_train_files": "gs://my-bucket/rows/*.jsonl", "train_split": "train"}
ROW = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]}
WORLD = {**CONVERTED, "rows/a.jsonl": f"{json.dumps(ROW)}\n".encode() * 8}
LORA = {"rank": 4, "alpha": 8, "restore_path": "gs://my-bucket/lora/model_params"}


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    with serving(Bucket(dict(WORLD))) as served:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", served.url)
        yield served


def written(folder: Path, name: str = "a", **changes: Any) -> str:
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump({**merged(GOOD, changes), "name": name}))
    return str(path)


@pytest.fixture
def unasked(bucket: Bucket, tmp_path: Path) -> tuple[str, str]:
    """Two workloads with every kind of question to the outside world: about files, and about the hub."""
    changes: dict[str, Any] = {
        "data": {**DATA, "hf_eval_files": "gs://my-bucket/eval.jsonl"},
        "eval": {"interval": 100, "steps": 1},
        "lora": LORA,
        "stages": {"export": {"to": "gs://my-bucket/out"}},
        "overrides": {"maxtext": {"weight_dtype": "bfloat16"}},
    }
    of_files = written(tmp_path, **changes)
    return of_files, written(
        tmp_path, "b", data={"hf_path": "me/rows"}, model={"hf": {"repo": "me/model"}, "checkpoint": None}
    )


NOT_LOOKED = {
    "checkpoint-unread",
    "data-not-read",
    "hub-data-unknown",
    "hub-weights-unknown",
    "lora-restore-unread",
    "stage-names-unknown",
}
"""Ids of the problems that name what `--offline` leaves unknown."""


def test_check_offline_sends_no_request_and_lists_unread_sources(bucket: Bucket, unasked: tuple[str, str]) -> None:
    done = xsft("check", *unasked, "--offline")
    assert bucket.asked == []
    for path in ("qwen3-0.6b/0/items", "rows/*.jsonl", "eval.jsonl", "lora/model_params", "runs"):
        assert f"gs://my-bucket/{path}" in done.stderr
    for name in ("me/rows", "me/model"):
        assert f"{name} was not looked up on the hub: --offline was given" in done.stderr
    document = json.loads(xsft("check", *unasked, "--offline", "--json").stdout)
    assert {problem["id"] for problem in document["problems"]} >= NOT_LOOKED
    problems = [problem for problem in document["problems"] if problem["id"] in NOT_LOOKED]
    assert all("Unknown: " in problem["message"] + problem["fix"] for problem in problems)


@pytest.mark.contract
@pytest.mark.usefixtures("xpk_environment")
def test_plan_offline_sends_no_request_and_reports_what_check_reports(bucket: Bucket, unasked: tuple[str, str]) -> None:
    checked = json.loads(xsft("check", *unasked, "--offline", "--json").stdout)
    planned = json.loads(xsft("plan", *unasked, "--offline", "--json").stdout)
    assert bucket.asked == []
    problems = [problem for plan in planned["plans"] for problem in plan["problems"]]
    assert [p for p in problems if p["id"] in NOT_LOOKED] == [p for p in checked["problems"] if p["id"] in NOT_LOOKED]
    assert [problem["name"] for plan in planned["plans"] for problem in plan["stages"]] == ["export", "convert"]


@pytest.mark.contract
@pytest.mark.usefixtures("xpk_environment")
def test_stages_of_a_plan_repeat_no_bucket_request_of_check(bucket: Bucket, tmp_path: Path) -> None:
    bucket.objects |= {f"m/items/{name}": content for name, content in small_files("qwen3-0.6b").items()}
    bucket.objects["rows/a.jsonl"] *= 500
    changes: dict[str, Any] = {"train": {"steps": 1}, "stages": {"export": {"to": "gs://my-bucket/out"}}}
    path = written(tmp_path, data=DATA, model={"checkpoint": "gs://my-bucket/m/items"}, **changes)
    xsft("check", path)
    lines = sorted(line for line in bucket.questions if "/o/" in line)
    bucket.asked.clear()
    planned = json.loads(xsft("plan", path, "--json").stdout)
    assert [stage["name"] for stage in planned["plans"][0]["stages"]] == ["export"]
    assert sorted(line for line in bucket.questions if "/o/" in line) == lines


def test_plan_offline_downloads_no_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XSFT_CACHE_DIR", str(tmp_path / "cache"))
    refused = xsft("plan", written(tmp_path), "--offline")
    assert refused.returncode == 3
    assert "--offline downloads nothing" in refused.stderr
    assert not (tmp_path / "cache" / "envs").exists()


def test_check_reads_a_source_that_ten_workloads_share_once(bucket: Bucket, tmp_path: Path) -> None:
    files = [written(tmp_path, f"w{n}", data=DATA, model={"checkpoint": "gs://my-bucket/0/items"}) for n in range(10)]
    alone = xsft("check", files[0], "--json")
    questions = sorted(bucket.questions)
    bucket.asked.clear()
    together = xsft("check", *files, "--json")
    assert sorted(bucket.questions) == questions
    assert len(questions) > 5
    ids = {problem["id"] for problem in json.loads(alone.stdout)["problems"]}
    assert {problem["id"] for problem in json.loads(together.stdout)["problems"]} == ids


@pytest.mark.loopback
def test_check_waits_for_a_slow_bucket_and_names_it(bucket: Bucket, tmp_path: Path) -> None:
    bucket.delay_s = 0.4
    path = written(tmp_path, data=DATA, model={"checkpoint": "gs://my-bucket/0/items"})
    done = xsft("check", path)
    assert "could not be read" not in done.stderr
    assert "xsft: waiting for gs://my-bucket/" in done.stderr
