"""The operations and bytes of one device in a step, counted in the compiled program. Pure.

Every figure is a lower bound: elementwise arithmetic is left out, an array that is read in part counts with that part,
and a kernel reads each of its arrays once. Loops count as often as they run; the compiler's own cost analysis counts
their bodies once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from xsft.fit.groups import first_group
from xsft.fit.kernels import kernel_flops
from xsft.fit.program import Computation, ExecutedInstruction, Instruction, Program

NO_BYTES = frozenset(
    {
        "parameter", "bitcast", "tuple", "get-tuple-element", "constant", "while", "conditional", "call", "after-all",
        "partition-id", "replica-id", "iota", "opt-barrier", "copy-done", "slice-done", "async-done", "async-start",
        "async-update", "all-gather-done", "all-reduce-done", "collective-permute-done", "send", "send-done",
        "recv", "recv-done", "domain", "add-dependency",
    }
)  # fmt: skip
STARTS = {"copy-start": 0, "slice-start": 1}
"""Opcodes of transfers -> which of the arrays in their type is the target."""
PART = frozenset({"dynamic-slice", "slice", "gather"})
"""Opcodes that read only as much of their first operand as they make."""
UPDATE = {"dynamic-update-slice": 1, "scatter": -1}
"""Opcodes that write only their update into their first operand -> which operand that is."""
COLLECTIVES = ("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "ragged-all-to-all", "collective-permute")
KERNEL = 'custom_call_target="tpu_custom_call"'


class ProgramContext(Struct, frozen=True, kw_only=True):
    """The facts that the program's text does not contain."""

    num_slices: int = 1
    model_tflops: float | None = None
    """TFLOPs per device and step as MaxText counts them for its log."""
    routed_rows: int | None = None
    """Rows that a device's grouped matrix multiplications handle at balanced routing; None without experts."""


class StepWork(Struct, frozen=True, kw_only=True):
    """FLOPs and bytes of one step, per device."""

    flops: float
    """FLOPs of matrix multiplications at 16 bits; those of 8 bits count half."""
    kernel_flops: float
    """The part of `flops` that the compiler's count hides: of kernels (splash attention, grouped matrix
    multiplication), from their shapes."""
    hbm_bytes: float
    ici_bytes: float
    """Received from other chips of the slice."""
    dcn_bytes: float
    """Received from other slices."""
    model_tflops: float | None = None
    """TFLOPs of the model without rematerialisation, as MaxText counts them for its log."""
    unknown_kernels: tuple[str, ...] = ()
    """Kernels whose FLOPs are not counted."""
    unknown_loops: int = 0
    """Loops without a known number of trips, counted once."""


def work_of(program: Program, context: ProgramContext) -> StepWork:
    """Return the work of a program."""
    counted = tuple(program.executed_instructions())
    kernels = [(one, _kernel_flops(one, context)) for one in counted if _is_kernel(one.instruction)]
    hidden = sum(one.times * flops for one, flops in kernels if flops is not None)
    return StepWork(
        flops=hidden + sum(one.times * _matmuls(program, one) for one in counted),
        kernel_flops=hidden,
        hbm_bytes=sum(one.times * _hbm_bytes(program, one) for one in counted),
        ici_bytes=sum(one.times * _links(program, one) for one in counted),
        dcn_bytes=sum(one.times * _from_slices(one.instruction, context) for one in counted),
        model_tflops=context.model_tflops,
        unknown_kernels=tuple(sorted({_kernel_name(one.instruction) for one, flops in kernels if flops is None})),
        unknown_loops=sum(
            one.instruction.opcode == "while" and program.trips(one.instruction) is None for one in counted
        ),
    )


def _fused_computations(program: Program, one: Instruction) -> Iterator[Computation]:
    """Yield the computations that a fusion runs, with those of fusions in it."""
    for name in one.called if one.opcode == "fusion" else ():
        if inner := program.computations.get(name):
            yield inner
            for instruction in inner.instructions:
                yield from _fused_computations(program, instruction)


def _matmuls(program: Program, one: ExecutedInstruction) -> float:
    """Return the FLOPs of the instruction's matrix multiplications."""
    if one.instruction.opcode in ("convolution", "dot"):
        return _matmul(one.instruction, one.within)
    return sum(
        _matmul(inner, computation)
        for computation in _fused_computations(program, one.instruction)
        for inner in computation.instructions
        if inner.opcode in ("convolution", "dot")
    )


def _matmul(one: Instruction, within: Computation) -> float:
    left, right = (within.by_name[name].arrays[0] for name in one.operands[:2])
    made = one.arrays[0]
    narrow = 0.5 if left.bytes <= left.elements and right.bytes <= right.elements else 1.0
    if one.opcode == "dot":
        dims = _find_numbers(r"lhs_contracting_dims=\{([\d,]*)\}", one.text)
        return narrow * 2.0 * made.elements * math.prod(left.shape[dim] for dim in dims)
    return narrow * 2.0 * _convolution_products(one, left=left.shape, right=right.shape, made=made.shape)


def _convolution_products(
    one: Instruction, *, left: tuple[int, ...], right: tuple[int, ...], made: tuple[int, ...]
) -> float:
    """Return the number of products: TPUs write matrix multiplications as convolutions, their batch dimensions as
    spatial ones with padding. source: openxla xla/service/hlo_cost_analysis.cc, HandleConvolution."""
    labels = re.search(r"dim_labels=(\w+)_(\w+)->(\w+)", one.text)
    if labels is None:
        return 0.0
    of_left, of_right, of_made = labels[1], labels[2], labels[3]
    spatial = [label for label in of_right if label.isdigit()]
    window = _window(one.text, len(spatial))
    valid = math.prod(
        _valid(
            size=right[of_right.index(label)],
            made=made[of_made.index(label)],
            base=left[of_left.index(label)],
            window=window[int(label)],
        )
        for label in spatial
    )
    groups = next(iter(_find_numbers(r"batch_group_count=(\d+)", one.text)), 1)
    features = right[of_right.index("i")] * right[of_right.index("o")]
    return float(made[of_made.index("b")] * features * valid) / groups


class WindowDimension(Struct, frozen=True, kw_only=True):
    stride: int = 1
    low: int = 0
    base_dilation: int = 1
    window_dilation: int = 1


def _window(text: str, count: int) -> tuple[WindowDimension, ...]:
    found = re.search(r"window=\{([^}]*)\}", text)
    fields = dict(part.split("=", 1) for part in found[1].split()) if found else {}
    return tuple(
        WindowDimension(
            stride=int(_field_part(fields, "stride", place, "1")),
            low=int(_field_part(fields, "pad", place, "0_0").split("_")[0]),
            base_dilation=int(_field_part(fields, "lhs_dilate", place, "1")),
            window_dilation=int(_field_part(fields, "rhs_dilate", place, "1")),
        )
        for place in range(count)
    )


def _field_part(fields: dict[str, str], name: str, place: int, default: str) -> str:
    return fields[name].split("x")[place] if name in fields else default


def _valid(*, size: int, made: int, base: int, window: WindowDimension) -> int:
    """Return how many pairs of an output and a window position meet an element, and neither padding nor a gap."""
    reach = (base - 1) * window.base_dilation
    step = window.window_dilation
    starts = (output * window.stride - window.low for output in range(made))
    within = (range(start, start + size * step, step) for start in starts)
    if window.base_dilation == 1:
        return sum(_first(each, above=reach) - _first(each) for each in within)
    return sum(0 <= at <= reach and at % window.base_dilation == 0 for each in within for at in each)


def _first(steps: range, *, above: int = -1) -> int:
    """Return how many of the steps are not above that number."""
    return min(len(steps), max(0, (above - steps.start) // steps.step + 1))


def _find_numbers(pattern: str, text: str) -> tuple[int, ...]:
    found = re.search(pattern, text)
    return tuple(int(one) for one in found[1].split(",") if one) if found else ()


def _is_kernel(one: Instruction) -> bool:
    return one.opcode == "custom-call" and KERNEL in one.text


def _kernel_name(one: Instruction) -> str:
    return re.sub(r"\.\d+$", "", one.name)


def _kernel_flops(one: ExecutedInstruction, context: ProgramContext) -> float | None:
    operands = [made.arrays[0] for name in one.instruction.operands if (made := one.within.by_name.get(name))]
    return kernel_flops(
        _kernel_name(one.instruction), operands=operands, text=one.instruction.text, routed_rows=context.routed_rows
    )


def _links(program: Program, one: ExecutedInstruction) -> float:
    """Return the bytes that a device receives from others of its slice, in the instruction and in its fusion."""
    total = _received_bytes(one.instruction, one.within, scattered=False)
    for computation in _fused_computations(program, one.instruction):
        scattered = any(inner.opcode == "dynamic-slice" for inner in computation.instructions)
        total += sum(_received_bytes(inner, computation, scattered=scattered) for inner in computation.instructions)
    return total


def _received_bytes(one: Instruction, within: Computation, *, scattered: bool) -> float:
    """Return what a ring receives. `scattered`: an all-reduce of which each device keeps its part."""
    kind = one.opcode.removesuffix("-start")
    if kind not in COLLECTIVES:
        return 0.0
    given = sum(within.by_name[name].arrays[0].bytes for name in one.operands if name in within.by_name)
    size = len(first_group(one.text))
    if kind == "collective-permute" or size < 2:
        return given if kind == "collective-permute" else 0.0
    rounds = {"all-gather": size - 1.0, "all-reduce": (1.0 if scattered else 2.0) * (size - 1) / size}
    return given * rounds.get(kind, (size - 1) / size)


def _from_slices(one: Instruction, context: ProgramContext) -> float:
    """Return the bytes that a device receives from other slices: the compiler makes transfers by the host of them. What
    they receive includes the slice's own part; an all-reduce needs two rounds."""
    if one.opcode != "recv" or "xla_megascale_runtime" not in one.text or context.num_slices < 2:
        return 0.0
    rounds = 2.0 if 'transfer_type="ALL_REDUCE"' in one.text else 1.0
    return rounds * one.arrays[0].bytes * (context.num_slices - 1) / context.num_slices


def _hbm_bytes(program: Program, one: ExecutedInstruction) -> float:
    """Return the bytes that the instruction reads from HBM and writes to it."""
    made = one.instruction
    if made.opcode in NO_BYTES or (made.opcode == "custom-call" and not _is_kernel(made)):
        return 0.0
    operands = [one.within.by_name.get(name) for name in made.operands]
    if made.opcode in STARTS and operands[0] is not None:
        target = made.arrays[STARTS[made.opcode]]
        return target.hbm_bytes + (0.0 if operands[0].arrays[0].on_chip else target.bytes)
    inner = program.computations.get(made.called[0]) if made.opcode == "fusion" and made.called else None
    read = sum(
        _bytes_read(program, made, inner, operand, place) if operand.arrays and not operand.arrays[0].on_chip else 0.0
        for place, operand in enumerate(operands)
        if operand is not None
    )
    return read + _bytes_written(program, made, one.within)


def _bytes_read(
    program: Program, one: Instruction, inner: Computation | None, operand: Instruction, place: int
) -> float:
    """Return the bytes of operand number `place` that are read."""
    if inner is not None:
        return _used_bytes(program, inner, inner.parameters[place]) if place < len(inner.parameters) else 0.0
    if one.opcode in PART and place == 0:
        return one.arrays[0].bytes
    return 0.0 if one.opcode in UPDATE and place == 0 else operand.arrays[0].bytes


def _used_bytes(program: Program, within: Computation, value: Instruction) -> float:
    """Return the bytes of a value that a fusion reads: slices of it, or all."""
    whole = value.arrays[0].bytes if value.arrays else 0.0
    total = 0.0
    for user in within.users(value.name):
        place = user.operands.index(value.name)
        if user.opcode in ("bitcast", "reshape"):
            total += _used_bytes(program, within, user)
        elif user.opcode in PART and place == 0:
            total += user.arrays[0].elements * whole / max(1, value.arrays[0].elements)
        elif user.opcode in UPDATE and place == 0:
            continue
        elif user.opcode == "fusion" and (inner := program.computations.get(user.called[0])):
            total += _used_bytes(program, inner, inner.parameters[place])
        else:
            return whole
    return min(whole, total)


def _bytes_written(program: Program, one: Instruction, within: Computation) -> float:
    """Return the bytes that are written: of an updated array only the update."""
    if one.opcode in UPDATE:
        update = within.by_name.get(one.operands[UPDATE[one.opcode]])
        return update.arrays[0].bytes if update and not one.arrays[0].on_chip else 0.0
    inner = program.computations.get(one.called[0]) if one.opcode == "fusion" and one.called else None
    if inner is None or inner.root is None:
        return sum(array.hbm_bytes for array in one.arrays)
    roots = _outputs(inner, inner.root)
    return sum(
        0.0 if array.on_chip else min(array.bytes, _output_bytes(program, inner, root))
        for array, root in zip(one.arrays, roots, strict=False)
    )


def _outputs(within: Computation, root: Instruction) -> Sequence[Instruction]:
    if root.opcode == "tuple":
        return [within.by_name[name] for name in root.operands]
    return [root] * len(root.arrays)


def _output_bytes(program: Program, within: Computation, one: Instruction) -> float:
    """Return the bytes that a fusion's output costs."""
    if one.opcode == "bitcast" and one.operands[0] in within.by_name:
        return _output_bytes(program, within, within.by_name[one.operands[0]])
    if one.opcode == "fusion" and len(one.arrays) == 1:
        inner = program.computations[one.called[0]]
        return _output_bytes(program, inner, inner.root) if inner.root else one.arrays[0].bytes
    if one.opcode in UPDATE:
        return within.by_name[one.operands[UPDATE[one.opcode]]].arrays[0].bytes
    return one.arrays[0].bytes
