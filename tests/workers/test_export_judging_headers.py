"""Headers of safetensors files, as `tests.hfmodels` writes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.hfmodels import write_safetensors
from xsft.workers.export_judging import LENGTH_BYTES, TensorHeader, header_length, parse_header


def parsed(content: bytes) -> dict[str, TensorHeader]:
    length = header_length(content)
    body = content[LENGTH_BYTES:]
    return parse_header(body[:length], data_bytes=len(body) - length)


@pytest.fixture
def content(tmp_path: Path) -> bytes:
    write_safetensors(tmp_path / "a", {"w": np.zeros((2, 3), np.float32), "n": np.ones(4, np.float32)})
    return (tmp_path / "a").read_bytes()


def test_header_gives_names_shapes_types_and_byte_ranges(content: bytes) -> None:
    assert parsed(content) == {
        "w": TensorHeader(dtype="BF16", shape=(2, 3), begin=0, end=12),
        "n": TensorHeader(dtype="BF16", shape=(4,), begin=12, end=20),
    }


def test_truncated_file_error_names_the_tensor(content: bytes) -> None:
    with pytest.raises(ValueError, match="n ends at byte 20 of 19: the file is cut off"):
        parsed(content[:-1])


@pytest.mark.parametrize("broken", [b"", b"\0" * 16, b"\xff" * 16])
def test_other_content_is_refused_as_no_safetensors_file(broken: bytes) -> None:
    with pytest.raises(ValueError, match="not a safetensors file"):
        parsed(broken)


def test_bytes_that_do_not_fit_the_shape_are_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="w has 12 bytes, which do not fit its shape"):
        parsed(content.replace(b"[2, 3]", b"[2, 4]"))
