"""Adapters that a LoRA run resumes from; the small files were written by Tunix for a tiny qwen3."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests import hfmodels
from tests.checkpoints import unpacked
from tests.checks.factory import DROP, ids, problems, spec
from xsft.base.acceptance import for_submission
from xsft.checks.facts import Facts
from xsft.checks.lora import check_adapters as check
from xsft.spec.facts import CheckpointFacts, SavedArray
from xsft.spec.model import WorkloadSpec
from xsft.weights.read_checkpoint import read_checkpoint

PATH = "gs://my-bucket/runs/qwen-lora/checkpoints/2/model_params"
MODULES = "decoder/layers/.*(self_attention/(query|key|value|out)|mlp/(wi_0|wi_1|wo))"
LORA = {"rank": 4, "alpha": 8, "module_path": MODULES, "restore_path": PATH}
SIZES = {**hfmodels.SIZES, "base_num_decoder_layers": 6}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked("stores", tmp_path_factory.mktemp("stores"))


@pytest.fixture(scope="module")
def saved(stores: Path) -> Facts:
    return Facts(adapters=read_checkpoint(str(stores / "qwen3-lora" / "checkpoints" / "2" / "model_params")))


def tiny(lora: object = None, /, *, model: object = None, **sizes: object) -> WorkloadSpec:
    return spec(lora={**LORA, **(lora or {})}, model=model or {}, overrides={"maxtext": {**SIZES, **sizes}})  # type: ignore[dict-item]


def test_matching_adapters_are_accepted(saved: Facts) -> None:
    assert ids(check, tiny(), saved) == set()
    assert ids(check, tiny({"module_path": DROP}), saved) == set()
    assert ids(check, tiny({"module_path": "(broken"}), saved) == {"lora-module-none"}
    assert ids(check, spec(), saved) == set()
    assert ids(check, tiny({"restore_path": "/in/the/image"}), Facts()) == set()


def test_adapters_of_another_rank_are_refused(saved: Facts) -> None:
    (reported,) = problems(check, tiny({"rank": 8}), saved)
    assert (reported.id, reported.severity, reported.where) == ("lora-restore-rank", "error", "lora.restore_path")
    assert reported.fix == "Set lora.rank: 4"


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        ("decoder/layers/.*self_attention/(query|key)", "5 would be dropped, e.g. decoder.layers.mlp.wi_0.kernel"),
        ("decoder/.*", ""),
    ],
)
def test_adapters_of_other_modules_are_a_disputable_error(saved: Facts, modules: str, message: str) -> None:
    reported = problems(check, tiny({"module_path": modules}), saved)
    assert [(problem.id, problem.kind) for problem in reported] == (
        [("lora-restore-modules", "disputable")] if message else []
    )
    assert all(message in problem.message for problem in reported)


def test_module_without_saved_adapters_is_reported(saved: Facts) -> None:
    assert saved.adapters is not None
    some = tuple(array for array in saved.adapters.arrays if "wo" not in array.path)
    (reported,) = problems(check, tiny(), Facts(adapters=replace(saved.adapters, arrays=some)))
    assert (reported.id, "1 are missing, e.g. decoder.layers.mlp.wo.kernel" in reported.message) == (
        "lora-restore-modules",
        True,
    )


@pytest.mark.parametrize(
    "key", ["base_emb_dim", "base_num_query_heads", "base_num_kv_heads", "head_dim", "base_mlp_dim"]
)
def test_adapters_of_another_model_size_are_refused(saved: Facts, key: str) -> None:
    assert ids(check, tiny(**{key: 2 * int(SIZES[key])}), saved) == {"lora-restore-model"}


def test_adapters_of_another_model_or_layout_are_refused(saved: Facts) -> None:
    assert ids(check, tiny(model={"name": "mixtral-8x7b"}), saved) == {"lora-restore-model"}
    (reported,) = problems(check, tiny(model={"scan_layers": False}), saved)
    assert reported.id == "lora-restore-model"
    assert "the model has no decoder.layers.mlp.wi_0.kernel" in reported.message


def test_checkpoint_without_adapters_is_refused(stores: Path) -> None:
    for item in ("qwen3-trained/checkpoints/2/model_params", "qwen3-trained/checkpoints/2/optimizer_state"):
        facts = Facts(adapters=read_checkpoint(str(stores / item)))
        assert ids(check, tiny(), facts) == {"lora-restore-path"}


def test_fix_corrects_a_path_at_a_wrong_level(stores: Path) -> None:
    folder = stores / "qwen3-lora" / "checkpoints" / "2"
    for path in (folder, folder.parent, folder / "items", folder.parent / "3" / "model_params"):
        (reported,) = problems(check, tiny(), Facts(adapters=read_checkpoint(str(path))))
        assert (reported.id, reported.fix) == ("lora-restore-path", f"Set lora.restore_path: {folder}/model_params")


def test_torn_save_of_adapters_is_refused(stores: Path) -> None:
    torn = stores / "torn" / "checkpoints" / "2.orbax-checkpoint-tmp" / "model_params"
    assert ids(check, tiny(), Facts(adapters=read_checkpoint(str(torn)))) == {"lora-restore-torn"}


def test_unread_adapters_are_an_error_at_submission() -> None:
    unread = Facts(adapters=CheckpointFacts(path=PATH, status="unreadable", detail="no login was found."))
    for given in (unread, Facts()):
        reported = problems(check, tiny(), given)
        assert [problem.id for problem in reported] == ["lora-restore-unread"]
        assert [problem.severity for problem in for_submission(reported)] == ["error"]


def test_unknown_shapes_are_not_compared(saved: Facts) -> None:
    """Without OCDBT four arrays are read, and devices hold copies of adapters."""
    assert saved.adapters is not None
    bare = tuple(SavedArray(path=array.path) for array in saved.adapters.arrays)
    unknown = Facts(adapters=replace(saved.adapters, arrays=bare))
    assert ids(check, tiny({"rank": 8}, base_emb_dim=128), unknown) == set()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("model.layers.*.q_proj", {"lora-module-none"}),
        ("decoder/layers/(", {"lora-module-none"}),
        ("query", {"lora-module-none"}),
        (".*query", set()),
        ("decoder/layers/.*mlp/(wi_0|wi_1|wo)", set()),
    ],
)
def test_module_path_without_a_match_is_refused(path: str, expected: set[str]) -> None:
    assert ids(check, spec(lora={"rank": 8, "alpha": 16, "module_path": path})) == expected
    assert ids(check, spec(lora={"rank": 8, "alpha": 16, "module_path": path}, model={"name": "a-model"})) <= expected


def test_patterns_of_exponential_time_are_refused() -> None:
    pattern = "([a-z0-9_/]+)+!"
    lora = problems(check, spec(lora={"rank": 8, "alpha": 16, "module_path": pattern}))
    mask = problems(check, spec(overrides={"maxtext": {"trainable_parameters_mask": [pattern]}}))
    assert [p.id for p in (*lora, *mask)] == ["lora-module-none", "mask-freezes-all"]
    assert all("too much time or memory" in p.message for p in (*lora, *mask))


@pytest.mark.parametrize(
    ("mask", "expected"),
    [(["q_proj"], {"mask-freezes-all"}), (["("], {"mask-freezes-all"}), (["x", "mlp/wo"], set()), ([], set())],
)
def test_mask_that_freezes_everything_is_refused(mask: list[str], expected: set[str]) -> None:
    assert ids(check, spec(overrides={"maxtext": {"trainable_parameters_mask": mask}})) == expected
