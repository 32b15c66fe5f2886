"""Judge an exported model by its headers, its configuration, and the answer of `compare_export`. Pure, and without any
library: a pod has no xsft, and gets this module with its program.

source of the format: the README of github.com/huggingface/safetensors: 8 bytes of length, little-endian, then JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

DTYPE_NAMES: Mapping[str, str] = {"bfloat16": "BF16", "float32": "F32"}
SHOWN = 5
"""Tensors named in a message."""
HEAD = "lm_head.weight"

ReadPart = Callable[[str, int, int], bytes]
"""Function that returns bytes of a file of the folder: its name, the first byte, and how many."""


def judged(
    sizes: Mapping[str, int], read: ReadPart, *, answer: Mapping[str, Any], of: Mapping[str, Any], dtype: str
) -> dict[str, Any]:
    """Return the fields of the `Verification` of a folder. `sizes`: bytes of its files; `answer`: of the worker, and
    `of`: its part about this folder. Raises OSError as `read` does."""
    expected = {name: tuple(shape) for name, shape in answer["expected"].items()}
    try:
        headers, config = read_headers(sizes, read), _read_config_json(sizes, read)
    except ValueError as wrong:
        return {"problems": (str(wrong),)}
    problems = (
        *header_problems(headers, expected=expected, dtype=dtype),
        *(config_problems(config, names=headers) if config is not None else ()),
        *values_problems({**of, "unexported": answer["unexported"]}),
        *base_problems(of),
    )
    known = {name: of[name] for name in ("compared", "trained", "changed", "base")}
    sampled = answer["targets"] < answer["all_targets"]
    return {"problems": problems, "tensors": len(headers), "sampled": sampled, **known}


def read_headers(sizes: Mapping[str, int], read: ReadPart) -> dict[str, TensorHeader]:
    """Return all tensors of the folder. Raises ValueError, naming the file, for one that is cut off."""
    found: dict[str, TensorHeader] = {}
    for name in sorted(one for one in sizes if one.endswith(".safetensors")):
        try:
            length = header_length(read(name, 0, LENGTH_BYTES))
            text = read(name, LENGTH_BYTES, length)
            found |= parse_header(text, data_bytes=sizes[name] - LENGTH_BYTES - length)
        except ValueError as wrong:
            raise ValueError(f"{name}: {wrong}") from wrong
    return found


def _read_config_json(sizes: Mapping[str, int], read: ReadPart) -> dict[str, Any] | None:
    """Return config.json; None for an adapter, which has none. Raises ValueError if it is not a JSON object."""
    if "config.json" not in sizes and "adapter_config.json" in sizes:
        return None
    if "config.json" not in sizes:
        raise ValueError("config.json not found")
    found = json.loads(read("config.json", 0, sizes["config.json"]))
    return found if isinstance(found, dict) else {}


def header_problems(
    headers: Mapping[str, TensorHeader], *, expected: Mapping[str, tuple[int, ...]], dtype: str
) -> Iterator[str]:
    """Yield the errors in names, shapes and data types. `expected`: by MaxText's mapping for the model."""
    missing = [name for name in expected if name not in headers]
    extra = [name for name in headers if name not in expected]
    both = [name for name in expected if name in headers]
    shapes = [
        f"{name} {list(headers[name].shape)} instead of {list(expected[name])}"
        for name in both
        if headers[name].shape != tuple(expected[name])
    ]
    dtypes = [f"{name} {headers[name].dtype}" for name in headers if headers[name].dtype != DTYPE_NAMES[dtype]]
    for what, names in (
        ("tensors are missing", missing),
        ("tensors are not the model's", extra),
        ("tensors have another shape", shapes),
        (f"tensors are not {dtype}", dtypes),
    ):
        if names:
            yield f"{len(names)} {what}: {_shown(names)}"


def config_problems(config: Mapping[str, Any], *, names: Mapping[str, object]) -> Iterator[str]:
    """Yield a contradiction between config.json and the tensors about the output layer: a reader would invent or ignore
    it. If config.json has no value, the default of the model's type counts."""
    tied, has_head = config.get("tie_word_embeddings"), any(name.endswith(HEAD) for name in names)
    if tied is True and has_head:
        yield f"config.json ties the output layer to the embedding, but there is {HEAD}"
    if tied is False and not has_head:
        yield f"config.json says tie_word_embeddings: false, but there is no {HEAD}"


def values_problems(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield the errors that the worker found in the values."""
    wrong = [f"{one['name']} ({one['differing']} of {one['values']} values)" for one in answer["wrong"]]
    if wrong:
        yield f"{len(wrong)} tensors differ from the checkpoint: {_shown(wrong)}"
    if unread := answer["unread"]:
        yield f"{len(unread)} tensors could not be compared: {_shown(unread)}"
    if unexported := answer["unexported"]:
        yield f"{len(unexported)} arrays of the checkpoint were not exported: {_shown(unexported)}"
    if not answer["compared"]:
        yield "no tensor was compared"


def base_problems(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield a problem if no compared tensor differs from the base: nothing was trained, or the base was exported."""
    if answer["changed"] == 0:
        yield "every tensor equals the initial model: the training changed nothing"


def logits_problems(verdict: Mapping[str, Any], *, bound: float) -> Iterator[str]:
    """Yield what is wrong with the logits. `verdict`: the answer of `compare_logits` about a folder, and the `engine`;
    `bound`: greatest difference relative to the greatest logit of a position."""
    if verdict.get("unloaded"):
        yield f"{verdict['engine']} cannot load the export: {verdict['unloaded']}"
    elif verdict["differing"] or not verdict["positions"]:
        yield (
            f"logits differ from MaxText's at {verdict['differing']} of {verdict['positions']} positions by more than"
            f" {bound:.1g} of the greatest logit there, which rounding does not explain: {', '.join(verdict['worst'])};"
            f" {verdict['same_argmax']} positions choose the same token"
        )


def _shown(names: list[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f", and {more} more" if more > 0 else "")


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
