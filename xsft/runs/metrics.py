"""The metrics that MaxText writes beside a run's output."""

from __future__ import annotations

from xsft.records.record_files import RecordStore
from xsft.trainer.lines import Step
from xsft.trainer.metrics import FOLDER, metric_rows, newest_files

MAX_BYTES = 16 * 1024 * 1024
"""Maximum bytes of one file; log_period is 100 steps of some 2 KB unless a workload sets another."""


def read_metrics(store: RecordStore, *, output: str, run_name: str, at_most: int) -> tuple[Step, ...]:
    """Return the steps in the newest files, at most so many files, in the order in which they were written. Raises
    Unreachable.
    """
    folder, objects = f"{output.rstrip('/')}/{run_name}/{FOLDER}", store.objects_at(output)
    paths = (f"{folder}/{name}" for name in newest_files(objects.written(folder), at_most=at_most))
    texts = ((objects.read(path, limit=MAX_BYTES) or b"").decode("utf-8", "replace") for path in paths)
    return tuple(row for text in texts for row in metric_rows(text))
