"""Shapes and dtypes from the files of the arrays, on this machine and in a bucket."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.checkpoints import unpacked
from tests.fakes.gcs import Bucket, serving
from xsft.machine.storage import LocalStorage
from xsft.records.record_files import record_store
from xsft.weights.inspect import inspect_checkpoint
from xsft.weights.read_arrays import read_arrays
from xsft.weights.read_checkpoint import read_checkpoint

CONVERTED, TRAINED, LORA = (
    "qwen3-converted/0/items",
    "qwen3-trained/checkpoints/2/model_params",
    "qwen3-lora/checkpoints/2/model_params",
)
PARAMETERS = {CONVERTED: 254_976, TRAINED: 254_976, LORA: 24_576}
DTYPES = {CONVERTED: ("float32",), TRAINED: ("float32",), LORA: ("bfloat16",)}


@pytest.fixture
def stores(tmp_path: Path) -> Path:
    return unpacked("stores", tmp_path)


@pytest.fixture
def bucket(stores: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    files = {str(file.relative_to(stores)): file.read_bytes() for file in stores.rglob("*") if file.is_file()}
    values = {
        re.sub("/_METADATA$", "/d/" + "0" * 32, name): b"\0" * 50_000 for name in files if name.endswith("/_METADATA")
    }
    with serving(Bucket({**files, **values})) as served:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", served.url)
        yield served


@pytest.mark.parametrize("item", PARAMETERS)
def test_an_ocdbt_checkpoint_in_a_bucket_gives_every_dtype_without_reading_values(
    bucket: Bucket, tmp_path: Path, item: str
) -> None:
    """The dtypes come from the manifest and the root of the index."""
    report = inspect_checkpoint(f"gs://my-bucket/{item}", store=record_store({"HOME": str(tmp_path)}))
    assert (report.status, report.dtypes, report.parameters) == ("complete", DTYPES[item], PARAMETERS[item])
    assert report.bytes is not None
    assert report.bytes > 50_000 > report.bytes_read
    assert not any("0" * 32 in line for line in bucket.asked if "alt=media" in line)


@pytest.mark.parametrize("item", PARAMETERS)
def test_shapes_are_complete_if_devices_held_copies(stores: Path, item: str) -> None:
    facts = read_checkpoint(str(stores / item))
    assert all(array.shape is not None for array in facts.arrays)
    assert (facts.dtypes, facts.dtypes_detail) == (DTYPES[item], "")


def test_a_missing_index_is_a_torn_save(stores: Path) -> None:
    (index,) = (stores / CONVERTED / "d").iterdir()
    index.unlink()
    facts = read_checkpoint(str(stores / CONVERTED))
    assert facts.status == "torn"
    assert f"d/{index.name}, listed in manifest.ocdbt, is missing" in facts.detail


def test_an_array_missing_from_the_index_is_a_torn_save(stores: Path) -> None:
    metadata = stores / CONVERTED / "_METADATA"
    metadata.write_text(metadata.read_text().replace('"wi_1"', '"wi_2"'))
    facts = read_checkpoint(str(stores / CONVERTED))
    assert facts.status == "torn"
    assert "1 of 13 arrays are missing in its store" in facts.detail


@pytest.mark.parametrize("file", ["manifest.ocdbt", "index"])
def test_an_unsupported_index_leaves_dtypes_unknown(stores: Path, file: str) -> None:
    (index,) = (stores / CONVERTED / "d").iterdir()
    harmed = index if file == "index" else stores / CONVERTED / file
    harmed.write_bytes(b"?" * harmed.stat().st_size)
    facts = read_checkpoint(str(stores / CONVERTED))
    assert (facts.status, facts.dtypes) == ("read", ())
    assert "not supported" in facts.dtypes_detail
    assert all(array.ways for array in facts.arrays)


@pytest.mark.parametrize("file", ["manifest.ocdbt", "index"])
@pytest.mark.parametrize("remaining", ["nothing", "zeros", "a part"])
def test_a_truncated_index_is_a_torn_save(stores: Path, file: str, remaining: str) -> None:
    (index,) = (stores / CONVERTED / "d").iterdir()
    harmed = index if file == "index" else stores / CONVERTED / file
    content = harmed.read_bytes()
    part = 0 if file == "manifest.ocdbt" or remaining == "nothing" else content.index(bytes.fromhex("0cdb20de"))
    harmed.write_bytes({"nothing": b"", "zeros": b"\0" * len(content), "a part": content[: part + 60]}[remaining])
    facts = read_checkpoint(str(stores / CONVERTED))
    assert (facts.status, facts.dtypes) == ("torn", ())
    assert "is damaged: " in facts.detail


def test_a_large_index_is_not_read(stores: Path) -> None:
    item = stores / CONVERTED
    metadata = json.loads((item / "_METADATA").read_text())
    arrays_found = read_arrays(str(item), metadata, LocalStorage(), with_ocdbt=True, sampled=9, max_nodes=0)
    assert (arrays_found.lost, arrays_found.detail) == (None, "its index is larger than the limit")
    assert arrays_found.arrays
