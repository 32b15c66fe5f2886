from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from xsft.spec.conversion_inputs import ConversionInputs, ConversionSource, directory_of

INPUTS = ConversionInputs(
    source=ConversionSource(repo="Qwen/Qwen3-0.6B"),
    model="qwen3-0.6b",
    release="0.2.5",
    scan_layers=True,
    param_scan_axis=1,
)
FIRST = "gs://b/converted/qwen3-0.6b-0954c894002f"


def _source(**fields: Any) -> ConversionInputs:
    return replace(INPUTS, source=replace(INPUTS.source, **fields))


def test_the_folder_is_named_by_the_model_and_the_digest() -> None:
    """A number that changed would leave every conversion of before unfound."""
    assert directory_of(INPUTS, output="gs://b/") == FIRST


@pytest.mark.parametrize(
    "other",
    [
        _source(repo="Qwen/Qwen3-0.6B-Base"),
        _source(revision="v1"),
        _source(content="a" * 64),
        replace(INPUTS, model="qwen3-1.7b"),
        replace(INPUTS, release="0.2.4"),
        replace(INPUTS, scan_layers=False),
        replace(INPUTS, param_scan_axis=0),
        replace(INPUTS, use_zarr3=True),
        replace(INPUTS, use_ocdbt=True),
        replace(INPUTS, dtype="float32"),
        replace(INPUTS, keys={"base_emb_dim": 64}),
        replace(INPUTS, sized=True),
    ],
    ids=[
        "repo",
        "revision",
        "content",
        "model",
        "release",
        "scan_layers",
        "param_scan_axis",
        "use_zarr3",
        "use_ocdbt",
        "dtype",
        "keys",
        "sized",
    ],
)
def test_every_input_of_the_result_changes_the_folder(other: ConversionInputs) -> None:
    assert other.digest != INPUTS.digest


def test_every_field_of_the_inputs_is_tested() -> None:
    """A field that is added must be in the list above."""
    assert set(INPUTS.__struct_fields__) == {
        *(
            "source",
            "model",
            "release",
            "scan_layers",
            "param_scan_axis",
            "use_zarr3",
            "use_ocdbt",
            "dtype",
            "keys",
            "sized",
        )
    }


@pytest.mark.parametrize("same", [_source(commit="c" * 40), _source(revision="main")], ids=["commit", "default branch"])
def test_answer_of_the_hub_does_not_change_the_digest(same: ConversionInputs) -> None:
    assert same.digest == INPUTS.digest


def test_folder_of_weights_is_identified_by_its_content_not_its_path() -> None:
    assert _source(repo="/a", content="c").digest == _source(repo="/b", content="c").digest


@pytest.mark.parametrize(
    ("fields", "pinned"),
    [({}, False), ({"revision": "v1"}, False), ({"revision": "c" * 40}, True), ({"repo": "/models/mine"}, True)],
)
def test_source_is_pinned_by_a_commit_or_a_folder(fields: dict[str, Any], pinned: bool) -> None:
    assert _source(**fields).source.pinned is pinned
