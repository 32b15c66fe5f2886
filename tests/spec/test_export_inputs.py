"""The digest of an export: it covers the inputs that decide the exported bytes, and nothing else."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from xsft.spec.export_inputs import ExportInputs, content_of, directory_of

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


PATHS = {"weights", "base", "source"}
"""Fields that say where the inputs are: folders may move, and the training's digest covers its source."""


@pytest.mark.parametrize("field", ExportInputs.__struct_fields__)
def test_each_field_but_the_paths_changes_the_digest(field: str) -> None:
    other = replace(INPUTS, **{field: "another"})
    assert (other.digest == INPUTS.digest) == (field in PATHS)


def test_moved_weights_keep_the_folder_of_the_export() -> None:
    moved = replace(INPUTS, weights="/moved/tiny/checkpoints/2/model_params", base="/moved/0/items")
    assert directory_of(moved, output="/out/") == directory_of(INPUTS, output="/out")
    assert directory_of(INPUTS, output="/out") == f"/out/tiny-export/{INPUTS.digest[:12]}"


def test_content_changes_with_the_saved_files() -> None:
    first, second = {"_METADATA": b"1", "manifest.ocdbt": b"1"}, {"_METADATA": b"1", "manifest.ocdbt": b"2"}
    assert content_of(first) == content_of(dict(first)) != content_of(second)
