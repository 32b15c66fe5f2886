"""A JobSet of a name that this run wants: taken for ours, passed over, or refused; never doubled, never touched."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.launch.test_identity import NAME, RECORDS, TORN, WORLDS, record, seen
from tests.replacing import replace
from xsft.base.errors import Refused
from xsft.launch.identity import LiveJobSet, RunHistory
from xsft.launch.ownership import pass_over, recognise_jobset
from xsft.records.record import Record

OTHER = LiveJobSet(name=f"{NAME}-2", uid="u", run_name=f"{NAME}-2", digest=None, state="live")
BARE = replace(OTHER, run_name=None)


def test_an_object_of_xpk_is_recognised_by_uid_or_arguments() -> None:
    bare = seen(run=None)
    by_uid = recognise_jobset(bare, run_name=NAME, records=(record(uid=bare.uid),), as_told=False)
    begun = recognise_jobset(bare, run_name=NAME, records=(record("submitting"),), as_told=True)
    assert by_uid == begun == seen()


@pytest.mark.parametrize(
    ("records", "as_told"),
    [((), True), ((record(uid="another"),), True), ((record("submitting"),), False), ((record("not-created"),), True)],
    ids=["no record", "record of another uid", "interrupted submission", "not created"],
)
def test_a_jobset_of_unclear_origin_is_not_taken_for_ours(records: tuple[Record, ...], as_told: bool) -> None:
    assert recognise_jobset(seen(run=None), run_name=NAME, records=records, as_told=as_told).run_name is None


@pytest.mark.parametrize(
    "there", [OTHER, replace(OTHER, state="failed"), BARE], ids=["live", "failed", "without labels"]
)
def test_a_jobset_with_the_name_of_a_later_attempt_is_passed_over(there: LiveJobSet) -> None:
    world = RunHistory(records=(record(),), latest_step=100)
    assert pass_over(there, attempt=2, world=world) == replace(world, passed_over=frozenset({2}))


@pytest.mark.parametrize("owner", [f"{NAME}-2", None])
@pytest.mark.parametrize("saved", [None, 100])
def test_a_foreign_jobset_with_the_name_of_the_run_is_refused(owner: str | None, saved: int | None) -> None:
    """What it names as the way out loses no step."""
    there = replace(OTHER, name=NAME, run_name=owner)
    with pytest.raises(Refused, match=f"the name {NAME} is taken by a JobSet") as caught:
        pass_over(there, attempt=1, world=RunHistory(latest_step=saved))
    assert (f"of the run {owner}" if owner else "xsft did not create it") in caught.value.message
    assert ("--set name=" in caught.value.fix) == (saved is None)
    assert ("resumes from the saved step 100" in caught.value.fix) == (saved is not None)


@pytest.mark.parametrize(
    "begun",
    [record("submitting", number=2), replace(TORN, attempts=(replace(TORN.last, number=2),))],
    ids=["interrupted submission", "torn record"],
)
def test_a_jobset_that_may_be_an_attempt_of_this_run_is_refused(begun: Record) -> None:
    """xpk's JobSets bear no label: a second run would save into the same folder."""
    world = RunHistory(records=(record(), begun), latest_step=100)
    with pytest.raises(Refused) as caught:
        pass_over(BARE, attempt=2, world=world)
    assert caught.value.problem_id == "jobset-unclear"
    assert pass_over(OTHER, attempt=2, world=world).passed_over == {2}


@given(world=WORLDS, more=RECORDS, attempt=st.integers(1, 9))
def test_passing_over_adds_one_number_and_nothing_else(world: RunHistory, more: Record, attempt: int) -> None:
    world = replace(world, records=(*world.records, more))
    after = passed(BARE, attempt=attempt, world=world)
    assert after is None or attempt > 1
    assert after in (None, replace(world, passed_over=world.passed_over | {attempt}))


def passed(there: LiveJobSet, *, attempt: int, world: RunHistory) -> RunHistory | None:
    """None: refused."""
    try:
        return pass_over(there, attempt=attempt, world=world)
    except Refused:
        return None
