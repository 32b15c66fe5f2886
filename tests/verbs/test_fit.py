"""`xsft fit` where no compiler is needed: arithmetic, the catalogue, what is kept; and how an answer reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.documents import read_document
from tests.inprocess import xsft
from tests.verbs.test_fit_text import NO
from xsft.base.errors import SpecError
from xsft.fit.cache import compiler_versions, fit_cache
from xsft.fit.trainer_step import step_to_compile
from xsft.fit.verdict import CompiledStep
from xsft.planning import api

WORKLOADS = Path(__file__).parents[2] / "workloads"


def on_a_cluster() -> list[str]:
    return sorted(str(path) for path in WORKLOADS.glob("*.yaml") if "target: local" not in path.read_text())


def test_every_cluster_workload_fits_by_the_catalogue() -> None:
    done = xsft("fit", *on_a_cluster(), "--json")
    fits = read_document("fit", done.stdout)["fits"]
    assert (done.returncode, len(fits)) == (0, 6)
    assert {(fit["verdict"], fit["source"]) for fit in fits} == {("fits", "catalogue")}


def test_fit_prints_a_matrix_of_types_and_slices() -> None:
    file = str(WORKLOADS / "llama31_lora.yaml")
    full = [f"--set={setting}" for setting in ("lora=null", "train.weight_dtype=float32")]
    done = xsft("fit", file, *full, "--types", "v6e-1,v6e-8", "--slices", "1")
    assert done.returncode == 2
    assert done.stdout.splitlines()[:4] == [
        "llama31-lora, GiB per chip: peak / sum",
        "                × 1",
        "v6e-1           NO ≥ 119.66",
        "v6e-8           FITS 17.86 / 18.51",
    ]


def test_a_cached_verdict_is_reported_by_check_and_refuses_a_submission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XSFT_CACHE_DIR", str(tmp_path))
    file, changes = str(WORKLOADS / "qwen3_gsm8k.yaml"), ("--set", "train.max_target_length=1536")
    (loaded,), _ = api.load_each([file], settings=changes[1:])
    step = step_to_compile(api.intend((loaded,))[0].run)
    assert step is not None
    fit_cache().keep(step, CompiledStep(verdict=NO, tokens=1536, versions=compiler_versions(), made_at="2026-11-23"))
    problems = json.loads(xsft("check", file, *changes, "--json").stdout)["problems"]
    assert [(problem["severity"], problem["where"]) for problem in problems if problem["id"] == "fit-refused"] == [
        ("error", "tpu")
    ]
    with pytest.raises(SpecError, match="fit-refused"):
        api.admitted_problems(api.intend((loaded,))[0].problems)
    assert xsft("fit", file, *changes).stdout.startswith("qwen3-gsm8k: NO, does not fit v6e-8 × 1: needs 33.50 GiB")


def test_a_workload_that_arithmetic_refuses_exits_2() -> None:
    file = str(WORKLOADS / "llama31_lora.yaml")
    done = xsft("fit", file, "--set", "train.weight_dtype=float32")
    assert done.returncode == 2
    assert "llama31-lora: INVALID on v6e-8 × 1: train.weight_dtype: LoRA with float32 weights" in done.stdout
    assert "  fix: Set train.weight_dtype: bfloat16.\n  Decided by arithmetic, without the compiler.\n" in done.stdout


def test_fit_refuses_a_local_workload() -> None:
    done = xsft("fit", str(WORKLOADS / "tiny_local.yaml"), "--json")
    assert done.returncode == 2
    assert [problem["id"] for problem in json.loads(done.stdout)["problems"]] == ["fit-no-step"]
