"""Unfit files at model.checkpoint and lora.restore_path refuse `check`, `plan` and `submit`, each with its own id.

The files are those of real checkpoints; tests/contract/test_checkpoint_formats.py has all pairings.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.checkpoints import unpacked
from tests.checks.factory import FLAGSHIP, GOOD, merged
from tests.fakes.gcs import Bucket, serving
from tests.localruns import WORKLOADS
from xsft.spec.yamltext import load_yaml
from xsft.verbs.cli import main

SIZES = {
    "override_model_config": True,
    "decoder_block": "qwen3",
    "use_qk_norm": True,
    "base_num_decoder_layers": 6,
    "base_emb_dim": 64,
    "base_num_query_heads": 4,
    "base_num_kv_heads": 2,
    "head_dim": 16,
    "base_mlp_dim": 128,
    "vocab_size": 512,
}
CONVERTED = "qwen3-converted/0/items"
TRAINED = "qwen3-trained/checkpoints/2"
LORA = "qwen3-lora/checkpoints/2/model_params"
FITTING: Mapping[str, Any] = {"model": {"name": "qwen3-0.6b"}, "overrides": {"maxtext": SIZES}}

WRONG = {
    "another model": ({"model": {"checkpoint": CONVERTED}, "overrides": {"maxtext": {"vocab_size": 256}}}, "model"),
    "other layout": ({"model": {"checkpoint": CONVERTED, "scan_layers": False}}, "scan"),
    "other axis": ({"model": {"checkpoint": CONVERTED}, "overrides": {"maxtext": {"param_scan_axis": 0}}}, "axis"),
    "adapters": ({"model": {"checkpoint": LORA}}, "adapters"),
    "an optimizer": ({"model": {"checkpoint": f"{TRAINED}/optimizer_state"}}, "optimizer"),
    "a torn save": ({"model": {"checkpoint": "torn/checkpoints/2.orbax-checkpoint-tmp/model_params"}}, "torn"),
    "a torn save in a bucket": ({"model": {"checkpoint": "torn-in-bucket/checkpoints/2/model_params"}}, "torn"),
    "wrong level": ({"model": {"checkpoint": "qwen3-converted/0"}}, "invalid"),
    "missing step": ({"model": {"checkpoint": "qwen3-trained/checkpoints/3/model_params"}}, "missing"),
}


@pytest.fixture
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(unpacked("stores", tmp_path))
    return tmp_path


def written(folder: Path, base: Mapping[str, Any], changes: Mapping[str, Any]) -> str:
    file = folder / "workload.yaml"
    file.write_text(yaml.safe_dump(merged(merged(base, FITTING), changes)))
    return str(file)


def local(folder: Path, changes: Mapping[str, Any]) -> str:
    return written(folder, load_yaml((WORKLOADS / "tiny_local.yaml").read_text()), changes)


def told(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, set[str]]:
    """The status, and the ids about what lies there that are no notes."""
    status = main((*argv, "--json"))
    document = json.loads(capsys.readouterr().out)
    problems = [problem for workload in document.get("workloads", [document]) for problem in workload["problems"]]
    about = ("checkpoint-", "lora-restore-")
    return status, {p["id"] for p in problems if p["severity"] != "note" and p["id"].startswith(about)} - {PERIOD}


PERIOD = "checkpoint-period"
"""About the run's own saves."""


@pytest.mark.parametrize("case", WRONG)
def test_check_reports_each_unfit_checkpoint_by_its_own_id(
    stores: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    changes, name = WRONG[case]
    assert told(capsys, "check", local(stores, changes)) == (2, {f"checkpoint-{name}"})


@pytest.mark.parametrize("case", ["another model", "a torn save in a bucket"])
def test_submit_refuses_an_unfit_checkpoint(stores: Path, capsys: pytest.CaptureFixture[str], case: str) -> None:
    """Any error refuses a submission."""
    changes, name = WRONG[case]
    assert main(("submit", local(stores, changes))) == 2
    assert f"checkpoint-{name}" in capsys.readouterr().err


def test_plan_refuses_an_unfit_checkpoint(stores: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`submit` makes the same plan."""
    changes, name = WRONG["another model"]
    assert main(("plan", local(stores, changes))) == 2
    assert f"checkpoint-{name}" in capsys.readouterr().out


@pytest.mark.parametrize("item", [CONVERTED, f"{TRAINED}/model_params"])
def test_check_accepts_a_fitting_checkpoint(stores: Path, capsys: pytest.CaptureFixture[str], item: str) -> None:
    assert told(capsys, "check", local(stores, {"model": {"checkpoint": item}})) == (0, set())


@pytest.mark.parametrize(("rank", "ids"), [(4, set()), (8, {"lora-restore-rank"})])
def test_check_compares_the_rank_of_restored_adapters(
    stores: Path, capsys: pytest.CaptureFixture[str], rank: int, ids: set[str]
) -> None:
    lora = {"rank": rank, "alpha": 8, "restore_path": LORA}
    changes = {"model": {"checkpoint": CONVERTED}, "lora": lora, "train": {"weight_dtype": "bfloat16"}}
    assert told(capsys, "check", local(stores, changes)) == (2 if ids else 0, ids)


@pytest.fixture
def bucket(stores: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    files = {str(file.relative_to(stores)): file.read_bytes() for file in stores.rglob("*") if file.is_file()}
    with serving(Bucket(files)) as served:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", served.url)
        yield served


@pytest.mark.parametrize(
    ("base", "ids"), [(GOOD, set()), (FLAGSHIP, {"checkpoint-ocdbt", "checkpoint-zarr3", "checkpoint-axis"})]
)
def test_check_judges_a_checkpoint_in_a_bucket_for_each_mode(
    stores: Path, bucket: Bucket, capsys: pytest.CaptureFixture[str], base: Mapping[str, Any], ids: set[str]
) -> None:
    file = written(stores, base, {"model": {"checkpoint": f"gs://my-bucket/{CONVERTED}"}})
    assert told(capsys, "check", file)[1] == ids
    assert not any("/d/" in line and int(line.rpartition(" ")[2]) > 5_000 for line in bucket.asked)
