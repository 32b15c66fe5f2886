"""The folder of MaxText's TensorBoard files, and the losses in one of them. MaxText writes them itself; xsft writes the
log, which ends if xsft is killed alone. Pure.

source: maxtext@0.2.5 configs/types.py (tensorboard_dir), trainers/post_train/sft/train_sft.py: metrics and profiles go
there; TensorBoard's own layout puts profiles below plugins/profile. Event files: tensorflow@2.20
tsl/lib/io/record_writer.h (length, its CRC, data, its CRC), core/util/event.proto, core/framework/summary.proto; tag:
maxtext@0.2.5 common/metric_logger.py write_metrics_to_tensorboard.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from xsft.spec.resolve import Run
from xsft.trainer.metrics import LOSS

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
