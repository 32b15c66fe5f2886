"""A run's receipt: as text, and as the document `xsft.receipt/1`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from xsft.base.amounts import duration_text
from xsft.catalog.tpu import Slice, parse_tpu_type
from xsft.records.record import Receipt
from xsft.runs.receipt import SPENT
from xsft.runs.rows import Row

HOUR_S = 3600.0


class RunReceipt(Struct, frozen=True, kw_only=True):
    """A receipt and its run."""

    row: Row
    receipt: Receipt

    @property
    def tokens(self) -> int | None:
        """Return the trained tokens of all devices, padding included; of this machine's one device."""
        each = self.receipt.tokens_per_device
        return None if each is None else round(each * self._devices)

    @property
    def tokens_per_chip_second(self) -> float | None:
        """Return the trained tokens over the time in which the chips were held."""
        held = self.receipt.held_s * (self.row.chips or 1)
        return self.tokens / held if self.tokens is not None and held else None

    @property
    def mfu(self) -> float | None:
        """Return the share of the chips' bfloat16 peak while training, 0 … 1; None off a TPU."""
        peak = self._slice.device_tflops if self._slice else None
        reached = self.receipt.tflops_per_device
        return reached / peak if peak and reached is not None else None

    @property
    def _slice(self) -> Slice | None:
        return parse_tpu_type(self.row.tpu) if self.row.tpu and self.row.chips else None

    @property
    def _devices(self) -> int:
        return self._slice.devices * (self.row.num_slices or 1) if self._slice else 1


def receipt_text(run: RunReceipt) -> Iterator[str]:
    """Yield the lines of the receipt: what was trained, the time by state, the rates, and what is unknown."""
    row, receipt = run.row, run.receipt
    yield f"{row.run_name} ({row.state}): {receipt.steps:,} steps{_tokens_text(run)}"
    for state in SPENT:
        if seconds := receipt.seconds.get(state):
            yield f"  {state:<12}{duration_text(seconds):>8}{_chip_hours(row.chips, seconds, state)}"
    yield f"  {'held':<12}{duration_text(receipt.held_s):>8}{_chip_hours(row.chips, receipt.held_s, 'held')}"
    if run.tokens_per_chip_second is not None:
        each = "chip-second" if row.chips else "second"
        mfu = f", MFU {100 * run.mfu:.1f} %" if run.mfu is not None else ""
        yield f"{run.tokens_per_chip_second:,.1f} tokens per {each} held{mfu}"
    yield from receipt.notes


def receipt_line(receipt: Receipt) -> str:
    """Return the time by state in one line, the states that took a second or more."""
    parts = ((state, receipt.seconds.get(state, 0.0)) for state in SPENT)
    return ", ".join(f"{duration_text(seconds)} {state}" for state, seconds in parts if seconds >= 1)


def receipt_document(run: RunReceipt) -> dict[str, Any]:
    """Return the document `xsft.receipt/1`, without schema, problems and exit status."""
    row, receipt = run.row, run.receipt
    seconds = {state: round(receipt.seconds.get(state, 0.0), 1) for state in SPENT}
    hours = {state: round(each * row.chips / HOUR_S, 4) for state, each in seconds.items()} if row.chips else None
    return {
        "run_name": row.run_name,
        "jobset": row.jobset,
        "cluster": row.cluster,
        "state": row.state,
        "chips": row.chips,
        "seconds": seconds,
        "chip_hours": hours,
        "held_s": round(receipt.held_s, 1),
        "steps": receipt.steps,
        "tokens": run.tokens,
        "target_tokens": receipt.target_tokens,
        "tokens_per_chip_second": run.tokens_per_chip_second,
        "mfu": run.mfu,
        "notes": list(receipt.notes),
    }


def _tokens_text(run: RunReceipt) -> str:
    targets = run.receipt.target_tokens
    learnt = f", {targets:,} of them learnt from" if targets is not None else ""
    return f", {run.tokens:,} tokens{learnt}" if run.tokens is not None else ""


def _chip_hours(chips: int | None, seconds: float, state: str) -> str:
    if not chips:
        return ""
    free = " (not held)" if state == "queued" else ""
    return f"{chips * seconds / HOUR_S:>12,.2f} chip-hours{free}"
