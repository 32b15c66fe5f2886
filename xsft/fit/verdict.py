"""The compiler's verdict on a step: it fits, only just, does not fit, or cannot be built. Pure.

source of the rules: aot_fit.md §3, measured with libtpu 0.0.44. The compiler accepts by the chip's peak; whether a chip
needs the sum is not known, so a sum above the limit is MARGINAL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from xsft.catalog.fit import CompilerVerdict
from xsft.catalog.tpu import Slice
from xsft.fit.program import ProgramBuffer
from xsft.fit.translate import InvalidStep, invalid_because

GIB = 2**30
SCHEMA = "xsft.fit-entry/1"


class LargeBuffer(Struct, frozen=True, kw_only=True):
    """One kind of buffer that the compiled program writes."""

    gib: float
    """Size of one of them, per chip."""
    shape: str
    """As the compiler writes it, `f32[1,1024,151936]`."""
    count: int
    """Number of buffers of that shape in the program; they need not live at the same time."""
    layer: str
    """The operation that makes the first of them, by the compiler's own name; empty if it names none."""


class StepMemory(Struct, frozen=True, kw_only=True):
    """The parts of the memory of an accepted step, GiB per chip; they add up to the sum."""

    weights: float
    optimizer: float
    gradients: float
    """Outputs that take no argument's place: gradients, which become the new weights; with LoRA also the copy of the
    frozen ones."""
    batch: float
    temporaries: float
    host: float = 0.0
    """Memory of the host for what an offloading remat_policy keeps there; in addition to the sum."""
    peak_known: bool = True
    """False: the compiler names the peak of the host's memory, and the chip's is at most the sum."""
    buffers: tuple[LargeBuffer, ...] = ()
    """The largest that the program writes, largest first."""


class Fits(Struct, frozen=True, kw_only=True, tag_field="verdict", tag="fits"):
    """The compiler accepts the step, and its sum is within the limit."""

    peak_gib: float
    """Peak of the chip; the sum if only the host's peak is known."""
    sum_gib: float
    limit_gib: float
    by: StepMemory | None
    """None for a row of the catalogue, which has peak and sum only."""


class Marginal(Struct, frozen=True, kw_only=True, tag_field="verdict", tag="marginal"):
    """The compiler accepts the step, but its sum exceeds the limit: a chip may run out of memory."""

    peak_gib: float
    sum_gib: float
    limit_gib: float
    by: StepMemory | None


def figures_text(accepted: Fits | Marginal) -> str:
    """Return the figures of an accepted step as text; no peak if only the host's is known."""
    peak_known, total = accepted.by is None or accepted.by.peak_known, f"{accepted.sum_gib:.2f}"
    figures = f"{accepted.peak_gib:.2f} GiB at the peak, {total}" if peak_known else f"{total} GiB"
    return f"{figures} in total, of {accepted.limit_gib:.2f} GiB per chip"


class DoesNotFit(Struct, frozen=True, kw_only=True, tag_field="verdict", tag="no"):
    """The compiler refuses the step, or its state alone exceeds the chips."""

    needed_gib: float
    """The compiler's one total, or the lower bound of the state."""
    limit_gib: float
    told_by: Literal["compiler", "bound"]


class Invalid(Struct, frozen=True, kw_only=True, tag_field="verdict", tag="invalid"):
    """The step cannot be built: it does not shard, its keys contradict each other, or there is no such slice."""

    because: InvalidStep


Verdict = Fits | Marginal | DoesNotFit | Invalid


def rejection(verdict: Verdict) -> str:
    """Return why an alternative with this verdict is rejected."""
    match verdict:
        case DoesNotFit(told_by="bound"):
            return f"needs at least {verdict.needed_gib:.2f} GiB of {verdict.limit_gib:.2f} for its state alone"
        case DoesNotFit():
            return f"needs {verdict.needed_gib:.2f} GiB of {verdict.limit_gib:.2f}"
        case Marginal():
            return f"only just: sum {verdict.sum_gib:.2f} GiB of {verdict.limit_gib:.2f}"
        case Invalid(because=because):
            return because.message
        case Fits():
            return f"peak {verdict.peak_gib:.2f}, sum {verdict.sum_gib:.2f} GiB of {verdict.limit_gib:.2f}"


class CompiledStep(Struct, frozen=True, kw_only=True):
    """A verdict with its origin: one file of the cache."""

    schema: str = SCHEMA
    verdict: Verdict
    tokens: int
    versions: dict[str, str]
    """Package -> version, of those that decide the verdict."""
    made_at: str
    """UTC, ISO 8601."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Wall time of each phase."""
    cpu_s: float = 0.0
    rss_gib: float = 0.0
    """Most memory of this machine that the compiler held."""


def verdict_of(
    answer: Mapping[str, Any], *, devices_per_chip: int, buffers: Sequence[ProgramBuffer] = ()
) -> Verdict | None:
    """Return the verdict in the worker's answer; None if the compiler itself failed. `buffers`: the
    program's largest."""
    if "error" in answer:
        because = invalid_because(answer["error"], phase=answer["phase"])
        return Invalid(because=because) if because else None
    limit = _gib(devices_per_chip, answer["limit"])
    if "needed" in answer:
        needed = _gib(devices_per_chip, answer["needed"] + answer.get("resident", 0))
        return DoesNotFit(needed_gib=needed, limit_gib=limit, told_by="compiler")
    return _judge_accepted(answer, limit=limit, devices_per_chip=devices_per_chip, buffers=buffers)


def _judge_accepted(
    answer: Mapping[str, Any], *, limit: float, devices_per_chip: int, buffers: Sequence[ProgramBuffer]
) -> Fits | Marginal | DoesNotFit:
    """Return the verdict on an accepted step, with the state outside the step, which the compiler does not count."""
    stats, arguments, resident = answer["memory"], answer["arguments"], answer.get("resident", 0)
    total = stats["arguments"] + stats["output"] - stats["alias"] + stats["temporaries"] + resident
    peak_known = not _is_peak_of_host(stats)
    peak = _gib(devices_per_chip, stats["peak"] + resident if peak_known else total)
    if resident and peak_known and peak > limit:
        return DoesNotFit(needed_gib=peak, limit_gib=limit, told_by="compiler")
    by = StepMemory(
        weights=_gib(devices_per_chip, arguments["model"]),
        optimizer=_gib(devices_per_chip, arguments["optimizer"]),
        gradients=_gib(devices_per_chip, stats["output"] - stats["alias"]),
        batch=_gib(devices_per_chip, stats["arguments"] + resident - arguments["model"] - arguments["optimizer"]),
        temporaries=_gib(devices_per_chip, stats["temporaries"]),
        host=_gib(devices_per_chip, stats["host_temporaries"]),
        peak_known=peak_known,
        buffers=tuple(_buffer(buffer, devices_per_chip) for buffer in buffers),
    )
    kind = Fits if _gib(devices_per_chip, total) <= limit else Marginal
    return kind(
        peak_gib=peak,
        sum_gib=_gib(devices_per_chip, total),
        limit_gib=limit,
        by=by,
    )


def _is_peak_of_host(stats: Mapping[str, int]) -> bool:
    """Return whether the compiler's peak is that of the host's memory: arguments, outputs and the larger of what the
    step holds at a time on the chip and on the host.

    source: measured with libtpu@0.0.44, steps of known size: 2.125 GiB of arguments, 2.0 of outputs and 32.0 on the
    host gave a peak of 36.125, and 2.125 of temporaries, on a chip of 31.24.
    """
    beside_temporaries = stats["arguments"] + stats["output"] - stats["alias"]
    return 0 < stats["host_temporaries"] >= stats["peak"] - beside_temporaries


def _buffer(buffer: ProgramBuffer, devices_per_chip: int) -> LargeBuffer:
    return LargeBuffer(
        gib=_gib(devices_per_chip, buffer.bytes), shape=buffer.shape, count=buffer.count, layer=buffer.layer
    )


def _gib(devices_per_chip: int, count: float) -> float:
    return round(count * devices_per_chip / GIB, 4)


def to_json(entry: CompiledStep) -> bytes:
    return msgspec.json.format(msgspec.json.encode(entry), indent=1) + b"\n"


_ENTRIES = msgspec.json.Decoder(CompiledStep)
"""Made at import: msgspec crashes when two threads first need one type."""


def from_json(content: bytes) -> CompiledStep | None:
    """Return the entry; None for other or incomplete content, or that of another version of xsft."""
    try:
        step = _ENTRIES.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return step if step.schema == SCHEMA else None


class KnownStep(Struct, frozen=True, kw_only=True):
    """A kept verdict that holds for a step."""

    entry: CompiledStep
    derived: bool
    """Whether the compiled step has another length."""
    row: CompilerVerdict | None = None
    """The row of the catalogue; None if it was compiled on this machine."""


class NearStep(Struct, frozen=True, kw_only=True):
    """A compiled step that differs only in its slice, the number of slices or its length."""

    entry: CompiledStep
    tpu: Slice
    num_slices: int
    same_mesh: bool = True
    """False: it has the default mesh, and the run another."""

    @property
    def place(self) -> str:
        return f"{self.tpu.xpk_type} × {self.num_slices}"

    def distance(self, tpu: Slice, num_slices: int, tokens: int) -> float:
        """Return how far it is from a step, in doublings of chips and of tokens."""
        chips = self.tpu.chips * self.num_slices / (tpu.chips * num_slices)
        return abs(log2(chips)) + abs(log2(self.entry.tokens / max(1, tokens)))

    def implies_fit(self, tpu: Slice, num_slices: int, tokens: int) -> bool:
        """Return whether a step of this size should fit, because this one does: with at least its chips in a slice,
        and no more tokens on each. Slices beside one another change it by a few hundredths."""
        splits = self.tpu.chips <= tpu.chips and self.num_slices <= num_slices
        return self.same_mesh and isinstance(self.entry.verdict, Fits) and splits and tokens <= self.entry.tokens


def known_step(entries: Sequence[CompiledStep], *, tokens: int) -> KnownStep | None:
    """Return the entry of this length, else the nearest from which the verdict follows; None if none does.

    `entries` are of one family: same keys, same attention blocks.
    """
    telling = [entry for entry in entries if _holds_at_length(entry, tokens)]
    entry = min(telling, key=lambda telling_entry: abs(telling_entry.tokens - tokens), default=None)
    return KnownStep(entry=entry, derived=entry.tokens != tokens) if entry else None


def _holds_at_length(entry: CompiledStep, tokens: int) -> bool:
    """Return whether the verdict holds at this length: a run that fits also fits with fewer tokens, and the reverse."""
    match entry.verdict:
        case Fits():
            return tokens <= entry.tokens
        case DoesNotFit():
            return tokens >= entry.tokens
        case Marginal() | Invalid():
            return tokens == entry.tokens
