"""Runs as text: a line for each, and the table, which drops columns on a narrow terminal; the parts of a run's card."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.amounts import duration_text
from xsft.base.stage import STAGES
from xsft.base.state_names import RUNNING, State
from xsft.runs.rows import Row
from xsft.spec.keypath import printable
from xsft.verbs.document import Document

GAP = 2
"""Blanks between columns."""


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


class ReceiptFields(Document, frozen=True, kw_only=True):
    """What a run's chips did, and what they trained."""

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


class CardAttempt(Document, frozen=True, kw_only=True):
    """One submission of the run."""

    number: int
    """From 1."""
    jobset: str | None
    started_at: str
    finished_at: str | None
    outcome: str
    """Outcome in its record, e.g. `running`, `completed` or `failed`."""


class CardCheckpoint(Document, frozen=True, kw_only=True):
    """A saved checkpoint."""

    step: int
    complete: bool
    """Whether all of it is saved."""
    bytes: int | None
    """null if it has too many files to add up."""


class CardLink(Document, frozen=True, kw_only=True):
    """An address, or a command, that shows more of the run."""

    title: str
    target: str


class RunCard(Document, frozen=True, kw_only=True):
    """What is known of one run beside its row."""

    receipt: ReceiptFields | None = None
    """null for a run without a log and a record, and unless exactly one RUN is named."""
    cost: float | None = None
    """Cost of the held chip-hours, by the place's `chip_hour_price`; null without a price."""
    attempts: tuple[CardAttempt, ...] = ()
    """The oldest first; empty if the records cannot be read."""
    checkpoints: tuple[CardCheckpoint, ...] = ()
    """The newest ones, the newest first."""
    links: tuple[CardLink, ...] = ()


class Column(Struct, frozen=True, kw_only=True):
    head: str
    text: Callable[[Row], str]
    drop: int
    """Order in which columns are dropped on a narrow terminal, the highest first; 0 stays."""
    right: bool = False


def one_line_each(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Return the rows with the stages of each pipeline folded into its training, whose step and loss are shown, with
    the others beside its name: `tiny (convert succeeded, export running)`."""
    groups: dict[tuple[str | None, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(_pipeline_key(row), []).append(row)
    return tuple(_fold_stages(group) for group in groups.values())


def _pipeline_key(row: Row) -> tuple[str | None, ...]:
    if row.pipeline is None:
        return (row.cluster, row.namespace, row.run_name, row.uid)
    return (row.cluster, row.output if row.on_this_machine else row.namespace, row.pipeline)


def _fold_stages(group: Sequence[Row]) -> Row:
    if len(group) == 1:
        return group[0]
    training = next((row for row in group if row.stage == "train"), group[0])
    others = sorted((row for row in group if row is not training), key=lambda row: STAGES.index(row.stage or "train"))
    stages = ", ".join(f"{row.stage} {row.state}" for row in others)
    return replace(training, run_name=f"{training.run_name} ({stages})")


def plain_lines(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return all columns, aligned, without colour; the header first."""
    return align_columns(COLUMNS, rows)


def align_columns(columns: Sequence[Column], rows: Sequence[Row]) -> tuple[str, ...]:
    cells = [[column.head for column in columns], *([column.text(row) for column in columns] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    return tuple(_table_line(columns, line, widths) for line in cells)


def fitting_columns(rows: Sequence[Row], *, width: int) -> tuple[Column, ...]:
    """Return the columns that fit a terminal of this width; those that are empty for all runs are dropped first."""
    columns = [c for c in COLUMNS if c.drop == 0 or any(c.text(row) != NOTHING for row in rows)]
    while _width(columns, rows) > width and any(c.drop for c in columns):
        columns.remove(max(columns, key=lambda c: c.drop))
    return tuple(columns)


def _table_line(columns: Sequence[Column], cells: Sequence[str], widths: Sequence[int]) -> str:
    pairs = zip(columns, cells, widths, strict=True)
    return (" " * GAP).join(cell.rjust(w) if c.right else cell.ljust(w) for c, cell, w in pairs).rstrip()


def _width(columns: Sequence[Column], rows: Iterable[Row]) -> int:
    shown = tuple(rows)
    return sum(max(len(c.head), *(len(c.text(row)) for row in shown), 0) + GAP for c in columns) - GAP


NOTHING = "-"
WAITING = ("queued", "evicted")


def _tpu_cell(row: Row) -> str:
    if row.on_this_machine:
        return "local"
    if row.tpu is None:
        return NOTHING
    return _safe_cell(f"{row.num_slices}x {row.tpu}" if (row.num_slices or 1) > 1 else row.tpu)


def _step_cell(row: Row) -> str:
    """Return the step; `not read` only if there are steps to read: a queued run has none."""
    of_steps = f"/{row.steps}" if row.steps is not None else ""
    if row.step is not None:
        return f"{row.step}{of_steps}"
    if not row.progress.read and (row.progress.why or row.state in RUNNING or row.state == "stalled"):
        return "not read"
    return f"{NOTHING}{of_steps}" if of_steps else NOTHING


def _pace(row: Row) -> str:
    if row.step_seconds is None:
        return NOTHING
    if row.step_seconds >= 100:
        return f"{row.step_seconds:.0f}s"
    return f"{row.step_seconds:.3g}s"


def _wait_cell(row: Row) -> str:
    """Return the number of workloads ahead while the run waits, its ETA while it runs."""
    if row.queue_position == 0 and row.state in WAITING:
        return "next"
    if row.queue_position is not None and row.state in WAITING:
        return f"{row.queue_position} ahead"
    if row.eta_s is None:
        return NOTHING
    return f"ETA {duration_text(row.eta_s)}"


def _restarts_cell(row: Row) -> str:
    if row.restarts is None:
        return NOTHING
    if row.max_restarts is None:
        return str(row.restarts)
    return f"{row.restarts}/{row.max_restarts}"


def _resumed_cell(row: Row) -> str:
    """Return the step it resumed from, and whether its rows come in another order since."""
    step, order = row.progress.resumed_from, row.progress.resumed_order
    if step is None:
        return NOTHING
    return f"{step} {order or ''}".rstrip()


def _seen_cell(row: Row) -> str:
    """Return the age of the evidence, then its sources."""
    age = "age unknown"
    if row.evidence_age_s is not None:
        age = f"{duration_text(row.evidence_age_s)} ago"
    if not row.evidence:
        return age
    return f"{age}: {','.join(row.evidence)}"


def _cluster_cell(row: Row) -> str:
    if row.on_this_machine:
        return _safe_cell(f"this machine: {row.output}" if row.output else "this machine")
    return _safe_cell(row.cluster)


def _safe_cell(text: str | None) -> str:
    """Return the cluster's text without control characters, which could act on the terminal."""
    if not text:
        return NOTHING
    return printable(text)


COLUMNS: tuple[Column, ...] = (
    Column(head="RUN", text=lambda r: _safe_cell(r.run_name), drop=0),
    Column(head="STATE", text=lambda r: r.state, drop=0),
    Column(head="REASON", text=lambda r: _safe_cell(r.reason), drop=1),
    Column(head="STEP", text=_step_cell, drop=2, right=True),
    Column(head="LOSS", text=lambda r: NOTHING if r.loss is None else f"{r.loss:.4g}", drop=3, right=True),
    Column(head="STEP TIME", text=_pace, drop=7, right=True),
    Column(head="MFU", text=lambda r: NOTHING if r.mfu is None else f"{r.mfu:.1%}", drop=9, right=True),
    Column(head="QUEUE/ETA", text=_wait_cell, drop=6),
    Column(head="AGE", text=lambda r: NOTHING if r.age_s is None else duration_text(r.age_s), drop=4, right=True),
    Column(head="RESTARTS", text=_restarts_cell, drop=10, right=True),
    Column(head="RESUMED", text=_resumed_cell, drop=8),
    Column(head="MODE", text=lambda r: _safe_cell(r.mode), drop=12),
    Column(head="TPU", text=_tpu_cell, drop=11),
    Column(head="EVIDENCE", text=_seen_cell, drop=5),
    Column(head="CLUSTER", text=_cluster_cell, drop=13),
)
