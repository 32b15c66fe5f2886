"""The largest buffers that a compiled program writes, from its text. Pure.

source of the text: openxla's HLO as libtpu 0.0.44 writes it.
"""

from __future__ import annotations

import math
import re
from collections import Counter

from msgspec import Struct

WIDTHS = {
    "pred": 1.0, "s4": 0.5, "u4": 0.5, "s8": 1.0, "u8": 1.0, "f8e4m3fn": 1.0, "f8e5m2": 1.0, "f8e4m3b11fnuz": 1.0,
    "bf16": 2.0, "f16": 2.0, "s16": 2.0, "u16": 2.0, "s32": 4.0, "u32": 4.0, "f32": 4.0, "s64": 8.0, "f64": 8.0,
}  # fmt: skip
"""Bytes of an element."""

NO_BUFFER = frozenset({"parameter", "bitcast", "get-tuple-element", "constant", "while"})
MAX_BUFFERS = 8

_COMPUTATION = re.compile(r"^(?:ENTRY )?%?(?P<name>[\w.-]+) \(.*\{$")
_FUSED = re.compile(r" fusion\(.*\bcalls=%?([\w.-]+)")
_ARRAY = re.compile(
    r"^\s+(?:ROOT )?%?[\w.-]+ = (?P<type>[a-z]\w*)\[(?P<shape>[\d,]*)\](?P<layout>\{[^}]*\})? (?P<opcode>[\w-]+)\("
)
"""An instruction that makes one array, not a tuple."""
_OPERATION = re.compile(r'op_name="([^"]*)"')


class ProgramBuffer(Struct, frozen=True, kw_only=True):
    """One kind of buffer that a program writes to HBM."""

    bytes: int
    """Size of one of them, per device."""
    shape: str
    count: int
    layer: str
    """The operation that makes the first; empty if the program names none."""


def largest_buffers(text: str) -> tuple[ProgramBuffer, ...]:
    """Return the largest kinds of buffers that the program writes outside of fusions, largest first."""
    fused = frozenset(_FUSED.findall(text))
    counts: Counter[str] = Counter()
    buffers: dict[str, ProgramBuffer] = {}
    computation = ""
    for line in text.splitlines():
        if begins := _COMPUTATION.match(line):
            computation = begins["name"]
        array = _ARRAY.match(line)
        if array is None or computation in fused or not _is_in_hbm(array):
            continue
        shape = f"{array['type']}[{array['shape']}]"
        counts[shape] += 1
        if shape not in buffers:
            operation = _OPERATION.search(line)
            layer = operation[1] if operation else ""
            buffers[shape] = ProgramBuffer(bytes=_bytes(array), shape=shape, count=0, layer=layer)
    largest = sorted(buffers.values(), key=lambda buffer: -buffer.bytes)[:MAX_BUFFERS]
    return tuple(
        ProgramBuffer(bytes=buffer.bytes, shape=buffer.shape, count=counts[buffer.shape], layer=buffer.layer)
        for buffer in largest
    )


def _is_in_hbm(array: re.Match[str]) -> bool:
    """Return whether the instruction writes a buffer, and its layout names no other memory, `S(1)`."""
    return array["opcode"] not in NO_BUFFER and "S(" not in (array["layout"] or "") and _bytes(array) > 0


def _bytes(array: re.Match[str]) -> int:
    elements = math.prod(int(size) for size in array["shape"].split(",") if size)
    return int(elements * WIDTHS.get(array["type"], 0.0))
