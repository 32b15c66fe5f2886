"""Laws of `classify` for every observation, whatever a cluster makes up next."""

from __future__ import annotations

from typing import get_args

from hypothesis import example, given
from hypothesis import strategies as st

from tests.replacing import replace
from tests.runs.arbitrary import (
    conditions,
    jobsets,
    listed,
    observations,
    pods,
    progresses,
    replicated_jobs,
    statuses,
    times,
    unread,
    with_other_messages,
    workloads,
)
from tests.runs.cases import CASES, LOCAL, absent
from tests.runs.seen import NOW, jobset, observation, progress, slices
from tests.runs.seen import unread as not_read
from xsft.base.state_names import STATES
from xsft.cluster.objects import Condition, Workload
from xsft.cluster.observation import Observation, RunObject, Status
from xsft.runs.cause_rule import BY_SLUG, REASONS
from xsft.runs.classify import classify
from xsft.runs.rows import Worthless, worthless
from xsft.trainer.progress import Progress


def _with_conditions(workload: Workload, conditions: tuple[Condition, ...]) -> Workload:
    return replace(workload, status=replace(workload.status, conditions=conditions))


@given(seen=observations, now=times)
def test_every_observation_has_one_state_and_a_reason_that_is_explained(seen: Observation, now: str) -> None:
    status = classify(seen)
    assert status.state in STATES
    assert status is seen.last_known or status.reason == "" or status.state in BY_SLUG[status.reason].states


def no_message_decides(observed: Observation) -> None:
    observed = replace(observed, last_known=None)
    assert classify(with_other_messages(observed)) == classify(observed)


def test_no_message_of_a_real_cluster_decides() -> None:
    for name, observation_of_case, _ in CASES:
        assert classify(with_other_messages(observation_of_case)) == classify(observation_of_case), name


@given(
    terminal=st.sampled_from(("Completed", "Failed")),
    before=jobsets,
    workload=st.none() | workloads,
    seen=st.none() | listed(pods),
    said=st.none() | progresses,
    more=listed(unread),
)
def test_a_terminal_jobset_stays_ended(
    terminal: str, before: RunObject, workload: object, seen: object, said: Progress | None, more: object
) -> None:
    """Whatever its pods, its Workload and its trainer say; only how it ended may hang on the steps."""
    ended = replace(before, terminal=terminal, steps=4)
    status = classify(observation(jobset=ended, workload=workload, pods=seen, progress=said, unread=more, steps=4))
    doomed = said is not None and (said.aborted is not None or worthless(said, asked=4))
    all_saved = said is not None and (said.saved_step or 0) >= 4  # a failure after the last save loses nothing
    if doomed:
        assert status.state == "failed"
    elif terminal == "Failed" or any(c.type == "Failed" and c.status == "True" for c in before.conditions):
        assert status.state == ("succeeded" if all_saved else "failed")
    else:
        done = max((s for s in (said.step, said.saved_step, said.resumed_from) if s), default=0) if said else 0
        assert status.state == "succeeded" if done >= 4 else status.state in {"failed", "unknown"}


def no_run_succeeds_whose_steps_taught_nothing(observed: Observation) -> None:
    """Whatever its exit status, its checkpoints and its record say."""
    taught_nothing = replace(observed, last_known=None, progress=progress(no_target_steps=3))
    assert classify(taught_nothing).state != "succeeded"


def test_reasons_of_worthless_runs_are_reasons_of_failed_runs() -> None:
    assert all("failed" in BY_SLUG[slug].states for slug in get_args(Worthless))


@given(seen=observations, names=st.sets(st.sampled_from(("jobset", "workload", "pods", "progress"))))
def test_unread_sources_never_make_a_run_failed(seen: Observation, names: set[str]) -> None:
    """Reading less never turns a run that has not failed into one that has, but for one whose JobSet failed after the
    last checkpoint was saved: without that, the JobSet's word is the last.
    """
    seen = replace(seen, last_known=None, target="xpk", jobset=seen.jobset or jobset(), unread=())
    known = classify(seen)
    kinds = {"jobset": "jobsets", "workload": "workloads", "pods": "pods", "progress": "log"}
    less = replace(
        seen,
        jobset=None if "jobset" in names else seen.jobset,
        workload=None if "workload" in names else seen.workload,
        pods=None if "pods" in names else seen.pods,
        progress=None if "progress" in names else seen.progress,
        unread=not_read(*(kinds[name] for name in sorted(names))),
    )
    assert known.state == "failed" or known.reason == "after-last-step" or classify(less).state != "failed"


def what_is_only_shown_decides_nothing(observed: Observation) -> None:
    other = replace(
        observed, was=None if observed.was else jobset(), output=None if observed.output else "/a", found="x"
    )
    assert classify(other) == classify(observed)


def how_it_was_before_a_restart_decides_no_state(observed: Observation) -> None:
    """Nor anything of a run that was not restarted."""
    with_restart, untold = classify(observed), classify(replace(observed, before=None))
    assert with_restart.state == untold.state
    if with_restart != untold:
        assert observed.jobset is not None
        assert observed.jobset.restarts > 0
        assert "restarted" in {with_restart.reason, untold.reason}


@given(seen=observations, held=jobsets, restarts=st.integers(1, 3))
def test_an_old_restart_does_not_explain_missing_pods(seen: Observation, held: RunObject, restarts: int) -> None:
    """Of a restart whose time is unknown, it cannot be said that it was lately."""
    old = replace(held, restarts=restarts, created_at="2026-11-21T10:00:00Z", jobs=slices(active=2))
    late = replace(seen, target="xpk", unread=(), jobset=old, pods=None, before=None, observed_at=NOW)
    assert classify(late).reason != "restarted"


def an_unreachable_cluster_never_fails_a_run(observed: Observation) -> None:
    away = replace(observed, target="xpk", jobset=None, unread=not_read("jobsets"))
    status = classify(away)
    assert status is observed.last_known if observed.last_known else status.state != "failed"


@given(known=statuses)
def test_the_last_known_state_is_returned_unchanged(known: Status) -> None:
    away = absent("created", unread=not_read("jobsets"), last_known=known)
    once = classify(away)
    assert once is known
    assert classify(replace(away, last_known=once)) is known


@given(seen=observations, data=st.data())
def test_the_order_of_conditions_jobs_and_pods_does_not_change_the_state(
    seen: Observation, data: st.DataObject
) -> None:
    def shuffled(values: tuple[object, ...]) -> tuple[object, ...]:
        return tuple(data.draw(st.permutations(values)))

    jobset_read, workload = seen.jobset, seen.workload
    other = replace(
        seen,
        jobset=jobset_read
        and replace(jobset_read, conditions=shuffled(jobset_read.conditions), jobs=shuffled(jobset_read.jobs)),
        workload=workload and _with_conditions(workload, shuffled(workload.conditions)),
        pods=None if seen.pods is None else shuffled(seen.pods),
        unread=shuffled(seen.unread),
    )
    assert classify(other) == classify(seen)


@given(
    step=st.integers(0, 999),
    saved=st.none() | st.integers(0, 999),
    more=listed(conditions),
    jobs=listed(replicated_jobs),
)
def test_a_run_short_of_its_last_step_never_succeeds(step: int, saved: int | None, more: object, jobs: object) -> None:
    case = next(case[1] for case in CASES if case[0] == "completed, ended short")
    assert case.jobset is not None
    assert case.progress is not None
    short = replace(
        case,
        jobset=replace(case.jobset, conditions=more, jobs=jobs),
        progress=replace(case.progress, step=step, saved_step=saved),
    )
    assert classify(short).state in {"failed", "unknown"}


def no_false_condition_counts(observed: Observation) -> None:
    """Kueue keeps conditions and turns them False: a False one is as good as none, but for QuotaReserved's reason."""
    if observed.jobset:
        true = tuple(c for c in observed.jobset.conditions if c.status == "True")
        assert classify(replace(observed, jobset=replace(observed.jobset, conditions=true))) == classify(observed)
    if observed.workload:
        true = tuple(c for c in observed.workload.conditions if c.status == "True" or c.type == "QuotaReserved")
        less = replace(observed, workload=_with_conditions(observed.workload, true))
        assert classify(less) == classify(observed)


LAWS = (
    no_message_decides,
    no_run_succeeds_whose_steps_taught_nothing,
    what_is_only_shown_decides_nothing,
    how_it_was_before_a_restart_decides_no_state,
    an_unreachable_cluster_never_fails_a_run,
    no_false_condition_counts,
)


@given(seen=observations)
@example(seen=observation())
def test_every_observation_satisfies_the_laws(seen: Observation) -> None:
    """One test: an observation takes longer to make up than all of them to hold."""
    for law in LAWS:
        law(seen)


def test_every_reason_that_is_explained_is_given_by_a_stage() -> None:
    observations = [case[1] for case in (*CASES, *LOCAL)]
    given_by = {
        (status.state, status.reason) for observed_case in observations if (status := classify(observed_case)).reason
    }
    assert {(state, reason.slug) for reason in REASONS for state in reason.states} == given_by
