from __future__ import annotations

from typing import Any

import pytest

from tests.everything import everything
from xsft.catalog.releases import versions
from xsft.checks.facts import Facts
from xsft.spec.resolve import resolve
from xsft.trainer.arguments import conversion_argv

FROM_HUB: dict[str, Any] = {"model__checkpoint": None, "model__hf": {"repo": "Qwen/Qwen3-8B"}}


def _argv(**fields: Any) -> tuple[str, ...]:
    run, _ = resolve(everything(**{**FROM_HUB, **fields}), Facts())
    return conversion_argv(run) or ()


def test_conversion_argv_of_current_release() -> None:
    assert _argv() == (
        *("python3", "-m", "maxtext.checkpoint_conversion.to_maxtext"),
        *("model_name=qwen3-8b", "base_output_directory=gs://my-bucket/runs/converted/qwen3-8b-f72c94289846"),
        *("scan_layers=True", "use_multimodal=False", "hardware=cpu"),
        *("checkpoint_storage_use_zarr3=False", "checkpoint_storage_use_ocdbt=False"),
        *("skip_jax_distributed_system=True", "--save_dtype=bfloat16"),
    )


def test_conversion_argv_of_legacy_release() -> None:
    assert _argv(image__maxtext="tutorial-v1.5.0") == (
        *("python3", "-m", "MaxText.utils.ckpt_conversion.to_maxtext", "src/MaxText/configs/base.yml"),
        *("model_name=qwen3-8b", "hf_access_token=none"),
        *("base_output_directory=gs://my-bucket/runs/converted/qwen3-8b-b93febfd06a6", "scan_layers=True"),
        *("checkpoint_storage_use_zarr3=False", "checkpoint_storage_use_ocdbt=False"),
        *("skip_jax_distributed_system=True", "--lazy_load_tensors=True"),
    )


@pytest.mark.parametrize(
    ("version", "lazy"),
    [("0.1.0", False), ("tutorial-v1.0.0", False), ("tutorial-v1.3.0", True), ("0.2.2", True), ("0.2.3", False)],
)
def test_lazy_loading_is_passed_where_supported_and_not_the_default(version: str, lazy: bool) -> None:
    assert ("--lazy_load_tensors=True" in _argv(image__maxtext=version)) is lazy


def test_a_model_of_images_and_text_is_converted_whole_and_not_lazily() -> None:
    argv = _argv(model__name="qwen3-vl-2b", model__hf={"repo": "Qwen/Qwen3-VL-2B-Instruct"}, model__scan_layers=False)
    assert "--lazy_load_tensors=False" in argv
    assert not any(argument.startswith("use_multimodal=") for argument in argv)


@pytest.mark.parametrize("version", versions())
@pytest.mark.parametrize("mode", ["mcjax", "pathways"])
def test_conversion_writes_checkpoints_that_both_modes_read(version: str, mode: str) -> None:
    argv = _argv(image__maxtext=version, mode=mode)
    assert {"checkpoint_storage_use_zarr3=False", "checkpoint_storage_use_ocdbt=False"} <= set(argv)


@pytest.mark.parametrize(
    "fields", [{"model__hf": None}, {"model__hf": None, "model__checkpoint": "gs://my-bucket/0/items"}]
)
def test_nothing_is_converted_without_weights_from_the_hub(fields: dict[str, Any]) -> None:
    assert _argv(**fields) == ()


def test_conversion_writes_the_checkpoint_that_the_trainer_reads() -> None:
    run, _ = resolve(everything(**FROM_HUB), Facts())
    (directory,) = [a.partition("=")[2] for a in conversion_argv(run) or () if a.startswith("base_output_directory=")]
    assert run.checkpoint == f"{directory}/0/items"


@pytest.mark.parametrize(("scan", "argument"), [(None, "True"), (True, "True"), (False, "False")])
def test_conversion_uses_scan_layers_and_axis_of_the_trainer(scan: bool | None, argument: str) -> None:
    argv = _argv(model__scan_layers=scan, overrides__maxtext={"param_scan_axis": 0})
    assert f"scan_layers={argument}" in argv
    assert "param_scan_axis=0" in argv


@pytest.mark.parametrize(
    ("hf", "flags"),
    [
        ({"repo": "Qwen/Qwen3-8B"}, ()),
        ({"repo": "my-org/my-qwen"}, ("--hf_model_path=my-org/my-qwen",)),
        ({"repo": "Qwen/Qwen3-8B", "revision": "v1"}, ("--revision=v1",)),
    ],
)
def test_conversion_names_other_weights_and_a_revision(hf: dict[str, str], flags: tuple[str, ...]) -> None:
    argv = _argv(model__hf=hf)
    assert argv[argv.index("--save_dtype=bfloat16") + 1 :] == flags


@pytest.mark.parametrize(
    ("name", "own_sizes", "sized"),
    [
        ("llama3.1-8b", {"head_dim": 64}, True),
        ("llama3.1-8b", {"head_dim": 128, "param_scan_axis": 0}, False),
        ("gemma2-2b", {"base_emb_dim": 64}, True),
        ("qwen3-8b", {"base_emb_dim": 64}, False),
        ("qwen3-8b", {"base_num_decoder_layers": 2}, True),
    ],
)
def test_converter_gets_sizes_that_it_would_take_from_the_named_model(
    name: str, own_sizes: dict[str, Any], sized: bool
) -> None:
    argv = _argv(model__name=name, overrides={"maxtext": own_sizes})
    program, module = argv[1], argv[argv.index("model_name=" + name) - 1]
    assert (program == "-c", module) == (sized, "maxtext.checkpoint_conversion.to_maxtext")
