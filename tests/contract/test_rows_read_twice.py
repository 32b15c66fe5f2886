"""Rows that a run reads again after a restart: with the same seed, as it was, and with xsft's.

MaxText's own data source reads 32,000 rows from 1, 8 and 64 files on 8 hosts.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.everything import everything
from tests.pipeline import Pipeline
from tests.stories import ROOT
from xsft.checks.facts import Facts
from xsft.spec.resolve import resolve
from xsft.trainer.shuffling import Seeds, seeds

pytestmark = pytest.mark.contract

ROWS, HOSTS = 32_000, 8
MEASURED = {1: {0.10: 0.88, 0.25: 0.96}, HOSTS: {0.10: 0.40, 0.25: 0.69}, 8 * HOSTS: {0.10: 0.10, 0.25: 0.25}}
"""Files → share of the rows that were read before the restart → share of those that are read again until the run has
read as many. With 8 files for each host it is chance. docs/guides/restarts.md quotes these.
"""
CLOSE = 0.03


def seeds_of_a_run() -> Seeds:
    spec = everything(data__shuffle=None, data__shuffle_seed=None, data__num_epoch=None, restarts__data="reshuffle")
    run_seeds = seeds(resolve(spec, Facts())[0])
    assert run_seeds is not None
    return run_seeds


def written(folder: Path, *, files: int, rows: int = ROWS) -> str:
    for number in range(files):
        numbers = range(number * rows // files, (number + 1) * rows // files)
        text = "".join(json.dumps({"row": row}) + "\n" for row in numbers)
        (folder / f"{number:03}.jsonl").write_text(text, encoding="utf-8")
    return str(folder / "*.jsonl")


def again(before: list[list[int]], after: list[list[int]], *, rows: int) -> float:
    """Return the share of the first `rows` rows on all hosts that the restarted run reads among its first `rows`."""
    first, second = ({row for host in order for row in host[: rows // len(order)]} for order in (before, after))
    return len(first & second) / len(first)


@pytest.mark.parametrize("files", MEASURED)
def test_a_restart_rereads_the_measured_share_of_rows(files: int, tmp_path: Path, maxtext_pipeline: Pipeline) -> None:
    seed, pattern = seeds_of_a_run(), written(tmp_path, files=files)
    reread = int(ROWS * max(MEASURED[files])) // HOSTS

    def order(start: int) -> list[list[int]]:
        return maxtext_pipeline.order(pattern, seed=start, hosts=HOSTS, rows=reread)

    first, repeated, restarted = order(seed.first), order(seed.first), order(seed.first + seed.per_restart)
    next_attempt = order(seed.first + seed.per_attempt)
    assert len({row for host in first for row in host}) == HOSTS * reread  # each row once
    for share, expected in MEASURED[files].items():
        rows = int(ROWS * share)
        assert again(first, repeated, rows=rows) == 1.0
        assert again(first, restarted, rows=rows) == pytest.approx(expected, abs=CLOSE)
        assert again(first, next_attempt, rows=rows) == pytest.approx(expected, abs=CLOSE)


def test_a_file_of_one_shuffle_buffer_repeats_rows_only_by_chance(tmp_path: Path, maxtext_pipeline: Pipeline) -> None:
    """Which is why `resume-few-files` is silent about files of at most 1,000 rows."""
    pattern, seed = written(tmp_path, files=1, rows=1000), seeds_of_a_run()
    first, restarted = (
        maxtext_pipeline.order(pattern, seed=start, hosts=2, rows=125)
        for start in (seed.first, seed.first + seed.per_restart)
    )
    assert again(first, restarted, rows=250) == pytest.approx(0.25, abs=0.06)


def test_maxtext_shuffles_by_the_seed_alone_and_counts_it_on_for_each_epoch(maxtext_pipeline: Pipeline) -> None:
    """What `order` and the distance of xsft's seeds rest on."""
    assert maxtext_pipeline.shuffles(seed=7, epochs=1) == [{"seed": 7}]
    assert maxtext_pipeline.shuffles(seed=7, epochs=3) == [{"seed": 7}, {"seed": 8}, {"seed": 9}]


@pytest.mark.parametrize("files", MEASURED)
def test_the_guide_quotes_what_is_measured(files: int) -> None:
    guide = (ROOT / "docs" / "guides" / "restarts.md").read_text(encoding="utf-8")
    (row,) = [line for line in guide.splitlines() if re.match(rf"\| {files}( \(|  ?\|| \|)", line)]
    assert " / ".join(f"{share:.0%}".removesuffix("%") for share in MEASURED[files].values()) + " %" in row
