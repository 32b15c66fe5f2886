"""A checkpoint must hold the model that the workload names; the small files are those of real checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.checkpoints import unpacked
from tests.checks.factory import FLAGSHIP, ids, problems, spec
from xsft.base.acceptance import accept_problems
from xsft.catalog.arrays import ArrayLayout, required
from xsft.catalog.models import names
from xsft.checks.checkpoint import check_weights as check
from xsft.checks.facts import Facts
from xsft.spec.facts import CheckpointFacts, SavedArray
from xsft.spec.model import WorkloadSpec
from xsft.weights.checkpoint_report import models, weights
from xsft.weights.read_checkpoint import read_checkpoint

SIZES = {
    "base_emb_dim": 64,
    "base_num_query_heads": 4,
    "base_num_kv_heads": 2,
    "head_dim": 16,
    "base_mlp_dim": 128,
    "vocab_size": 512,
}
QWEN = ("qwen3", "qwen3-ocdbt-zarr3", "qwen3-axis0", "qwen3-unscanned")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked("recorded", tmp_path_factory.mktemp("checkpoints"))


def converted(recorded: Path, name: str) -> Facts:
    return whole(recorded / name / "0" / "items")


@cache
def whole(folder: Path) -> Facts:
    """Return the facts of the checkpoint as if its arrays, which were not recorded, were in the folder."""
    return Facts(checkpoint=replace(read_checkpoint(str(folder)), status="read", detail=""))


def tiny(**changed: object) -> WorkloadSpec:
    return spec(overrides={"maxtext": {"override_model_config": True, **SIZES, **changed}})


def test_weights_in_a_separate_collection_are_refused() -> None:
    wanted = required("deepseek3-671b", {}, layout=ArrayLayout(axis=0))
    assert wanted is not None
    paths = {name: ("params", "params", *name.split(".")) for name in wanted.arrays}
    good = [SavedArray(path=path, piece=wanted.arrays[name]) for name, path in paths.items()]
    split = [replace(a, path=("params", "MoEBiasVar", *a.path[2:])) if a.path[-1] == "bias" else a for a in good]
    assert ids(check, spec(FLAGSHIP), _holding(good)) == set()
    assert ids(check, spec(FLAGSHIP), _holding(split)) == {"checkpoint-collection"}


def _holding(arrays: list[SavedArray]) -> Facts:
    return Facts(
        checkpoint=CheckpointFacts(path="gs://b/0/items", status="read", param_scan_axis=0, arrays=tuple(arrays))
    )


@pytest.mark.parametrize("name", QWEN)
def test_checkpoint_of_the_converted_model_is_accepted(recorded: Path, name: str) -> None:
    assert ids(check, tiny(), converted(recorded, name)) == set()


@pytest.mark.parametrize("name", QWEN)
@pytest.mark.parametrize("key", [*SIZES, "base_num_decoder_layers"])
def test_checkpoint_of_any_other_size_is_refused(recorded: Path, name: str, key: str) -> None:
    other = tiny(**{key: 2 * SIZES.get(key, 28)})
    assert ids(check, other, converted(recorded, name)) == {"checkpoint-model"}


@pytest.mark.parametrize("name", QWEN)
def test_tiny_checkpoint_is_refused_for_a_large_model(recorded: Path, name: str) -> None:
    (problem,) = problems(check, spec(FLAGSHIP), converted(recorded, name))
    assert (problem.id, problem.severity, problem.where) == ("checkpoint-model", "error", "model.checkpoint")
    assert "token_embedder.embedding is [512, 64] instead of [129280, 7168]" in problem.message
    assert ids(check, spec(), converted(recorded, name)) == {"checkpoint-model"}


def test_checkpoints_saved_by_training_are_checked_by_their_item(recorded: Path) -> None:
    def saved(run: str, item: str) -> Facts:
        return whole(recorded / run / "checkpoints" / "2" / item)

    sizes = {**SIZES, "decoder_block": "llama2", "base_num_decoder_layers": 2, "override_model_config": True}
    llama = spec(model={"name": "default"}, overrides={"maxtext": sizes})
    assert ids(check, llama, saved("tiny-local", "model_params")) == set()
    assert ids(check, tiny(), saved("tiny-local", "model_params")) == {"checkpoint-model"}
    assert ids(check, llama, saved("tiny-local", "optimizer_state")) == {"checkpoint-optimizer"}
    assert ids(check, llama, saved("tiny-lora", "model_params")) == {"checkpoint-adapters"}


def full(name: str, *, layout: ArrayLayout | None = None, given: Mapping[str, Any] | None = None) -> Facts:
    """Return the facts of a conversion of the model itself, written in one piece."""
    here = layout or ArrayLayout()
    wanted = required(name, given or {}, layout=here)
    assert wanted is not None
    arrays = tuple(
        SavedArray(path=("params", "params", *array.split(".")), piece=shape, ways=(1,) * len(shape))
        for array, shape in wanted.arrays.items()
    )
    axis = here.axis if here.scan else None
    checkpoint_facts = CheckpointFacts(
        path="gs://b/0/items", status="read", scan_layers=here.scan, param_scan_axis=axis, arrays=arrays
    )
    return Facts(checkpoint=checkpoint_facts)


@pytest.mark.parametrize("name", ["deepseek3-671b", "gemma2-2b", "qwen3-0.6b", "llama3.1-8b", "gpt-oss-20b"])
def test_checkpoint_is_accepted_in_every_layout_for_its_model_only(name: str) -> None:
    for layout in (ArrayLayout(), ArrayLayout(axis=0), ArrayLayout(scan=False)):
        assert ids(check, spec(model={"name": name}), full(name, layout=layout)) == set()
        assert ids(check, spec(model={"name": "mistral-7b"}), full(name, layout=layout)) == {"checkpoint-model"}


def test_override_that_does_not_fit_the_checkpoint_is_named() -> None:
    """`override_model_config` turns MaxText's own comparison off."""
    other = spec(
        model={"name": "llama3.1-8b"}, overrides={"maxtext": {"override_model_config": True, "vocab_size": 128264}}
    )
    (problem,) = problems(check, other, full("llama3.1-8b"))
    assert (problem.id, problem.where) == ("checkpoint-model", "overrides.maxtext.vocab_size")
    assert "[128256, 4096] instead of [128264, 4096]" in problem.message


def test_fix_names_the_model_of_the_checkpoint() -> None:
    (problem,) = problems(check, spec(model={"name": "qwen3-4b"}), full("qwen3-8b"))
    assert "It holds qwen3-8b" in problem.fix


def test_checkpoint_with_more_layers_than_the_model_is_refused() -> None:
    longer = full("qwen3-0.6b", layout=ArrayLayout(scan=False), given={"base_num_decoder_layers": 30})
    assert ids(check, spec(), longer) == {"checkpoint-model"}


def test_unknown_array_names_and_releases_are_not_checked() -> None:
    fused = spec(overrides={"maxtext": {"fused_qkv": True}})
    assert ids(check, fused, full("qwen3-0.6b")) == set()
    assert ids(check, spec(), Facts(checkpoint=CheckpointFacts(path="gs://b", status="read"))) == set()
    old = spec(image={"maxtext": "tutorial-v1.5.0"})
    assert ids(check, old, full("qwen3-0.6b")) == set()
    assert ids(check, old, full("deepseek3-671b")) == {"checkpoint-model"}


def test_wrong_checkpoint_can_be_accepted_by_id() -> None:
    """An image may hold a changed MaxText."""
    reported = problems(check, spec(), full("qwen3-8b"))
    assert [p.severity for p in accept_problems(reported, {"checkpoint-model": "our fork names them so"})] == ["note"]


def test_each_model_of_the_catalogue_is_recognised() -> None:
    for name in names():
        facts = full(name)
        assert facts.checkpoint is not None
        held = weights(facts.checkpoint.arrays)
        wanted = required(name, {}, layout=ArrayLayout())
        assert wanted is not None
        assert name in models(held, (ArrayLayout(),)) or not wanted.complete, name
