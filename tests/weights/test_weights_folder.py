"""A folder of Hugging Face weights: identified by its content, and refused before anything runs."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.hfmodels import VOCAB, write_model, write_safetensors
from xsft.spec.facts import SourceFacts
from xsft.weights.weights_folder import file_digest, read_folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model")


def _read(folder: Path) -> SourceFacts:
    return read_folder(str(folder), cache=folder.parent / "cache")


def _ids(source_facts: SourceFacts) -> list[str]:
    return [problem.id for problem in source_facts.problems]


def test_a_complete_model_has_content_size_and_vocabulary(model: Path) -> None:
    source_facts = _read(model)
    assert (source_facts.problems, source_facts.quantized, source_facts.vocabulary) == ((), "", VOCAB)
    assert source_facts.content is not None
    assert source_facts.weights_bytes == (model / "model.safetensors").stat().st_size


def test_the_content_digest_is_equal_for_a_copy_and_differs_for_another_byte(model: Path) -> None:
    before = _read(model).content
    copy = Path(shutil.copytree(model, model.with_name("copy")))
    (copy / "README.md").write_text("read by nobody")
    assert _read(copy).content == before
    file = copy / "model.safetensors"
    content, status = bytearray(file.read_bytes()), file.stat()
    content[-1] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))  # as `rsync --times` leaves it
    assert _read(copy).content != before


def test_a_digest_is_cached_until_the_file_changes(tmp_path: Path) -> None:
    file, cache = tmp_path / "file", tmp_path / "cache"
    file.write_bytes(b"one")
    first = file_digest(file, cache=cache)
    (path,) = (cache / "weights").iterdir()
    path.write_text(path.read_text().replace(first, "f" * 64))
    assert file_digest(file, cache=cache) == "f" * 64
    path.write_text("torn")
    assert file_digest(file, cache=cache) == first


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((), "nothing"),
        (("config.json",), "it contains config.json"),
        (("config.json", "pytorch_model.bin"), "pytorch_model.bin"),
        (("_METADATA",), "_METADATA"),
    ],
)
def test_a_folder_without_safetensors_is_invalid(tmp_path: Path, names: tuple[str, ...], message: str) -> None:
    for name in names:
        (tmp_path / name).write_text("{}")
    (problem,) = _read(tmp_path).problems
    assert problem.id == "hf-folder-invalid"
    assert message in problem.message
    assert problem.fix


def test_a_missing_folder_is_hf_folder_missing_and_an_impossible_path_invalid(tmp_path: Path) -> None:
    assert _ids(_read(tmp_path / "none")) == ["hf-folder-missing"]
    assert _ids(_read(tmp_path / ("a" * 300))) == ["hf-folder-invalid"]


def test_a_truncated_file_is_named_in_the_words_of_safetensors(model: Path) -> None:
    file = model / "model.safetensors"
    for size, words in ((file.stat().st_size - 1, "file not fully covered"), (5, "header too small")):
        os.truncate(file, size)
        (problem,) = _read(model).problems
        assert problem.id == "hf-folder-invalid"
        assert "model.safetensors: Error while deserializing header: " in problem.message
        assert words in problem.message


def test_a_pipe_in_place_of_the_weights_is_missing_and_does_not_block(model: Path) -> None:
    (model / "model.safetensors").unlink()
    os.mkfifo(model / "model.safetensors")
    assert _ids(_read(model)) == ["hf-folder-incomplete"]


def test_a_missing_shard_of_the_index_is_named(model: Path) -> None:
    index = {"weight_map": {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    (problem,) = _read(model).problems
    assert (problem.id, "model-00002-of-00002.safetensors is missing" in problem.message) == (
        "hf-folder-incomplete",
        True,
    )


@pytest.mark.parametrize("index", [{}, {"weight_map": {}}, {"weight_map": ["model.safetensors"]}])
def test_an_index_without_arrays_is_incomplete(model: Path, index: dict[str, Any]) -> None:
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    assert _ids(_read(model)) == ["hf-folder-incomplete"]


@pytest.mark.parametrize("size", ["1e400", "-1e400", "null", "1" * 5000])
def test_a_header_with_an_impossible_offset_is_invalid(model: Path, size: str) -> None:
    text = f'{{"a": {{"dtype": "BF16", "shape": [2], "data_offsets": [0, {size}]}}}}'.encode()
    (model / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text)
    assert _ids(_read(model)) == ["hf-folder-invalid"]


def test_weights_without_an_array_are_incomplete(model: Path) -> None:
    (model / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    assert _ids(_read(model)) == ["hf-folder-incomplete"]


@pytest.mark.parametrize("text", ["", "[]", "{", "\x00"])
def test_a_broken_config_json_is_invalid(model: Path, text: str) -> None:
    (model / "config.json").write_text(text)
    assert _ids(_read(model)) == ["hf-folder-invalid"]


@pytest.mark.parametrize(
    "config",
    [{"quantization_config": {"quant_method": "fp8"}}, {"text_config": {"quantization_config": {"bits": 4}}}],
)
def test_a_quantization_config_means_quantised(tmp_path: Path, config: dict[str, Any]) -> None:
    assert "quantization_config" in _read(write_model(tmp_path / "fp8", config=config)).quantized


@pytest.mark.parametrize("name", ["model.layers.0.mlp.up_proj.weight_scale_inv", "x.down_proj_scales", "x.qweight"])
def test_arrays_of_scales_mean_quantised(model: Path, name: str) -> None:
    write_safetensors(model / "extra.safetensors", {name: np.ones((1, 1), np.float32)}, dtype="F32")
    assert name in _read(model).quantized


@pytest.mark.parametrize("dtype", ["F8_E4M3", "F8_E5M2", "I8"])
def test_arrays_of_8_or_4_bits_mean_quantised(tmp_path: Path, dtype: str) -> None:
    assert dtype in _read(write_model(tmp_path / "narrow", dtype=dtype)).quantized


def test_reading_reports_progress(model: Path) -> None:
    amounts: list[tuple[int, int]] = []
    read_folder(str(model), cache=model.parent / "cache", on_read=lambda done, of: amounts.append((done, of)))
    size = sum((model / name).stat().st_size for name in ("config.json", "model.safetensors"))
    assert amounts[-1] == (size, size)
    assert [done for done, _ in amounts] == sorted(done for done, _ in amounts)
