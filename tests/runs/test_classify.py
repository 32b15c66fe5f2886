"""One state for every stage that a real control plane was seen in."""

from __future__ import annotations

import pytest

from tests.replacing import replace
from tests.runs.cases import CASES, LOCAL, absent
from tests.runs.seen import condition, local, observation, training, unread, workload
from xsft.base.state_names import ENDED, State
from xsft.cluster.observation import Observation, Status
from xsft.runs.classify import classify


def test_every_stage_has_its_state_and_reason() -> None:
    statuses = {name: classify(observation_of_case) for name, observation_of_case, _ in CASES}
    assert {name: (one.state, one.reason) for name, one in statuses.items()} == {case[0]: case[2] for case in CASES}


def test_no_two_stages_share_a_name() -> None:
    assert len({case[0] for case in CASES}) == len(CASES)


@pytest.mark.parametrize("name", ["one slice done", "no step for 301 s of 12 s each", "completed, ended short"])
def test_a_state_that_follows_from_steps_has_the_log_as_evidence(name: str) -> None:
    observation_of_case = next(case[1] for case in CASES if case[0] == name)
    assert "log" in classify(observation_of_case).evidence


@pytest.mark.parametrize(
    ("name", "evidence"),
    [
        ("queued, no quota", ("workload",)),
        ("suspended and taken out of its queue by hand after it was admitted", ("jobset",)),
        ("no Workload", ("jobset",)),
        ("deactivated", ("workload",)),
        ("unschedulable: one pod per Job", ("jobset", "pods")),
        ("broken spec: admitted for 61 s without a status", ("jobset", "workload")),
        ("broken spec without Kueue", ("jobset",)),
        ("compiling", ("jobset", "pods", "log")),
        ("restarted, compiling again", ("jobset", "log")),
        ("progress not read", ("jobset", "pods")),
        ("completed, the checkpoint proves it", ("jobset", "checkpoints")),
        ("completed, ended short", ("jobset", "log")),
        ("completed, steps not read", ("jobset",)),
        ("completed, number of steps unknown", ("jobset",)),
        ("completed without targets", ("jobset", "log")),
        ("a conversion that completed", ("jobset",)),
        ("the Workload finished first: succeeded", ("workload", "log")),
        ("the Workload finished first: failed", ("workload",)),
        ("being deleted", ("jobset",)),
        ("admitted, the JobSet not resumed yet", ("jobset", "workload")),
        ("pods not read", ("jobset",)),
        ("OOM kill", ("jobset", "pods")),
        ("no restarts left", ("jobset",)),
        ("gone, cancelled", ("record",)),
        ("unreachable", ()),
        ("unreachable, cancelled", ("record",)),
        ("unreachable, but the bucket answers", ("checkpoints",)),
        ("gone, its submitter was killed", ("record",)),
        ("gone, was created", ("record",)),
    ],
)
def test_the_evidence_names_the_sources_that_decided(name: str, evidence: tuple[str, ...]) -> None:
    observation_of_case = next(case[1] for case in CASES if case[0] == name)
    assert classify(observation_of_case).evidence == evidence


OF_STEPS = {
    "after-last-step",
    "ended-short",
    "data-ended",
    "aborted",
    "no-target-tokens",
    "loss-not-finite",
    "loss-zero",
}
SOURCES = {"jobset", "deployment", "workload", "pods", "log", "metrics", "checkpoints", "record"}


def test_a_status_without_evidence_is_unreachable_or_not_found() -> None:
    for name, observation_of_case, _ in CASES:
        status = classify(observation_of_case)
        assert set(status.evidence) <= SOURCES, name
        assert status.evidence or status.reason in ("unreachable", "not-found", "object-not-read"), name
        if (
            status.reason in OF_STEPS
            and observation_of_case.progress is not None
            and observation_of_case.jobset is not None
        ):
            assert status.evidence[0] in ("jobset", "workload"), name
            assert observation_of_case.progress.source in status.evidence, name


LAST_KNOWN = Status(state="training", reason="", evidence=("jobset", "pods", "log"))


@pytest.mark.parametrize("what", ["jobsets", "servers"])
def test_an_unreachable_cluster_keeps_the_last_known_state(what: str) -> None:
    observed = absent("created", unread=unread(what), last_known=LAST_KNOWN)
    assert classify(observed) is LAST_KNOWN


def test_an_unread_jobset_does_not_replace_the_last_known_state() -> None:
    failed = next(case[1] for case in CASES if case[0] == "exit 1, whatever maxRestarts")
    assert classify(replace(failed, unread=unread("jobsets"), last_known=LAST_KNOWN)) is LAST_KNOWN
    assert classify(replace(failed, last_known=LAST_KNOWN)).state == "failed"


def test_a_jobset_that_is_gone_replaces_the_last_known_state() -> None:
    assert classify(absent("created", last_known=LAST_KNOWN)).reason == "jobset-gone"


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled"])
def test_an_end_that_was_seen_outlives_its_jobset(state: State) -> None:
    ended = Status(state=state, reason="x", evidence=("jobset",))
    assert classify(absent("created", last_known=ended)) is ended


@pytest.mark.parametrize(("observed", "expected"), [pytest.param(*case[1:], id=case[0]) for case in LOCAL])
def test_a_local_run_is_derived_from_its_record(observed: Observation, expected: tuple[str, str]) -> None:
    status = classify(observed)
    assert (status.state, status.reason) == expected
    if status.state in ENDED and status.reason != "last-step-saved":
        source = (observed.progress.source,) if observed.progress else ()
        assert status.evidence in (("record",), tuple(dict.fromkeys(("record", *source)))), "what ended it is first"


def test_an_unreadable_local_record_keeps_the_last_known_state() -> None:
    recalled = local("", record=None, last_known=LAST_KNOWN)
    assert classify(replace(recalled, unread=unread("record"))) is LAST_KNOWN
    assert classify(recalled).reason == "not-found"


@pytest.mark.parametrize("outcome", ["running", "failed", "unknown", "interrupted"])
def test_the_evidence_of_a_local_run_that_is_not_alive_is_its_record(outcome: str) -> None:
    assert classify(local(outcome)).evidence == ("record",)


def test_the_evidence_of_a_local_run_names_each_source_once() -> None:
    assert classify(local("running", alive=True, progress=training(3))).evidence == ("record", "log")
    from_record = local("running", alive=True, progress=training(3, source="record"))
    assert classify(from_record).evidence == ("record",)


def test_a_trainer_is_stalled_after_ten_steps_without_a_line() -> None:
    observed = observation(progress=training(said_at="2026-11-21T11:48:00Z", step_seconds=60.0))
    assert classify(observed).state == "stalled"


def test_two_conditions_of_one_type_give_the_same_status_in_any_order() -> None:
    both = (condition("Evicted", reason="Preempted"), condition("Evicted", reason="AdmissionCheck"))
    statuses = {classify(observation(workload=workload(*its))) for its in (both, both[::-1])}
    assert [(one.state, one.reason) for one in statuses] == [("evicted", "admission-check")]


def test_an_evicted_inactive_workload_is_deactivated_with_any_condition() -> None:
    observation_of_case = next(case[1] for case in CASES if case[0] == "preempted, back in queue")
    assert observation_of_case.workload is not None
    inactive = workload(*observation_of_case.workload.conditions, active=False)
    assert classify(replace(observation_of_case, workload=inactive)).reason == "deactivated"
