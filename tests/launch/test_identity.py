"""One run under one name: what the cluster, the records and the checkpoints say decides, whatever they say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.records.test_document import WHOLE
from tests.replacing import replace
from tests.stories import facts_for, spec_of, varied
from xsft.base.errors import Refused
from xsft.base.names import PATHWAYS_NAME_LIMIT, attempt_number
from xsft.cluster.jobset_fields import JOBSET, JobSet, JobSetStatus
from xsft.cluster.objects import ObjectMetadata, typed
from xsft.launch.identity import (
    AdoptJobSet,
    Decision,
    KeepFinished,
    RunHistory,
    StartAttempt,
    decide,
    decide_job,
    pass_over,
    recognise_jobset,
)
from xsft.records.document import unreadable
from xsft.records.jobset_paths import DIGEST_ANNOTATION, RUN_LABEL
from xsft.records.record import Record
from xsft.spec.digest import canonical, spec_digest
from xsft.spec.resolve import Run, resolve

NAME = "deepseek-ultrachat"
STEPS = 1000


def run_of(changes: Mapping[str, Any] | None = None) -> Run:
    spec = varied(spec_of("deepseek_ultrachat"), changes or {})
    return resolve(spec, facts_for(spec))[0]


RUN = run_of()
DIGEST = spec_digest(RUN)
PLACE = {"project": "my-project", "zone": "us-east5-b", "cluster": "my-cluster"}
OTHER = {"project": "other-project", "zone": "other-east5-c", "cluster": "other"}
LONGER = run_of({"train.steps": 2000, "train.checkpoint_period": 100})
MORE_STEPS = run_of({"train.steps": 2000})
FASTER = run_of({"train.learning_rate": 1e-3})
ELSEWHERE = run_of({"place": {"context": "other"}, "output": RUN.output})
OTHER_BATCH = run_of({"train.learning_rate": 1e-3, "train.per_device_batch_size": 2})


TERMINAL = {"live": None, "completed": "Completed", "failed": "Failed"}


def decided(world: RunHistory, run: Run = RUN) -> Decision:
    return decide(run, world=world)


def seen(state: Any = "live", *, attempt: int = 1, run: Run | None = RUN, name: str = NAME) -> JobSet:
    jobset = name if attempt == 1 else f"{name}-{attempt}"
    digest = spec_digest(run) if run else None
    return live_jobset(jobset, run_name=name if run else None, digest=digest, state=state)


def live_jobset(name: str, *, run_name: str | None, digest: str | None = None, state: str = "live") -> JobSet:
    labels = {RUN_LABEL: run_name} if run_name is not None else {}
    annotations = {DIGEST_ANNOTATION: digest} if digest else {}
    metadata = ObjectMetadata(name=name, uid=f"uid-{name}", labels=labels, annotations=annotations)
    return JobSet(metadata=metadata, status=JobSetStatus(terminal_state=TERMINAL[state]))


def record(outcome: Any = "created", *, number: int = 1, run: Run = RUN, uid: str | None = None) -> Record:
    jobset = NAME if number == 1 else f"{NAME}-{number}"
    attempt = replace(
        WHOLE.last,
        number=number,
        outcome=outcome,
        spec_digest=spec_digest(run),
        jobset=jobset,
        uid=uid,
        created_by=None,
    )
    spec = json.loads(canonical(run))
    return replace(WHOLE, run_name=NAME, spec=spec, spec_digest=spec_digest(run), attempts=(attempt,))


def failed_for(reason: str, slug: str | None = None) -> Record:
    before = record("failed")
    return replace(before, attempts=(replace(before.last, state_reason=slug, reason=reason),))


def taught_nothing() -> Record:
    return failed_for("40 steps had no target token", "no-target-tokens")


NOTHING = RunHistory()
TORN = unreadable(run_name=NAME, number=1, name="attempt-1.json", reason="torn")

TABLE: dict[str, tuple[RunHistory, Decision]] = {
    "nothing exists": (NOTHING, StartAttempt(attempt=1)),
    "live": (RunHistory(jobsets=(seen(),), records=(record(),)), AdoptJobSet(jobset=seen())),
    "live, no record": (RunHistory(jobsets=(seen(),)), AdoptJobSet(jobset=seen())),
    "live, its submitter was killed": (
        RunHistory(jobsets=(seen(),), records=(record("submitting"),)),
        AdoptJobSet(jobset=seen()),
    ),
    "second attempt live": (
        RunHistory(jobsets=(seen("failed"), seen(attempt=2)), records=(record(), record(number=2))),
        AdoptJobSet(jobset=seen(attempt=2)),
    ),
    "live, last step saved": (RunHistory(jobsets=(seen(),), latest_step=STEPS), AdoptJobSet(jobset=seen())),
    "completed": (
        RunHistory(jobsets=(seen("completed"),), records=(record(),), latest_step=STEPS),
        KeepFinished(steps=STEPS),
    ),
    "JobSet gone": (RunHistory(records=(record(),), latest_step=STEPS), KeepFinished(steps=STEPS)),
    "failed after its last save": (
        RunHistory(jobsets=(seen("failed"),), records=(record(),), latest_step=STEPS),
        KeepFinished(steps=STEPS),
    ),
    "failed after its last save, by its record": (
        RunHistory(records=(failed_for("a process was killed"),), latest_step=STEPS),
        KeepFinished(steps=STEPS),
    ),
    "no targets, by its record": (
        RunHistory(jobsets=(seen("completed"),), records=(taught_nothing(),), latest_step=STEPS),
        KeepFinished(steps=STEPS, worthless="40 steps had no target token"),
    ),
    "no targets, next attempt never created": (
        RunHistory(records=(taught_nothing(), record("not-created", number=2)), latest_step=STEPS),
        KeepFinished(steps=STEPS, worthless="40 steps had no target token"),
    ),
    "no targets, next attempt has targets": (
        RunHistory(records=(taught_nothing(), record(number=2)), latest_step=STEPS),
        KeepFinished(steps=STEPS),
    ),
    "last step saved, JobSet only": (
        RunHistory(jobsets=(seen("completed"),), latest_step=STEPS),
        KeepFinished(steps=STEPS),
    ),
    "ended without an error and short": (
        RunHistory(jobsets=(seen("completed"),), records=(record(),), latest_step=999),
        StartAttempt(attempt=2),
    ),
    "failed without a checkpoint": (
        RunHistory(jobsets=(seen("failed"),), records=(record(),)),
        StartAttempt(attempt=2),
    ),
    "failed, JobSet gone": (RunHistory(records=(record(),), latest_step=100), StartAttempt(attempt=2)),
    "two attempts failed": (RunHistory(jobsets=(seen("failed"), seen("failed", attempt=2))), StartAttempt(attempt=3)),
    "cancelled": (RunHistory(records=(record("cancelled"),), latest_step=100), StartAttempt(attempt=2)),
    "first begun, never created": (RunHistory(records=(record("submitting"),)), StartAttempt(attempt=1)),
    "refused by the cluster": (RunHistory(records=(record("not-created"),)), StartAttempt(attempt=1)),
    "second begun, never created": (
        RunHistory(jobsets=(seen("failed"),), records=(record(), record("submitting", number=2))),
        StartAttempt(attempt=2),
    ),
    "torn record, nothing else": (RunHistory(records=(TORN,)), StartAttempt(attempt=1)),
    "begun by another workload, never created": (
        RunHistory(records=(record("submitting", run=FASTER),)),
        StartAttempt(attempt=1),
    ),
    "refused for another workload": (RunHistory(records=(record("not-created", run=FASTER),)), StartAttempt(attempt=1)),
    "died as another workload, nothing saved": (
        RunHistory(jobsets=(seen("failed", run=FASTER),), records=(record(run=FASTER),), nothing_saved=True),
        StartAttempt(attempt=2),
    ),
    "cancelled as another workload, JobSet gone, nothing saved": (
        RunHistory(records=(record("cancelled", run=FASTER),), nothing_saved=True),
        StartAttempt(attempt=2),
    ),
    "more steps": (RunHistory(records=(record(run=RUN),), latest_step=STEPS), KeepFinished(steps=STEPS)),
}


@pytest.mark.parametrize("case", TABLE)
def test_decide_takes_the_expected_action_in_each_world(case: str) -> None:
    world, decision = TABLE[case]
    assert decided(world) == decision


REFUSED: dict[str, tuple[RunHistory, str]] = {
    "live with another workload": (
        RunHistory(jobsets=(seen(run=FASTER),), records=(record(run=FASTER),)),
        "train.learning_rate: 0.001 -> ",
    ),
    "live with two other values": (
        RunHistory(jobsets=(seen(run=OTHER_BATCH),), records=(record(run=OTHER_BATCH),)),
        r"train\.learning_rate: 0\.001 -> [^;]+; train\.per_device_batch_size: ",
    ),
    "live with another workload, its submitter was killed": (
        RunHistory(jobsets=(seen(run=FASTER),), records=(record("submitting", run=FASTER),)),
        "train.learning_rate: 0.001 -> ",
    ),
    "live with more steps": (
        RunHistory(jobsets=(seen(run=LONGER),), records=(record(run=LONGER),)),
        "train.steps: 2000 -> ",
    ),
    "live with another workload, unrecorded": (RunHistory(jobsets=(seen(run=FASTER),)), "not recorded here"),
    "ended with another workload": (RunHistory(records=(record(run=FASTER),)), "train.learning_rate: 0.001 -> "),
    "failed with another workload, its submitter was killed": (
        RunHistory(jobsets=(seen("failed", run=FASTER),), records=(record("submitting", run=FASTER),)),
        "train.learning_rate: 0.001 -> ",
    ),
    "begun by another workload, checkpoints exist": (
        RunHistory(records=(record("submitting", run=FASTER),), latest_step=10),
        "train.learning_rate: 0.001 -> ",
    ),
    "checkpoints of a JobSet that no record explains": (
        RunHistory(jobsets=(seen("failed", run=FASTER),), latest_step=10),
        "not recorded here",
    ),
    "checkpoints, record unreadable": (RunHistory(records=(TORN,), latest_step=10), "not recorded here"),
    "fewer steps than done": (
        RunHistory(records=(record(run=LONGER),), latest_step=2000),
        "2000 steps, more than the 1000",
    ),
    "nothing saved yet, may run elsewhere": (
        RunHistory(records=(record(run=ELSEWHERE),), nothing_saved=True),
        "place.context: ",
    ),
    "nothing saved, a record is torn": (
        RunHistory(records=(record("failed", run=FASTER), TORN), nothing_saved=True),
        "train.learning_rate: 0.001 -> ",
    ),
    "last step saved, no record": (RunHistory(latest_step=STEPS), "without a record of xsft"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_decide_refuses_a_conflicting_world_and_names_the_difference(case: str) -> None:
    world, message = REFUSED[case]
    with pytest.raises(Refused, match=message) as caught:
        decided(world)
    assert caught.value.fix


@pytest.mark.parametrize(
    ("before", "fix"),
    [
        (MORE_STEPS, "Cancel it (xsft cancel"),
        (run_of({"train.steps": 2000, "train.learning_rate": 1e-3}), "Use another name"),
    ],
    ids=["only the steps", "the steps and the learning rate"],
)
def test_an_active_run_of_fewer_steps_may_be_cancelled_or_waited_for(before: Run, fix: str) -> None:
    with pytest.raises(Refused, match=r"train\.steps: 2000 -> 1000") as caught:
        decided(RunHistory(jobsets=(seen(run=before),), records=(record(run=before),)))
    assert caught.value.fix.startswith(fix)


@pytest.mark.parametrize(("others", "attempt"), [({2}, 3), ({2, 3, 5}, 4), ({3}, 2), (set(), 2)])
def test_an_attempt_name_taken_by_another_run_is_passed_over(others: set[int], attempt: int) -> None:
    world = RunHistory(records=(record(),), latest_step=100, passed_over=frozenset(others))
    assert decided(world) == StartAttempt(attempt=attempt)


def test_a_refused_long_attempt_name_warns_that_a_new_name_starts_at_step_0() -> None:
    run = run_of({"name": "a" * (PATHWAYS_NAME_LIMIT - 2)})
    failed = seen("failed", attempt=9, run=run, name=run.run_name)
    with pytest.raises(Refused) as caught:
        decided(RunHistory(jobsets=(failed,), latest_step=700), run)
    assert "up to step 700" in caught.value.fix
    assert "starts at step 0" in caught.value.fix


def test_only_steps_and_their_saving_may_change_between_attempts() -> None:
    world = RunHistory(jobsets=(seen("completed"),), records=(record(),), latest_step=STEPS)
    assert decided(world, LONGER) == StartAttempt(attempt=2)
    with pytest.raises(Refused, match=r"train\.learning_rate") as caught:
        decided(world, FASTER)
    assert "steps" not in caught.value.message


@pytest.mark.parametrize("change", [{"data.num_epoch": 9}, {"data.num_epoch": 9, "train.steps": 1500}])
def test_a_run_whose_data_ended_continues_with_more_epochs(change: dict[str, Any]) -> None:
    world = RunHistory(jobsets=(seen("completed"),), records=(record("short"),), latest_step=700)
    assert decided(world, run_of(change)) == StartAttempt(attempt=2)
    with pytest.raises(Refused, match=r"data\.num_epoch: 5 -> 9"):
        decided(RunHistory(jobsets=(seen(),), records=(record(),)), run_of(change))  # it lives


def test_an_attempt_name_over_the_limit_is_refused() -> None:
    name = "a" * PATHWAYS_NAME_LIMIT
    run = run_of({"name": name})
    assert decided(RunHistory(), run) == StartAttempt(attempt=1)
    failed = replace(seen("failed", run=run, name=name))
    with pytest.raises(Refused, match="24 characters, and the limit is 22 in pathways") as caught:
        decided(RunHistory(jobsets=(failed,)), run)
    assert caught.value.fix == "Use a shorter name."


def test_the_limit_of_a_name_counts_the_hosts_of_its_pods() -> None:
    """A pod's name contains the numbers of its slice and host."""
    of = {"mode": "mcjax", "pathways": None, "tpu.type": "v5p-8192", "tpu.num_slices": 11}  # 1,024 hosts
    assert decided(NOTHING, run_of({**of, "name": "a" * 39})) == StartAttempt(attempt=1)
    with pytest.raises(Refused, match="40 characters, and the limit is 39 in mcjax"):
        decided(NOTHING, run_of({**of, "name": "a" * 40}))


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({}, "live"),
        ({"conditions": []}, "live"),
        ({"conditions": [{"type": "Suspended", "status": "True"}]}, "live"),
        ({"conditions": [{"type": "Completed", "status": "False"}, {"type": "Failed", "status": "False"}]}, "live"),
        ({"conditions": [{"type": "Completed", "status": "True"}]}, "completed"),
        ({"conditions": [{"type": "Failed", "status": "True"}]}, "failed"),
        ({"terminalState": "Completed"}, "completed"),
        ({"terminalState": "Failed", "conditions": [{"type": "StartupPolicyInProgress", "status": "True"}]}, "failed"),
    ],
)
def test_a_jobsets_state_is_read_from_its_status(status: Mapping[str, Any], state: str) -> None:
    labels, annotations = {RUN_LABEL: NAME}, {DIGEST_ANNOTATION: DIGEST}
    metadata = {"name": f"{NAME}-3", "uid": "u", "labels": labels, "annotations": annotations}
    jobset_read = typed({"metadata": metadata, "status": status}, JOBSET)
    assert (jobset_read.labelled_run, jobset_read.spec_digest, jobset_read.attempt) == (NAME, DIGEST, 3)
    assert (jobset_read.live, jobset_read.status.terminal) == (state == "live", TERMINAL[state])


def test_a_run_that_ends_in_a_number_is_no_attempt_of_another() -> None:
    assert live_jobset("a-2", run_name="a-2").attempt == 1
    assert live_jobset("a-2-2", run_name="a-2").attempt == 2


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"namespace": "other"},
        {"place": {"context": "other"}, "output": RUN.output},
        *({"place": PLACE | {key: other}, "output": RUN.output} for key, other in OTHER.items()),
    ],
)
def test_a_run_begun_elsewhere_is_refused_unless_it_was_not_created(elsewhere: dict[str, Any]) -> None:
    moved = run_of(elsewhere)
    with pytest.raises(Refused) as caught:
        decided(RunHistory(records=(record("submitting"),)), moved)
    assert caught.value.problem_id == "begun-elsewhere"
    assert "use another name" in caught.value.fix
    assert "other" in caught.value.message
    assert "my-project/us-east5-b/my-cluster, namespace " in caught.value.message
    assert decided(RunHistory(records=(record("not-created"),)), moved) == StartAttempt(attempt=1)
    assert decided(RunHistory(records=(record("submitting"),))) == StartAttempt(attempt=1)


@pytest.mark.parametrize("run", [RUN, FASTER], ids=["same run", "other learning rate"])
def test_a_run_that_is_being_deleted_is_neither_adopted_nor_followed(run: Run) -> None:
    gone = {"deletionTimestamp": "2026-11-21T10:00:00Z"}
    manifest = {"metadata": {"name": NAME, "uid": "u", "labels": {RUN_LABEL: NAME}, **gone}}
    leaving = typed(manifest, JOBSET)
    with pytest.raises(Refused) as caught:
        decided(RunHistory(jobsets=(leaving,), records=(record(),)), run)
    assert caught.value.problem_id == "jobset-deleting"
    assert NAME in caught.value.fix
    ended = replace(leaving, status=JobSetStatus(terminal_state="Failed"))
    if run is RUN:
        assert decided(RunHistory(jobsets=(ended,), records=(record(),))) == StartAttempt(attempt=2)


RUNS = st.sampled_from([RUN, LONGER, FASTER])
STATES = st.sampled_from(["live", "completed", "failed"])
ATTEMPTS = st.integers(1, 9)
SEEN = st.builds(lambda state, attempt, run: seen(state, attempt=attempt, run=run), STATES, ATTEMPTS, RUNS)
OUTCOMES = st.sampled_from(["submitting", "not-created", "created", "failed", "completed", "cancelled", "unknown"])
RECORDS = st.builds(lambda o, n, run: record(o, number=n, run=run), OUTCOMES, ATTEMPTS, RUNS) | st.just(TORN)
WORLDS = st.builds(
    RunHistory,
    jobsets=st.lists(SEEN, max_size=4, unique_by=lambda s: s.name).map(tuple),
    records=st.lists(RECORDS, max_size=4).map(lambda rs: tuple(sorted(rs, key=lambda r: r.last.number))),
    latest_step=st.none() | st.integers(0, 3000),
    passed_over=st.frozensets(st.integers(2, 9)),
)


def outcome(world: RunHistory, run: Run) -> Decision | None:
    """None: refused."""
    try:
        return decided(world, run)
    except Refused:
        return None


@given(world=WORLDS, run=RUNS)
def test_the_decision_in_any_world_makes_no_second_run(world: RunHistory, run: Run) -> None:
    match outcome(world, run):
        case AdoptJobSet(jobset=found):
            assert found in world.jobsets
            assert (found.live, found.spec_digest) == (True, spec_digest(run))
        case KeepFinished(steps=steps):
            assert steps == world.latest_step == run.spec.train.steps
        case StartAttempt(attempt=attempt):
            assert not any(s.live for s in world.jobsets)
            assert attempt not in {s.attempt for s in world.jobsets}  # never a name that is taken
            assert attempt not in world.passed_over
        case None:
            assert world != RunHistory()


@given(world=WORLDS, more=SEEN, run=RUNS)
def test_one_more_jobset_never_makes_a_second_run(world: RunHistory, more: JobSet, run: Run) -> None:
    fuller = replace(world, jobsets=(*world.jobsets, more))
    if isinstance(outcome(world, run), AdoptJobSet):
        assert not isinstance(outcome(fuller, run), StartAttempt)
    if more.live:
        assert not isinstance(outcome(fuller, run), StartAttempt | KeepFinished)


@given(world=WORLDS, run=RUNS)
def test_a_started_attempt_is_adopted_by_the_next_call(world: RunHistory, run: Run) -> None:
    """Also where the submitter was killed before it could complete the record."""
    decision = outcome(world, run)
    if isinstance(decision, StartAttempt):
        created = seen(attempt=decision.attempt, run=run)
        begun = record("submitting", number=decision.attempt, run=run)
        after = replace(world, jobsets=(*world.jobsets, created), records=(*world.records, begun))
        assert outcome(after, run) == AdoptJobSet(jobset=created)
        assert outcome(replace(after, records=world.records), run) == AdoptJobSet(jobset=created)


@given(world=WORLDS, run=RUNS)
def test_an_attempt_only_begun_leaves_its_number_to_the_next_call(world: RunHistory, run: Run) -> None:
    """A submitter that died before its create leaves the number to the next one of the same workload."""
    decision = outcome(world, run)
    if isinstance(decision, StartAttempt) and not any(r.last.number > decision.attempt for r in world.records):
        begun = record("submitting", number=decision.attempt, run=run)
        assert outcome(replace(world, records=(*world.records, begun)), run) == decision


@pytest.mark.parametrize("name", ["a-02", "a-²", "a-x", "a-0", "a-1", "another"])
def test_a_name_that_xsft_never_gives_is_no_attempt(name: str) -> None:
    """As `status` and `why` count: one parser tells both."""
    assert live_jobset(name, run_name="a").attempt == 1
    assert attempt_number(name, first="a") is None


@given(st.text("a-0123456789", max_size=8), st.text("a-", min_size=1, max_size=3))
def test_attempts_are_counted_by_one_parser(name: str, run_name: str) -> None:
    counted = live_jobset(name, run_name=run_name).attempt
    assert counted == (attempt_number(name, first=run_name) or 1)


LEAVING = replace(seen(), metadata=replace(seen().metadata, deletion_timestamp="2026-11-21T10:00:00Z"))
JOB = RunHistory(jobsets=(seen(),), records=(record("created"),))
JOBS: dict[str, tuple[RunHistory, Decision | str]] = {
    "nothing exists": (NOTHING, StartAttempt(attempt=1)),
    "live": (JOB, AdoptJobSet(jobset=seen())),
    "live, result exists": (replace(JOB, made=True), AdoptJobSet(jobset=seen())),
    "two attempts live": (
        RunHistory(jobsets=(seen(attempt=10), seen(attempt=9))),
        AdoptJobSet(jobset=seen(attempt=10)),
    ),
    "live with other inputs": (RunHistory(jobsets=(seen(run=LONGER),)), "job-differs"),
    "being deleted": (RunHistory(jobsets=(LEAVING,)), "jobset-deleting"),
    "result exists": (RunHistory(jobsets=(seen("completed"),), made=True), KeepFinished(steps=0)),
    "ended without a result": (RunHistory(jobsets=(seen("failed"),)), StartAttempt(attempt=2)),
    "next name taken": (RunHistory(jobsets=(seen("failed"),), passed_over=frozenset({2})), StartAttempt(attempt=3)),
}


@pytest.mark.parametrize("case", JOBS)
def test_decide_job_takes_the_expected_action_in_each_world(case: str) -> None:
    world, expected = JOBS[case]
    if not isinstance(expected, str):
        assert decide_job(RUN, digest=DIGEST, world=world) == expected
        return
    with pytest.raises(Refused) as caught:
        decide_job(RUN, digest=DIGEST, world=world)
    assert caught.value.problem_id == expected
    assert NAME in caught.value.fix


def test_a_job_that_may_still_write_elsewhere_is_refused() -> None:
    moved = run_of({"namespace": "other"})
    for outcome in ("submitting", "created"):
        with pytest.raises(Refused) as caught:
            decide_job(moved, digest=DIGEST, world=RunHistory(records=(record(outcome),)))
        assert caught.value.problem_id == "begun-elsewhere"
        assert "model.hf.converted" in caught.value.fix
    for outcome in ("failed", "completed", "not-created"):
        assert isinstance(decide_job(moved, digest=DIGEST, world=RunHistory(records=(record(outcome),))), StartAttempt)
    assert decide_job(RUN, digest=DIGEST, world=RunHistory(records=(record("created"),))) == StartAttempt(attempt=2)


def test_a_job_without_a_slice_has_one_host() -> None:
    assert decide_job(replace(RUN, slice=None), digest=DIGEST, world=NOTHING) == StartAttempt(attempt=1)


OTHER = live_jobset(f"{NAME}-2", run_name=f"{NAME}-2")
BARE = live_jobset(OTHER.name, run_name=None)


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
    assert recognise_jobset(seen(run=None), run_name=NAME, records=records, as_told=as_told).labelled_run is None


@pytest.mark.parametrize(
    "job_set",
    [OTHER, live_jobset(f"{NAME}-2", run_name=f"{NAME}-2", state="failed"), BARE],
    ids=["live", "failed", "without labels"],
)
def test_a_jobset_with_the_name_of_a_later_attempt_is_passed_over(job_set: JobSet) -> None:
    world = RunHistory(records=(record(),), latest_step=100)
    assert pass_over(job_set, attempt=2, world=world) == replace(world, passed_over=frozenset({2}))


@pytest.mark.parametrize("owner", [f"{NAME}-2", None])
@pytest.mark.parametrize("saved", [None, 100])
def test_a_foreign_jobset_with_the_name_of_the_run_is_refused(owner: str | None, saved: int | None) -> None:
    """What it names as the way out loses no step."""
    job_set = live_jobset(NAME, run_name=owner)
    with pytest.raises(Refused, match=f"the name {NAME} is taken by a JobSet") as caught:
        pass_over(job_set, attempt=1, world=RunHistory(latest_step=saved))
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


def passed(job_set: JobSet, *, attempt: int, world: RunHistory) -> RunHistory | None:
    """None: refused."""
    try:
        return pass_over(job_set, attempt=attempt, world=world)
    except Refused:
        return None
