"""The card of one run: receipt, attempts, checkpoints, losses and links; and the plot of losses, also of `compare`."""

from __future__ import annotations

import re
import string
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TextIO, TypeVar
from urllib.parse import quote

from msgspec import convert

from xsft.base.amounts import duration_text, size_text
from xsft.base.errors import Unknown, XsftError
from xsft.catalog.tpu import parse_tpu_type
from xsft.cluster.sources import known_places
from xsft.machine.objects import WHOLE_HERE, WHOLE_IN_BUCKET, checkpoints_folder
from xsft.machine.parallel import StartedCall, start
from xsft.machine.process import own_environment
from xsft.machine.storage import Storage, storage_for
from xsft.records.record import Receipt
from xsft.records.run_cluster import address_of
from xsft.runs.cause_rule import BY_SLUG
from xsft.runs.compare import LossCurve, read_curve
from xsft.runs.log_sources import RunLogs
from xsft.runs.lookup import FoldedRun, one_run
from xsft.runs.read_all import RunAccess, Runs
from xsft.runs.receipt import SPENT
from xsft.runs.rows import Row
from xsft.runs.run_receipts import read_receipt
from xsft.spec.keypath import printable
from xsft.trainer.progress import drawable
from xsft.verbs.document import PrintedDocument, ProblemFields, document_of, report_document, show_spinner
from xsft.verbs.status_table import (
    COLUMNS,
    NOTHING,
    CardAttempt,
    CardCheckpoint,
    CardLink,
    ReceiptFields,
    RunCard,
    SpentDocument,
)

HOUR_S = 3600.0
DEADLINE_S = 15.0
"""Seconds that each part of a card may take; it is left out, and said so, if it takes longer."""
CHECKPOINTS = 5
"""Number of checkpoints shown, the newest ones: their sizes need a listing each."""
PLOT_ROWS = 6
TRACKER = re.compile(r"\bView run\b.*?(https://[^\s'\"<>]+)")
"""Line of W&B at a run's start, as public logs of other projects show it: `wandb: View run at https://wandb.ai/…`."""

GKE = re.compile(r"(?:gke_)?([^/_]+)[/_]([^/_]+)[/_]([^/_]+)")
"""project/zone/cluster, or gcloud's name of the context; neither has an underscore within a part."""
LOGS = """\
resource.labels.cluster_name="{cluster}"
resource.labels.namespace_name="{namespace}"
resource.labels.pod_name:"{jobset}-"
"""
"""Filter of the Logs Explorer for the run's pods; short, because a terminal wraps the address."""

WIDTH, HEIGHT = 76, 15
"""Size of a plot in characters; fits a terminal of 80 columns."""

MOST_TICKS, WIDE, FEW_TICKS = 7, 6, 5
"""Ticks of the axis of steps; fewer from `WIDE` digits on, where plotext drops labels that do not fit."""

LETTERS = string.ascii_lowercase
"""Letters of the runs in a plot of several: readable without colour."""

T = TypeVar("T")
ReadReceipt = Callable[[FoldedRun], Receipt | None]
"""Return the run's receipt; None if it has no JobSet, and no receipt in its records. Raises XsftError if its log cannot
be read."""


class ReceiptDocument(
    PrintedDocument, ReceiptFields, frozen=True, kw_only=True, tag_field="schema", tag="xsft.receipt/1"
):
    """`xsft status RUN --receipt --json`."""

    problems: tuple[ProblemFields, ...] = ()
    exit_status: int = 0


def read_card(runs: Runs, hit: FoldedRun) -> tuple[RunCard, tuple[str, ...]]:
    """Return the card of the run, and its text. Never raises for a part that cannot be read; nothing is recorded."""
    row, output = hit.row, runs.output_of(hit.seen)
    log = start(lambda: tuple(line.text for line in RunLogs(runs=runs).printed(hit.seen)))
    curve = start(
        lambda: read_curve(hit.seen, output=output, store=runs.store, lines=lambda _seen: log.result(DEADLINE_S))
    )
    receipt = start(partial(read_receipt, runs, hit, keep=False))
    records = start(partial(runs.records, hit.seen))
    saved = start(partial(_read_checkpoints, output, row.run_name))
    unread: list[str] = []

    def result(what: str, part: StartedCall[T], default: T) -> T:
        try:
            return part.result(DEADLINE_S)
        except XsftError as failed:
            unread.append(f"{what}: {failed.clause}")
            return default

    spent = result("receipt", receipt, None)
    fields = None
    if spent is not None:
        fields = receipt_of(row, spent)
    card = RunCard(
        receipt=fields,
        cost=_cost_of(fields, _price_at(row.cluster)),
        attempts=tuple(
            convert(record.last, CardAttempt, from_attributes=True) for record in result("attempts", records, ())
        ),
        checkpoints=result("checkpoints", saved, ()),
        links=tuple(links_of(row, result("log", log, ()))),
    )
    losses = result("losses", curve, LossCurve(run_name=row.run_name)).points
    return card, tuple(card_lines(row, card, losses=losses, unread=unread))


def _read_checkpoints(output: str | None, run_name: str) -> tuple[CardCheckpoint, ...]:
    if output is None:
        return ()
    folder = checkpoints_folder(output, run_name)
    storage = storage_for(folder, env=own_environment(), deadline_s=DEADLINE_S)
    steps = sorted((int(name[:-1]) for name in storage.names(folder) if name[:-1].isdecimal()), reverse=True)
    return tuple(_checkpoint_of(storage, folder, step) for step in steps[:CHECKPOINTS])


def _checkpoint_of(storage: Storage, folder: str, step: int) -> CardCheckpoint:
    marker = WHOLE_IN_BUCKET if folder.startswith("gs://") else WHOLE_HERE
    is_complete = storage.read(f"{folder}/{step}/{marker}", limit=1) is not None
    return CardCheckpoint(step=step, complete=is_complete, bytes=storage.size(f"{folder}/{step}"))


def _price_at(cluster: str | None) -> float | None:
    places, _file = known_places()
    prices = (place.chip_hour_price for place in places.values() if address_of(place).name == cluster)
    return next((price for price in prices if price), None)


def _cost_of(receipt: ReceiptFields | None, price: float | None) -> float | None:
    if receipt is None or price is None or not receipt.chips:
        return None
    return round(receipt.held_s * receipt.chips / HOUR_S * price, 2)


def links_of(row: Row, log: Iterable[str]) -> Iterator[CardLink]:
    """Yield the pages of Google Cloud, if the cluster is GKE's, the command of TensorBoard, and a tracker's page."""
    if row.tensorboard:
        yield CardLink(title="tensorboard", target=f"tensorboard --logdir {row.tensorboard}")
    for address in dict.fromkeys(match[1] for line in log if (match := TRACKER.search(line))):
        yield CardLink(title="tracker", target=address)
    where = GKE.fullmatch(row.cluster or "")
    if where is None or row.jobset is None:
        return
    project, location, cluster = where.groups()
    # source, both: xpk@1.16 commands/inspector.py:378, core/pathways.py:120
    page = f"https://console.cloud.google.com/kubernetes/workload/overview?project={project}"
    yield CardLink(title="workloads", target=f"{page}&pageState=((gke%2F{location}%2F{cluster}))")
    query = quote(LOGS.format(cluster=cluster, namespace=row.namespace, jobset=row.jobset), safe="")
    yield CardLink(title="logs", target=f"https://console.cloud.google.com/logs/query;query={query}?project={project}")


def print_receipt(name: str, *, runs: RunAccess, read: ReadReceipt, json: bool) -> int:
    """Print the receipt and return 0. Raises UsageError for a name that no run has, Unknown if there is no receipt."""
    with show_spinner("receipt", "asking the clusters") as say:
        runs.listen(say)
        folded = one_run(name, runs.look())
        receipt = read(folded)
    if receipt is None:
        raise _no_receipt(folded.row)
    document = document_of(ReceiptDocument, receipt_of(folded.row, receipt))
    return report_document(document, receipt_text, as_json=json)


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


def receipt_of(row: Row, receipt: Receipt) -> ReceiptFields:
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
    return ReceiptFields(
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


def receipt_text(run: ReceiptFields) -> Iterator[str]:
    """Yield the lines: what was trained, the time by state, the rates, and what is unknown."""
    yield f"{run.run_name} ({run.state}): {run.steps:,} steps{_tokens_text(run)}"
    for state in SPENT:
        if seconds := getattr(run.seconds, state):
            free = " (not held)" if state == "queued" and run.chips else ""
            yield f"  {state:<12}{duration_text(seconds):>8}{_chip_hours(run.chips, seconds)}{free}"
    yield f"  {'held':<12}{duration_text(run.held_s):>8}{_chip_hours(run.chips, run.held_s)}"
    if rate := _rate_text(run):
        yield rate.removeprefix(", ")
    yield from run.notes


def _tokens_text(run: ReceiptFields) -> str:
    targets = f", {run.target_tokens:,} of them learnt from" if run.target_tokens is not None else ""
    return f", {run.tokens:,} tokens{targets}" if run.tokens is not None else ""


def _rate_text(run: ReceiptFields) -> str:
    if run.tokens_per_chip_second is None:
        return ""
    each = "chip-second" if run.chips else "second"
    mfu = f", MFU {100 * run.mfu:.1f} %" if run.mfu is not None else ""
    return f", {run.tokens_per_chip_second:,.1f} tokens per {each} held{mfu}"


def _chip_hours(chips: int | None, seconds: float) -> str:
    return f"{chips * seconds / HOUR_S:>12,.2f} chip-hours" if chips else ""


def card_lines(row: Row, card: RunCard, *, losses: Mapping[int, float], unread: Iterable[str] = ()) -> Iterator[str]:
    """Yield the card of one run: its state, a line for each thing that is known of it, and the next commands."""
    reason = f" ({printable(row.reason)})" if row.reason else ""
    cells = {column.head: column.text(row) for column in COLUMNS}
    yield f"{printable(row.run_name)} is {row.state}{reason}, read {cells['EVIDENCE']}"
    if meaning := BY_SLUG.get(row.reason):
        yield f"  {meaning.meaning}"
    rows = (*_row_lines(row, cells), *_time_lines(card), *_detail_lines(card), *(("not read", part) for part in unread))
    yield from (f"  {label:<13}{printable(text)}" for label, text in rows if text not in ("", NOTHING))
    if plot := terminal_plot(losses, height=PLOT_ROWS):
        yield drawable_text(plot, sys.stdout)
    yield f"next: {_next_commands(row)}"


def _row_lines(row: Row, cells: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    yield "step", ", ".join((cells["STEP"], *_named_cells(cells, "LOSS", "STEP TIME", "MFU")))
    yield "queue/eta", cells["QUEUE/ETA"]
    if row.chips:
        queued = "; a queued run holds none" if row.state == "queued" else ""
        yield "chips", f"{row.chips}, {row.num_slices or 1} x {row.tpu}, mode {cells['MODE']}{queued}"
    yield "age", ", ".join((cells["AGE"], *_named_cells(cells, "RESTARTS", "RESUMED")))
    yield "where", cells["CLUSTER"]
    yield "output", row.output or ""


def _named_cells(cells: Mapping[str, str], *heads: str) -> Iterator[str]:
    return (f"{head.lower()} {cells[head]}" for head in heads if cells[head] != NOTHING)


def _time_lines(card: RunCard) -> Iterator[tuple[str, str]]:
    """Yield the time by state with its chip-hours, the time that chips were held, and what was trained in it."""
    if (receipt := card.receipt) is None:
        return
    states = (state for state in SPENT if getattr(receipt.seconds, state))
    yield "time", ", ".join(_state_text(receipt.chips, state, getattr(receipt.seconds, state)) for state in states)
    hours = f", {receipt.chips * receipt.held_s / HOUR_S:,.2f} chip-hours" if receipt.chips else ""
    yield "held", f"{duration_text(receipt.held_s)}{hours}{_rate_text(receipt)}"
    yield "trained", f"{receipt.steps:,} steps{_tokens_text(receipt)}"
    yield from (("note", note) for note in receipt.notes)


def _state_text(chips: int | None, state: str, seconds: float) -> str:
    text = f"{state} {duration_text(seconds)}"
    if not chips:
        return text
    return f"{text} (not held)" if state == "queued" else f"{text} ({chips * seconds / HOUR_S:,.2f} chip-hours)"


def _detail_lines(card: RunCard) -> Iterator[tuple[str, str]]:
    if card.cost is not None:
        yield "cost", f"{card.cost:,.2f} for the held chip-hours, at the place's price"
    if len(card.attempts) > 1:
        yield "attempts", ", ".join(f"{attempt.number} {attempt.outcome}" for attempt in card.attempts)
    if card.checkpoints:
        yield "checkpoints", f"{', '.join(map(_checkpoint_text, card.checkpoints))}; 1 MB is 1,000,000 bytes"
    yield from ((link.title, link.target) for link in card.links)


def _checkpoint_text(checkpoint: CardCheckpoint) -> str:
    if not checkpoint.complete:
        return f"{checkpoint.step} (incomplete)"
    if checkpoint.bytes is None:
        return f"{checkpoint.step} (unknown size)"
    return f"{checkpoint.step} ({size_text(checkpoint.bytes)})"


def _next_commands(row: Row) -> str:
    match row.state:
        case "failed" | "stalled" | "unknown" | "evicted" | "queued" | "cancelled":
            verbs = ["why", "logs"]
        case "succeeded":
            verbs = ["checkpoint export"]
        case _:
            verbs = ["logs -f", "cancel"]
    return ", or ".join(f"xsft {verb} {row.run_name}" for verb in verbs)


def terminal_plot(losses: Mapping[int, float], *, height: int = HEIGHT) -> str:
    """Return the plot as plain text without colour; empty for fewer than two losses that can be drawn."""
    points = drawable(losses)
    if len(points) < 2:
        return ""
    return _plot_curves([(points, None)], height=height)


def terminal_comparison(curves: Sequence[Mapping[int, float]]) -> str:
    """Return a plot with each run drawn by its letter, a, b, c, … in the order given; empty if no run has a loss that
    can be drawn. Later runs are drawn over earlier ones. At most as many runs as LETTERS."""
    drawn = [(points, LETTERS[i]) for i, points in enumerate(map(drawable, curves)) if points]
    return _plot_curves(drawn, height=HEIGHT) if drawn else ""


def drawable_text(text: str, stream: TextIO) -> str:
    """Return the text with question marks for the box characters that the stream cannot encode."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


def _plot_curves(curves: Sequence[tuple[Mapping[int, float], str | None]], *, height: int) -> str:
    import plotext

    figure = plotext.figure
    figure.clear()
    figure.theme("colorless")
    figure.plot_size(WIDTH, height)
    figure.title("loss")
    for points, marker in curves:
        figure.draw(figure.signal(list(points), list(points.values()), marker=marker).lines())
    figure.ruler("x").ticks(*_step_ticks({step for points, _ in curves for step in points}))
    text = plotext.uncolorize(figure.build().string())
    return "\n".join(line.rstrip() for line in text.splitlines())


def _step_ticks(steps: set[int]) -> tuple[list[int], list[str]]:
    """Return whole steps, evenly apart, the first and the last among them, and their labels."""
    first, last = min(steps), max(steps)
    limit = MOST_TICKS if len(str(last)) < WIDE else FEW_TICKS
    count = min(limit, last - first + 1)
    ticks = sorted({first + round(i * (last - first) / max(1, count - 1)) for i in range(count)})
    return ticks, [str(tick) for tick in ticks]
