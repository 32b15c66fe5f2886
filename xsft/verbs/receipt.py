"""`xsft status RUN --receipt`: print what a run's chips did, and what they trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xsft.base.amounts import duration_text
from xsft.base.errors import Unknown
from xsft.base.state_names import State
from xsft.catalog.tpu import parse_tpu_type
from xsft.records.record import Receipt
from xsft.runs.lookup import FoldedRun, one_run
from xsft.runs.read_all import RunAccess
from xsft.runs.receipt import SPENT
from xsft.runs.rows import Row
from xsft.verbs.document import Document, VerbDocument, report_document
from xsft.verbs.progress import show_spinner

HOUR_S = 3600.0

ReadReceipt = Callable[[FoldedRun], Receipt | None]
"""Return the run's receipt; None if it has no JobSet, and no receipt in its records. Raises XsftError if its log cannot
be read."""


class SpentDocument(Document, frozen=True, kw_only=True):
    """One value for each state of a run."""

    queued: float
    """Before the run got its chips."""
    starting: float
    compiling: float
    training: float
    evaluating: float
    saving: float
    """Without saving in parallel with the training."""
    lost: float
    """Steps that were trained again after a restart, and the time between two processes."""


class ReceiptDocument(VerbDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.receipt/1"):
    """`xsft status RUN --receipt --json`."""

    run_name: str
    jobset: str | None
    cluster: str | None
    state: State
    chips: int | None
    """Chips of all slices; null for a run on this machine."""
    seconds: SpentDocument
    chip_hours: SpentDocument | None
    """null without chips."""
    held_s: float
    """Seconds of all states but `queued`."""
    steps: int
    """Steps whose result was kept."""
    tokens: int | None
    """Tokens of these steps, with padding; null if the log does not contain them."""
    target_tokens: int | None
    """Tokens that count in the loss."""
    tokens_per_chip_second: float | None
    """`tokens` per second and chip, while the chips were held; on this machine, per second."""
    mfu: float | None
    """Share of the chips' bfloat16 peak while training, 0 to 1."""
    notes: tuple[str, ...]
    """Data that is missing in the receipt, one sentence each."""


def print_receipt(name: str, *, runs: RunAccess, read: ReadReceipt, json: bool) -> int:
    """Print the receipt and return 0. Raises UsageError for a name that no run has, Unknown if there is no receipt."""
    with show_spinner("receipt", "asking the clusters") as say:
        runs.listen(say)
        folded = one_run(name, runs.look())
        receipt = read(folded)
    if receipt is None:
        raise _no_receipt(folded.row)
    return report_document(receipt_document(folded.row, receipt), receipt_text, as_json=json)


def _no_receipt(row: Row) -> Unknown:
    if row.on_this_machine and not row.ended:
        return Unknown(
            f"{row.run_name} is still running, and its receipt is written at its end.", fix="Run this command then."
        )
    if row.on_this_machine:
        return Unknown(
            f"{row.run_name} ended before its receipt was written; how its time was spent is unknown.",
            fix=f"Its trainer's output shows the time of each step: xsft logs {row.run_name}",
        )
    return Unknown(
        f"The JobSet of {row.run_name} is gone with its log, and no record has its receipt; how its time was spent is "
        "unknown.",
        fix="Run this command before the JobSet is deleted (a day after its end, unless the workload sets another "
        "time).",
    )


def receipt_document(row: Row, receipt: Receipt) -> ReceiptDocument:
    """Return the receipt of the row's run: what all its devices did, or this machine's only one."""
    tokens, devices, peak = receipt.tokens_per_device, 1, None
    if row.tpu and row.chips:
        tpu_slice = parse_tpu_type(row.tpu)
        devices = tpu_slice.devices * (row.num_slices or 1)
        peak = tpu_slice.device_tflops
    all_tokens = None if tokens is None else round(tokens * devices)
    chip_seconds = receipt.held_s * (row.chips or 1)
    rate = mfu = hours = None
    if all_tokens is not None and chip_seconds:
        rate = all_tokens / chip_seconds
    if peak and receipt.tflops_per_device is not None:
        mfu = receipt.tflops_per_device / peak
    if row.chips:
        hours = SpentDocument(**{s: round(receipt.seconds.get(s, 0.0) * row.chips / HOUR_S, 4) for s in SPENT})
    return ReceiptDocument(
        run_name=row.run_name,
        jobset=row.jobset,
        cluster=row.cluster,
        state=row.state,
        chips=row.chips,
        seconds=SpentDocument(**{state: round(receipt.seconds.get(state, 0.0), 1) for state in SPENT}),
        chip_hours=hours,
        held_s=round(receipt.held_s, 1),
        steps=receipt.steps,
        tokens=all_tokens,
        target_tokens=receipt.target_tokens,
        tokens_per_chip_second=rate,
        mfu=mfu,
        notes=receipt.notes,
    )


def receipt_text(run: ReceiptDocument) -> Iterator[str]:
    """Yield the lines: what was trained, the time by state, the rates, and what is unknown."""
    targets = f", {run.target_tokens:,} of them learnt from" if run.target_tokens is not None else ""
    tokens = f", {run.tokens:,} tokens{targets}" if run.tokens is not None else ""
    yield f"{run.run_name} ({run.state}): {run.steps:,} steps{tokens}"
    for state in SPENT:
        if seconds := getattr(run.seconds, state):
            free = " (not held)" if state == "queued" and run.chips else ""
            yield f"  {state:<12}{duration_text(seconds):>8}{_chip_hours(run.chips, seconds)}{free}"
    yield f"  {'held':<12}{duration_text(run.held_s):>8}{_chip_hours(run.chips, run.held_s)}"
    if run.tokens_per_chip_second is not None:
        each = "chip-second" if run.chips else "second"
        mfu = f", MFU {100 * run.mfu:.1f} %" if run.mfu is not None else ""
        yield f"{run.tokens_per_chip_second:,.1f} tokens per {each} held{mfu}"
    yield from run.notes


def _chip_hours(chips: int | None, seconds: float) -> str:
    return f"{chips * seconds / HOUR_S:>12,.2f} chip-hours" if chips else ""
