"""The real TPU compiler compiles a tiny model's step for a slice, on a machine without a TPU and without a network."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.documents import read_document
from tests.inprocess import xsft
from xsft.environments.installed import BuiltEnvironment
from xsft.fit.cache import FitCache
from xsft.fit.compile import CompileShop, compile_step
from xsft.fit.step import StepToCompile
from xsft.fit.verdict import Fits, Invalid

TINY = StepToCompile(
    topology="v6e-8",
    num_slices=1,
    devices_per_chip=1,
    arguments=(
        "base_emb_dim=256",
        "base_mlp_dim=512",
        "base_num_decoder_layers=2",
        "base_num_kv_heads=2",
        "base_num_query_heads=2",
        "head_dim=128",
        "model_name=default",
        "override_model_config=True",
        "per_device_batch_size=1",
        "vocab_size=1024",
    ),
    tokens=512,
)
SMALL = ("override_model_config=true", "base_num_decoder_layers=2", "base_emb_dim=256", "vocab_size=1024")
OUTSIDE = (Path("/tmp/tpu_logs"), Path("/tmp/libtpu_lockfile"))
"""What libtpu writes unless told otherwise. source: aot_fit.md §1"""


@pytest.fixture
def shop(tmp_path: Path, tpu_compiler: BuiltEnvironment) -> CompileShop:
    return CompileShop(
        environment=tpu_compiler,
        cache=FitCache(folder=tmp_path / "fit"),
        env={"PATH": os.environ["PATH"]},
        say=lambda _line: None,
        free_gib=lambda: 64.0,
    )


@pytest.mark.maxtext
@pytest.mark.contract
def test_a_step_is_compiled_and_its_memory_told(shop: CompileShop) -> None:
    before = [path.exists() for path in OUTSIDE]
    lines: list[str] = []
    compiled_step = compile_step(TINY, needed_gib=4.0, shop=replace(shop, say=lines.append))
    assert isinstance(compiled_step.verdict, Fits)
    assert (compiled_step.verdict.limit_gib, compiled_step.verdict.by is not None) == (31.24, True)
    parts = compiled_step.verdict.by
    assert parts is not None
    assert parts.optimizer == pytest.approx(2 * parts.weights, rel=0.1), "AdamW's two moments in float32"
    assert parts.buffers, "the largest buffers are named"
    assert [line.partition(" ")[0] for line in lines] == [
        "importing",
        "configuring",
        "tracing",
        "lowering",
        "compiling",
    ]
    assert [path.exists() for path in OUTSIDE] == before, "nothing is written outside the cache"
    assert list((shop.cache.folder / "scratch").iterdir()) == []


@pytest.mark.maxtext
@pytest.mark.contract
def test_a_small_workload_fits_and_its_verdict_is_kept(
    tmp_path: Path, tpu_compiler: BuiltEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "envs").symlink_to(tpu_compiler.folder.parent)
    monkeypatch.setenv("XSFT_CACHE_DIR", str(tmp_path))
    workload = str(Path(__file__).parents[2] / "workloads" / "qwen3_gsm8k.yaml")
    made_small = [f"--set=overrides.maxtext.{key}" for key in SMALL]
    for source in ("compiler", "cache"):
        done = xsft("fit", workload, *made_small, "--json")
        (fit,) = read_document("fit", done.stdout)["fits"]
        assert (done.returncode, fit["verdict"], fit["source"]) == (0, "fits", source)


@pytest.mark.maxtext
@pytest.mark.contract
def test_the_step_of_an_evaluation_has_no_gradients(shop: CompileShop) -> None:
    compiled_step = compile_step(replace(TINY, kind="eval"), needed_gib=4.0, shop=shop)
    assert isinstance(compiled_step.verdict, Fits)
    assert compiled_step.verdict.by is not None
    assert compiled_step.verdict.by.gradients < 0.001
    assert compiled_step.verdict.by.optimizer == pytest.approx(2 * compiled_step.verdict.by.weights, rel=0.1), (
        "it stays on the device"
    )


@pytest.mark.maxtext
@pytest.mark.contract
def test_a_slice_that_maxtext_lacks_is_invalid(shop: CompileShop) -> None:
    compiled_step = compile_step(replace(TINY, topology="v6e-512"), needed_gib=4.0, shop=shop)
    assert isinstance(compiled_step.verdict, Invalid)
    assert compiled_step.verdict.because.where == "tpu.type"
    assert compiled_step.verdict.because.fix == "Use one that it has: v6e-256, v6e-128, v6e-64."
