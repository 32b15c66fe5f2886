"""The metrics MaxText writes beside a run: JSON lines, one object per step. Pure.

`{base_output_directory}/{run_name}/metrics/metrics_step_000100_to_step_000199.txt` with `gcs_metrics`, and whatever
`metrics_file` names. Traps, all of maxtext@0.2.5 common/metric_logger.py, write_metrics_for_gcs:
* a file is written when (step + 1) is a multiple of log_period, or step = steps - 1. SFT counts 1 … steps, so the last
  row is never uploaded unless (steps + 1) is a multiple: the files may lack the newest steps.
* an eval at step = steps - 1 writes the same name again, with its own row alone: a newer file may hold fewer steps.
* a resumed run writes the same names again, without the rows of before; the step is a float.

And the folder of MaxText's TensorBoard files, with the losses in one of them: MaxText writes them itself; xsft writes
the log, which ends if xsft is killed alone. source: maxtext@0.2.5 configs/types.py (tensorboard_dir),
trainers/post_train/sft/train_sft.py: metrics and profiles go there; TensorBoard's own layout puts profiles below
plugins/profile. Event files: tensorflow@2.20 tsl/lib/io/record_writer.h (length, its CRC, data, its CRC),
core/util/event.proto, core/framework/summary.proto; tag: maxtext@0.2.5 common/metric_logger.py
write_metrics_to_tensorboard.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any

from xsft.trainer.lines import Step
from xsft.trainer.progress import Progress, Tally, middle

if TYPE_CHECKING:
    from xsft.spec.resolve import Run  # imports pydantic, which reading statuses does not need

FOLDER = "metrics"
LOSS = "learning/loss"
"""Key that only rows of training have; rows of eval are in the same files, some under the number of the eval's own
step."""

_OTHER_LOSSES = ("learning/moe_lb_loss", "learning/mtp_loss", "learning/indexer_loss")
_FILE = re.compile(r"metrics_step_(\d{1,12})_to_step_(\d{1,12})\.txt", re.ASCII)


def newest_files(written: Mapping[str, float | None], *, at_most: int) -> tuple[str, ...]:
    """Return the last files in the folder, the earliest first.

    `written`: name -> time in seconds. After a resume from an earlier checkpoint, files of the previous process have
    higher steps. So the time decides, and the steps only if a file has no time.
    """
    files = [
        (written_at, int(match[2]), int(match[1]), name)
        for name, written_at in written.items()
        if (match := _FILE.fullmatch(name))
    ]
    timed = all(written_at is not None for written_at, *_ in files)
    ordered = sorted(
        (written_at or 0.0 if timed else 0.0, last, first, name) for written_at, last, first, name in files
    )
    return tuple(name for *_, name in ordered[-at_most:])


def metric_rows(text: str) -> tuple[Step, ...]:
    """Return the steps of one file, in its order; torn lines, and those of an eval, are skipped."""
    return tuple(row for line in text.splitlines() if (row := _metric_row(line)) is not None)


def progress_of_metrics(rows: Iterable[Step], *, read_at: str) -> Progress | None:
    """Return the progress, or None without rows. `rows`: in the order in which they were written (`_standing_rows`)."""
    by_step = _standing_rows(rows)
    if not by_step:
        return None
    last = by_step[max(by_step)]
    steady = [row for row in by_step.values() if row.step != 1]
    tally = Tally()
    for _, row in sorted(by_step.items()):
        tally.take(row)
    return Progress(
        source="metrics",
        read_at=read_at,
        step=last.step,
        loss=last.loss,
        step_seconds=middle(row.seconds for row in steady),
        tflops_per_device=middle(row.tflops_per_device for row in steady),
        tokens_per_second=middle(row.tokens_per_second for row in steady),
        no_target_steps=tally.no_target_steps,
        not_finite_steps=tally.not_finite_steps,
        zero_loss_steps=tally.zero_loss_steps,
    )


def losses_of(rows: Iterable[Step]) -> Mapping[int, float]:
    """Return the losses by step; `rows` as for `progress_of_metrics`."""
    return {step: row.loss for step, row in _standing_rows(rows).items()}


def _standing_rows(rows: Iterable[Step]) -> dict[int, Step]:
    """Return the valid rows by step. If the step falls back, a new process started from a checkpoint: earlier rows of
    that step and later ones are dropped."""
    standing: dict[int, Step] = {}
    last = -1
    for row in rows:
        if row.step <= last:
            standing = {step: older for step, older in standing.items() if step < row.step}
        standing[row.step], last = row, row.step
    return standing


def _metric_row(line: str) -> Step | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    step = _finite_field(row, "step")
    loss = _finite_field(row, LOSS)
    if step is None or loss is None or not 0 <= step < 1e15:
        return None
    weights = _finite_field(row, "learning/total_weights")
    return Step(
        step=int(step),
        loss=loss,
        seconds=_finite_field(row, "perf/step_time_seconds"),
        tflops_per_device=_finite_field(row, "perf/per_device_tflops_per_sec"),
        tokens_per_second=_finite_field(row, "perf/per_device_tokens_per_sec"),
        target_tokens=int(weights) if weights is not None and isfinite(weights) else None,
        other_losses=any(name in row for name in _OTHER_LOSSES),
    )


def _finite_field(row: Any, key: str) -> float | None:
    value = row.get(key) if isinstance(row, dict) else None
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


OPENER = ("uvx", "--from", "tensorboard==2.21.0", "--with", "xprof==2.24.2", "tensorboard", "--logdir")
"""TensorBoard on 127.0.0.1 with its profile plugin, in an environment of uv's; a test opens a trace with it."""


def tensorboard_lines(run: Run, *, folder: str) -> Iterator[str]:
    """Yield lines for a report. `folder`: `<output>/<run name>`."""
    shown = tensorboard_folder(folder)
    yield f"tensorboard  {shown}"
    if run.spec.train.profiler is not None:
        yield f"profile      {shown}/plugins/profile"


def tensorboard_folder(folder: str) -> str:
    """Return the folder of the TensorBoard files. `folder`: `<output>/<run name>`."""
    return f"{folder.rstrip('/')}/tensorboard"


def open_command(folder: str) -> tuple[str, ...]:
    """Return the command that shows curves and traces of a run on this machine. `folder`: `<output>/<run name>`."""
    return (*OPENER, tensorboard_folder(folder))


EVENT_STEP, EVENT_SUMMARY, SUMMARY_VALUE, VALUE_TAG, VALUE_SIMPLE = 2, 5, 1, 1, 2
"""Field numbers of the messages."""


def event_losses(content: bytes) -> dict[int, float]:
    """Return the losses by step; what follows a torn record is left out."""
    losses: dict[int, float] = {}
    try:
        for record in _records(content):
            losses |= _losses_of_event(record)
    except (struct.error, ValueError, IndexError):
        pass  # the writer was killed, or it is no event file
    return losses


def _records(content: bytes) -> Iterator[bytes]:
    place = 0
    while place < len(content):
        (length,) = struct.unpack_from("<Q", content, place)
        yield content[place + 12 : place + 12 + length]
        place += length + 16


def _losses_of_event(event: bytes) -> dict[int, float]:
    steps = [value for number, value in _fields(event) if number == EVENT_STEP and isinstance(value, int)]
    losses = {}
    for summary in _messages(event, EVENT_SUMMARY):
        for value in _messages(summary, SUMMARY_VALUE):
            numbers = _messages(value, VALUE_SIMPLE)
            if steps and numbers and _messages(value, VALUE_TAG) == [LOSS.encode()]:
                (losses[steps[-1]],) = struct.unpack("<f", numbers[-1])
    return losses


def _messages(message: bytes, number: int) -> list[bytes]:
    return [value for field, value in _fields(message) if field == number and isinstance(value, bytes)]


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the value of each field. source: protobuf.dev/programming-guides/encoding."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        kind = key & 7
        if kind == 0:
            value, place = _varint(message, place)
            yield key >> 3, value
            continue
        length = {1: 8, 5: 4}.get(kind)
        if length is None:
            length, place = _varint(message, place)
        yield key >> 3, message[place : place + length]
        place += length


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """Return the number and the place after it. Raises IndexError if it is torn."""
    value = shift = 0
    while message[place] & 0x80:
        value |= (message[place] & 0x7F) << shift
        place, shift = place + 1, shift + 7
    return value | message[place] << shift, place + 1
