from __future__ import annotations

import json

import pytest

from tests.everything import EVERYTHING, OTHER, everything, leaves, other
from xsft.facts import Facts, MachineFacts
from xsft.spec.digest import canonical, spec_digest
from xsft.spec.model import WorkloadSpec
from xsft.spec.resolve import resolve

# The design's words: user, time, git commit, priority, restarts, TTL and silenced checks are not the run's identity.
NOT_IDENTITY = {
    "priority",
    "restarts.max",
    "restarts.on_exit_codes",
    "restarts.grace_period_s",
    "ttl_seconds_after_finished",
    "checks",
    "data.rows",
    "place.registry",
    "image.name",
}


def _digest(spec: WorkloadSpec, facts: Facts | None = None) -> str:
    return spec_digest(resolve(spec, facts or Facts())[0])


def test_the_other_values_are_complete() -> None:
    assert set(OTHER) == set(leaves())


def test_it_is_sha256() -> None:
    assert len(_digest(everything())) == 64
    assert int(_digest(everything()), 16)


@pytest.mark.parametrize("path", sorted(NOT_IDENTITY))
def test_what_is_not_identity_does_not_change_it(path: str) -> None:
    assert _digest(other(path)) == _digest(everything())


@pytest.mark.parametrize("path", sorted(set(leaves()) - NOT_IDENTITY))
def test_everything_else_changes_it(path: str) -> None:
    assert _digest(other(path)) != _digest(everything())


def test_the_world_does_not_change_it() -> None:
    spec = everything(run_name_suffix="none")
    facts = Facts(today="20270101", commit="f" * 40, working_directory="/", machine=MachineFacts(memory_gib=99.0))
    assert _digest(spec, facts) == _digest(spec)


def test_a_later_attempt_is_the_same_run() -> None:
    assert _digest(everything(), Facts(attempt=3)) == _digest(everything())


def test_a_run_name_that_asks_for_the_date_has_it() -> None:
    assert _digest(everything(), Facts(today="20261121")) != _digest(everything(), Facts(today="20261122"))


def test_what_is_decided_counts_not_who_said_it() -> None:
    said = everything(mode="mcjax", pathways=None)
    assert _digest(everything(mode="auto", pathways=None)) == _digest(said)
    own = everything(queue=EVERYTHING["place"]["queue"])
    assert _digest(everything(queue=None)) == _digest(own)


def test_yesterdays_dated_run_is_named_by_its_run_name() -> None:
    """As `--run-name` does: the name is whole, and asks for nothing."""
    dated = everything(name="chat", run_name_suffix="date")
    named = everything(name="chat-20261121", run_name_suffix="none")
    assert _digest(named, Facts(today="20261122")) == _digest(dated, Facts(today="20261121"))


def test_the_order_of_keys_does_not_matter() -> None:
    backwards = {key: EVERYTHING[key] for key in reversed(EVERYTHING)}
    backwards["train"] = dict(reversed(EVERYTHING["train"].items()))
    assert _digest(WorkloadSpec.model_validate(backwards)) == _digest(everything())


def test_a_place_by_name_is_the_place_written_out() -> None:
    spec = everything()
    assert spec.place is not None
    assert not isinstance(spec.place, str)
    named = everything(place="main")
    assert _digest(named, Facts(places={"main": spec.place})) == _digest(spec)


def test_a_default_written_out_is_the_default() -> None:
    assert _digest(everything(tpu__num_slices=1)) == _digest(everything(tpu__num_slices=None))


def test_it_is_canonical_json() -> None:
    text = canonical(resolve(everything(), Facts())[0])
    document = json.loads(text)
    assert text == json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert document["run_name"] == "everything-19700101"
