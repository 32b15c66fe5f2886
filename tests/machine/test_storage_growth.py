"""The size of a folder that another machine writes, reported while it grows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.gcs import Bucket, serving
from tests.until import until
from xsft.machine.storage import watch_growth


def test_sizes_in_a_bucket_are_reported_and_failures_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    with serving(Bucket({"c/0/d": b"x" * 100})) as bucket:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", bucket.url)
        with watch_growth("gs://my-bucket/c", on_size=sizes.append, every_s=0.01):
            until(lambda: 100 in sizes)
            bucket.status = 403
            bucket.objects["c/0/e"] = b"x" * 50
            bucket.status = 200
            until(lambda: 150 in sizes)


def test_growing_reports_nothing_after_its_end(tmp_path: Path) -> None:
    sizes: list[int] = []
    with watch_growth(str(tmp_path), on_size=sizes.append, every_s=60):
        pass
    assert sizes == []
