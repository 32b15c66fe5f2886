from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

import xsft
from xsft.base.problems import warning
from xsft.data.counted_store import counts_kept, keep_counts
from xsft.data.facts import CountedData
from xsft.planning import api, gather
from xsft.planning.counted import address
from xsft.planning.planner import make_intent

TINY = Path(__file__).parents[2] / "workloads" / "tiny_local.yaml"
FOUND = CountedData(
    problems=(warning("data-truncated", "data", "Many are cut.", "Raise it."),), rows="all 3 rows", on="20260101"
)


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XSFT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("XSFT_CACHE_DIR", str(tmp_path / "cache"))  # without MaxText, which would count tokens


def of(*settings: str) -> str:
    loaded = xsft.load(TINY, settings=settings)
    facts = gather.gather(loaded.spec, file=TINY, today="20260101", offline=True)
    return address(make_intent(loaded.spec, facts).run, facts)


def ids(*settings: str) -> set[str]:
    return {problem.id for problem in api.check(xsft.load(TINY, settings=settings))}


def test_counts_kept_by_xsft_data_are_used_by_the_checks() -> None:
    assert "data-truncated" not in ids()
    keep_counts(of(), FOUND)
    assert "data-truncated" in ids("train.learning_rate=0.1"), "that changes no count"
    assert "data-truncated" not in ids("train.max_target_length=64")


def test_an_entry_in_another_format_is_no_count(tmp_path: Path) -> None:
    keep_counts("a", FOUND)
    assert counts_kept("a") == FOUND
    (file,) = (tmp_path / "state" / "counted").iterdir()
    file.write_text('{"problems": 3}')
    assert counts_kept("a") is None
    assert counts_kept("b") is None


def test_other_rows_have_another_address(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    addresses = set()
    for text in ("a", "b"):
        file.write_text(f'{{"messages": "{text}"}}\n')
        addresses.add(of(f"data.hf_train_files={file}"))
    assert len(addresses) == 2


def test_the_commit_that_the_hub_has_now_leaves_the_address() -> None:
    loaded = xsft.load(TINY, settings=("model.tokenizer=owner/name",))
    facts = gather.facts_here(loaded.spec, file=TINY, today="20260101")
    pinned = replace(facts, hub_commits={"tokenizer": "a" * 40})
    one, other = (address(make_intent(loaded.spec, each).run, each) for each in (facts, pinned))
    assert one == other
