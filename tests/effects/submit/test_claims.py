"""Claims of conversions: the first caller names the run, later callers adopt it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.actions.weights.test_convert import PLAN
from xsft.conversion.plan import ConversionPlan
from xsft.effects.records.records import RecordStore, record_store
from xsft.effects.submit.claims import ConversionClaim, claim_path, read_claim, take_claim, under_claim
from xsft.errors import Refused


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    return record_store({"HOME": str(tmp_path)})


@pytest.fixture
def plan(tmp_path: Path) -> ConversionPlan:
    return replace(PLAN, first=str(tmp_path / "converted" / "x"))


def named(plan: ConversionPlan, name: str) -> ConversionPlan:
    return replace(plan, run_name=f"{name}-convert", training=name)


def test_the_first_claim_holds(store: RecordStore, plan: ConversionPlan) -> None:
    assert read_claim(store, plan) is None
    first = take_claim(store, named(plan, "one"))
    assert (first.run_name, first.training) == ("one-convert", "one")
    assert take_claim(store, named(plan, "two")) == first == read_claim(store, plan)
    assert under_claim(named(plan, "two"), first).run_name == "one-convert"
    assert under_claim(named(plan, "two"), None).run_name == "two-convert"


def test_exactly_one_of_eight_concurrent_claims_holds(store: RecordStore, plan: ConversionPlan) -> None:
    together, taken = threading.Barrier(8), list[ConversionClaim]()

    def take(number: int) -> None:
        together.wait()
        taken.append(take_claim(store, named(plan, f"run{number}")))

    threads = [threading.Thread(target=take, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 8
    assert len({claim.run_name for claim in taken}) == 1


def test_other_weights_in_the_same_folder_have_their_own_claim(store: RecordStore, plan: ConversionPlan) -> None:
    take_claim(store, named(plan, "one"))
    other = replace(plan, inputs=replace(plan.inputs, param_scan_axis=0))
    assert take_claim(store, named(other, "two")).training == "two"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"run_name": 3}', b"\xff"])
def test_a_damaged_claim_is_refused_and_kept(store: RecordStore, plan: ConversionPlan, content: bytes) -> None:
    file = Path(claim_path(plan))
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    with pytest.raises(Refused, match="does not say which run"):
        take_claim(store, plan)
    assert file.read_bytes() == content
