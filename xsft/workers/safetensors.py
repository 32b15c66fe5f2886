"""Read the header of a safetensors file. Pure, and without any library, as `judging`.

source: the format in the README of github.com/huggingface/safetensors: 8 bytes of length, little-endian, then JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

LENGTH_BYTES = 8
MAX_HEADER = 100_000_000
"""source: safetensors@0.6 tensor.rs MAX_HEADER_SIZE."""
WIDTHS: Mapping[str, int] = {"BF16": 2, "F16": 2, "F32": 4, "F64": 8, "I8": 1, "U8": 1, "I32": 4, "I64": 8, "BOOL": 1}
"""Bytes of one value."""


@dataclass(frozen=True, kw_only=True)
class TensorHeader:
    """A header's entry for one tensor."""

    dtype: str
    """In the words of the format, e.g. `BF16`."""
    shape: tuple[int, ...]
    begin: int
    """Offset of its bytes after the header."""
    end: int


def header_length(content: bytes) -> int:
    """Return the bytes of the header, from the first 8 of the file. Raises ValueError if they are not a valid
    length."""
    length = int.from_bytes(content[:LENGTH_BYTES], "little")
    if len(content) < LENGTH_BYTES or not 0 < length <= MAX_HEADER:
        raise ValueError("it is not a safetensors file")
    return length


def parse_header(content: bytes, *, data_bytes: int) -> dict[str, TensorHeader]:
    """Return the tensors by name. `content`: the JSON; `data_bytes`: bytes of the file after it.

    Raises ValueError if a tensor's bytes do not fit its shape, or are not in the file.
    """
    document = json.loads(content)
    if not isinstance(document, dict):
        raise ValueError("its header is not a JSON object")  # noqa: TRY004 - one error for a bad file
    found = {name: _tensor(name, entry) for name, entry in document.items() if name != "__metadata__"}
    for name, tensor in found.items():
        if tensor.end > data_bytes:
            raise ValueError(f"{name} ends at byte {tensor.end} of {data_bytes}: the file is cut off")
        width = WIDTHS.get(tensor.dtype)
        if width is not None and tensor.end - tensor.begin != width * math.prod(tensor.shape):
            raise ValueError(f"{name} has {tensor.end - tensor.begin} bytes, which do not fit its shape")
    return found


def _tensor(name: str, entry: object) -> TensorHeader:
    match entry:
        case {"dtype": str(dtype), "shape": [*shape], "data_offsets": [int(begin), int(end)]} if 0 <= begin <= end:
            return TensorHeader(dtype=dtype, shape=tuple(map(int, shape)), begin=begin, end=end)
        case _:
            raise ValueError(f"its header describes {name} in an unknown way")
