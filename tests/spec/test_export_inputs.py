"""The digest of an export: it covers the inputs that decide the exported bytes, and nothing else."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from xsft.spec.export_inputs import ExportInputs, LoraScale, content_of, directory_of

INPUTS = ExportInputs(
    training="tiny",
    training_digest="a" * 64,
    step=2,
    weights="/out/tiny/checkpoints/2/model_params",
    content="b" * 64,
    form="full",
    dtype="bfloat16",
    release="0.2.5",
    model="qwen3-0.6b",
    keys=("scan_layers=True",),
    base="/out/converted/0/items",
    tokenizer="/model",
)


@pytest.mark.parametrize(
    "change",
    [
        {"step": 4},
        {"content": "c" * 64},
        {"form": "merged"},
        {"dtype": "float32"},
        {"keys": ("scan_layers=False",)},
        {"template": "{{ messages }}"},
        {"pad_token": "<pad>"},
        {"lora": LoraScale(rank=4, alpha=8)},
    ],
)
def test_each_input_that_changes_the_bytes_changes_the_folder(change: dict[str, object]) -> None:
    other = replace(INPUTS, **change)
    assert directory_of(other, output="/out") != directory_of(INPUTS, output="/out")


def test_moved_weights_keep_the_folder_of_the_export() -> None:
    moved = replace(INPUTS, weights="/moved/tiny/checkpoints/2/model_params", base="/moved/0/items")
    assert directory_of(moved, output="/out/") == directory_of(INPUTS, output="/out")
    assert directory_of(INPUTS, output="/out") == f"/out/tiny-export/{INPUTS.digest[:12]}"


def test_content_changes_with_the_saved_files() -> None:
    first, second = {"_METADATA": b"1", "manifest.ocdbt": b"1"}, {"_METADATA": b"1", "manifest.ocdbt": b"2"}
    assert content_of(first) == content_of(dict(first)) != content_of(second)
