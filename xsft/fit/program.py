"""Reads the text of a compiled program: its computations, and how often each instruction runs. Pure.

source of the text: openxla's HLO as libtpu 0.0.44 writes it. A loop has no trip count in it; the loops of a step count
from 0 to a constant in their condition.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import cached_property

from msgspec import Struct

WIDTHS = {
    "pred": 1.0, "s4": 0.5, "u4": 0.5, "s8": 1.0, "u8": 1.0, "f8e4m3fn": 1.0, "f8e5m2": 1.0, "f8e4m3b11fnuz": 1.0,
    "bf16": 2.0, "f16": 2.0, "s16": 2.0, "u16": 2.0, "s32": 4.0, "u32": 4.0, "f32": 4.0, "s64": 8.0, "f64": 8.0,
}  # fmt: skip
"""Bytes of an element."""

NO_BUFFER = frozenset({"parameter", "bitcast", "get-tuple-element", "constant", "tuple", "while"})
MOST_BUFFERS = 8

_COMPUTATION = re.compile(r"^(?P<entry>ENTRY )?%?(?P<name>[\w.-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"^\s+(?P<root>ROOT )?%?(?P<name>[\w.-]+) = (?P<rest>.*)$")
_ARRAY = re.compile(r"(?P<type>[a-z]+\d*[a-z0-9]*)\[(?P<shape>[\d,]*)\](?P<layout>\{[^}]*\})?")
_OPCODE = re.compile(r" ?(?P<opcode>[\w-]+)\((?P<operands>[^)]*)\)")
_NAME = re.compile(r"%([\w.-]+)")
_CALLED = re.compile(r"\b(?:calls|to_apply|true_computation|false_computation)=%?([\w.-]+)")
_BRANCHES = re.compile(r"\bbranch_computations=\{([^}]*)\}")
_LOOP = re.compile(r"\bcondition=%?(?P<condition>[\w.-]+), body=%?(?P<body>[\w.-]+)")
_OPERATION = re.compile(r'op_name="([^"]*)"')


class ArrayType(Struct, frozen=True, kw_only=True):
    """One array's type, shape, and the memory that holds it."""

    type: str
    shape: tuple[int, ...]
    on_chip: bool
    """Whether its layout names another memory than HBM, `S(1)`."""

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> float:
        return self.elements * WIDTHS.get(self.type, 0.0)

    @property
    def hbm_bytes(self) -> float:
        return 0.0 if self.on_chip else self.bytes

    def __str__(self) -> str:
        return f"{self.type}[{','.join(map(str, self.shape))}]"


class Instruction(Struct, frozen=True, kw_only=True):
    name: str
    opcode: str
    arrays: tuple[ArrayType, ...]
    """The arrays that it makes; several for a tuple."""
    operands: tuple[str, ...]
    text: str
    """Its attributes: the rest of its line after the operands."""

    @property
    def operation(self) -> str:
        """Return the operation of the source that it comes from; empty if it names none."""
        found = _OPERATION.search(self.text)
        return found[1] if found else ""

    @property
    def called(self) -> tuple[str, ...]:
        branches = _BRANCHES.search(self.text)
        return (*_CALLED.findall(self.text), *(_NAME.findall(branches[1]) if branches else ()))


class Computation(Struct, frozen=True, kw_only=True, dict=True):
    name: str
    instructions: tuple[Instruction, ...]
    root: Instruction | None

    @cached_property
    def by_name(self) -> dict[str, Instruction]:
        return {one.name: one for one in self.instructions}

    @cached_property
    def parameters(self) -> tuple[Instruction, ...]:
        """Return its parameters in their order."""
        found = [one for one in self.instructions if one.opcode == "parameter"]
        return tuple(sorted(found, key=lambda one: int(one.operands[0])))

    def users(self, name: str) -> tuple[Instruction, ...]:
        return tuple(one for one in self.instructions if name in one.operands)


class ExecutedInstruction(Struct, frozen=True, kw_only=True):
    """An instruction outside of fusions, and how often a step runs it."""

    instruction: Instruction
    within: Computation
    times: int


class Program(Struct, frozen=True, kw_only=True):
    computations: dict[str, Computation]
    entry: str

    def executed_instructions(self) -> Iterator[ExecutedInstruction]:
        """Yield the instructions of the entry, of its loops' bodies and of what both call. Of a conditional, only the
        first branch is followed."""
        yield from self._executed_in(self.entry, times=1)

    def trips(self, loop: Instruction) -> int | None:
        """Return how often the loop runs; None if its condition is not a comparison with one constant."""
        found = _LOOP.search(loop.text)
        condition = self.computations.get(found["condition"]) if found else None
        constants = [one for one in condition.instructions if one.opcode == "constant"] if condition else []
        counts = [int(one.operands[0]) for one in constants if one.operands and one.operands[0].isdecimal()]
        return counts[0] if len(counts) == 1 else None

    def _executed_in(self, name: str, *, times: int) -> Iterator[ExecutedInstruction]:
        computation = self.computations.get(name)
        for one in computation.instructions if computation else ():
            yield ExecutedInstruction(instruction=one, within=computation, times=times)  # type: ignore[arg-type]
            if one.opcode == "while" and (found := _LOOP.search(one.text)):
                yield from self._executed_in(found["body"], times=times * (self.trips(one) or 1))
            elif one.opcode in ("call", "conditional", "async-start"):
                yield from self._executed_in(next(iter(one.called), ""), times=times)


class ProgramBuffer(Struct, frozen=True, kw_only=True):
    """One kind of buffer that a program writes to HBM."""

    bytes: int
    """Size of one of them, per device."""
    shape: str
    count: int
    layer: str
    """The operation that makes the first; empty if the program names none."""


def largest_buffers(program: Program) -> tuple[ProgramBuffer, ...]:
    """Return the largest kinds of buffers that the program writes outside of fusions, largest first."""
    made = [one.instruction for one in program.executed_instructions() if one.instruction.opcode not in NO_BUFFER]
    written = [one for one in made if len(one.arrays) == 1 and one.arrays[0].hbm_bytes]
    counts = Counter(str(one.arrays[0]) for one in written)
    first = {str(one.arrays[0]): one for one in reversed(written)}
    found = [
        ProgramBuffer(bytes=int(one.arrays[0].bytes), shape=shape, count=counts[shape], layer=one.operation)
        for shape, one in reversed(first.items())
    ]
    return tuple(sorted(found, key=lambda buffer: -buffer.bytes)[:MOST_BUFFERS])


def read_program(text: str) -> Program:
    """Return the program; an empty one for an empty text."""
    computations: dict[str, Computation] = {}
    entry = name = ""
    lines: list[str] = []
    for line in text.splitlines():
        if begins := _COMPUTATION.match(line):
            name, lines = begins["name"], []
            entry = name if begins["entry"] else entry
        elif line == "}" and name:
            computations[name] = _computation(name, lines)
            name = ""
        elif name:
            lines.append(line)
    return Program(computations=computations, entry=entry)


def _computation(name: str, lines: list[str]) -> Computation:
    root: Instruction | None = None
    found: list[Instruction] = []
    for line in lines:
        match = _INSTRUCTION.match(line)
        one = _instruction(match["name"], match["rest"]) if match else None
        if match and one:
            found.append(one)
            root = one if match["root"] else root
    return Computation(name=name, instructions=tuple(found), root=root)


def _instruction(name: str, rest: str) -> Instruction | None:
    """Return the instruction; None for any other line, such as one inside an attribute of several lines."""
    end = _type_end(rest)
    found = _OPCODE.match(rest, end)
    if found is None:
        return None
    operands_text = found["operands"]
    return Instruction(
        name=name,
        opcode=found["opcode"],
        arrays=tuple(_array(one) for one in _ARRAY.finditer(rest[:end])),
        operands=tuple(_NAME.findall(operands_text)) or ((operands_text,) if operands_text else ()),
        text=rest[found.end() :],
    )


def _type_end(rest: str) -> int:
    """Return where the type ends: at the closing bracket of a tuple, else at the first space."""
    if not rest.startswith("("):
        return max(0, rest.find(" "))
    depth = 0
    for place, letter in enumerate(rest):
        if letter == "(":
            depth += 1
        elif letter == ")":
            depth -= 1
        if depth == 0:
            return place + 1
    return 0


def _array(match: re.Match[str]) -> ArrayType:
    shape = tuple(int(size) for size in match["shape"].split(",") if size)
    return ArrayType(type=match["type"], shape=shape, on_chip="S(" in (match["layout"] or ""))
