"""One run, whatever happens to its submitters, and its true state from the next call."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.test_cluster import CREATE, container
from tests.fakes.clusters import ClusterApi
from tests.fakes.gcs import Bucket, Failure
from tests.faults.world import deny
from tests.observations import NOW, jobset, observed, said
from tests.replacing import replace
from tests.submissions import FOLDER, NAME, STEPS, good_image, submitter
from tests.submissions import planned as shown
from xsft.base.errors import EnvironmentMissing, Refused, RunFailed, SpecError, Unknown, Unreachable, XsftError
from xsft.base.problems import Problem, error
from xsft.checks.demand import Demand
from xsft.checks.pod_identity import PodRights
from xsft.cluster.exactly_once import CreatedObject
from xsft.cluster.objects import JOB_UID_LABEL
from xsft.cluster.observation import Status
from xsft.image.contents import ImageLook
from xsft.launch.identity import LastEnd, Proposal
from xsft.launch.recording import manifest_digest, record_of
from xsft.launch.submission import Submission, Submitter, create_planned
from xsft.launch.through_xpk import NOTE
from xsft.planning.steps import Plan
from xsft.records.record import ReadBack, Record
from xsft.records.record_files import RecordStore
from xsft.runs.record_end import record_worthless
from xsft.runs.rows import row_of
from xsft.trainer.shuffling import order_at_first

pytestmark = pytest.mark.loopback

ROOT = Path(__file__).parents[2]
LIST = r"^GET .*/jobsets\?labelSelector"
READ = r"^GET .*/jobsets/"
FASTER = {"train.learning_rate": 1e-3}
Submits = Callable[..., Submission]
Plans = Callable[..., Plan]


@pytest.fixture
def ready(cluster_api: ClusterApi, bucket: Bucket, tmp_path: Path) -> Callable[..., Submitter]:
    """Makes a submitter of this test's cluster and bucket."""

    def make(**settings: Any) -> Submitter:
        return submitter(cluster_api, bucket_url=bucket.url, state=tmp_path / "state", **settings)

    return make


@pytest.fixture
def planned(cluster_api: ClusterApi) -> Callable[..., Plan]:
    """The shown workload's plan, for this test's namespace."""
    return partial(shown, namespace=cluster_api.namespace)


@pytest.fixture
def submit(ready: Callable[..., Submitter], planned: Callable[..., Plan]) -> Submits:
    def send(plan: Plan | None = None, **settings: Any) -> Submission:
        return ready(**settings).submit(plan or planned(settings.get("changes")))

    return send


def stored(api: ClusterApi) -> dict[str, dict[str, Any]]:
    return api.world.jobsets()


def uids(api: ClusterApi) -> list[str]:
    return [jobset_object["metadata"]["uid"] for jobset_object in stored(api).values()]


def ends(api: ClusterApi, how: str, name: str = NAME) -> None:
    api.world.end(name, how)


def saves(bucket: Bucket, step: int, *, whole: bool = True) -> None:
    folder = f"runs/{NAME}/checkpoints/{step}"
    bucket.objects[f"{folder}/model_params/_METADATA"] = b"{}"
    if whole:
        bucket.objects[f"{folder}/commit_success.txt"] = b"done"


def recorded(make: Callable[..., Submitter]) -> tuple[Record, ...]:
    return make().store.read_run("gs://my-bucket/runs", NAME)


def nothing_left(api: ClusterApi, bucket: Bucket) -> None:
    assert stored(api) == {}
    assert bucket.objects == {}


@pytest.mark.early
def test_the_created_jobset_is_the_manifest_of_the_plan(
    cluster_api: ClusterApi, submit: Submits, planned: Plans
) -> None:
    plan = planned()
    done = submit(plan)
    (sent,) = cluster_api.server.asked(CREATE)
    assert sent.body == plan.manifest
    assert sent.query["fieldManager"] == f"xsft-{'a' * 16}", "so that a lost answer can be told from another's create"
    assert done == Submission(
        plan=plan,
        action="created",
        jobset=NAME,
        uid=uids(cluster_api)[0],
        record=f"gs://my-bucket/{FOLDER}/attempt-1.json",
    )


def test_each_slow_step_is_shown_before_it_begins(cluster_api: ClusterApi, submit: Submits) -> None:
    shown: list[tuple[str, int]] = []
    submit(progress=lambda line: shown.append((line, len(cluster_api.server.seen))))
    lines, requests = zip(*shown, strict=True)
    assert lines == (
        "reading the output, the cluster and the image",
        "validating the JobSet and its Jobs with a dry run",
        "waiting for MaxText's own parser",
        f"creating JobSet {NAME}",
    )
    assert requests[0] == 0
    assert len(cluster_api.server.asked(CREATE)) == 1
    assert requests[-1] == cluster_api.server.seen.index(cluster_api.server.asked(CREATE)[0])


@pytest.mark.standin_only("identity")
def test_the_rights_of_the_pods_account_are_read_before_the_create(
    cluster_api: ClusterApi, bucket: Bucket, submit: Submits
) -> None:
    objects = cluster_api.standin.objects
    objects.add("/serviceaccounts", "default", namespace=cluster_api.namespace)
    (node, *_) = cluster_api.connect().nodes("cloud.google.com/gke-nodepool=tpu-np-0")
    machine = "gce://my-project/us-east5-b/gke-1"
    objects.add("/nodes", node.name, metadata={"labels": node.metadata.labels}, spec={"providerID": machine})
    sources: list[str] = []

    def rights(source: str, _demand: Demand) -> PodRights:
        sources.append(source)
        return PodRights(email="pods@x", writes=False)

    with pytest.raises(SpecError, match="pods@x"):
        submit(rights=rights)
    assert sources == [machine]
    nothing_left(cluster_api, bucket)


class Person:
    """Answers, and remembers what was proposed."""

    def __init__(self, *, agrees: bool) -> None:
        self.agrees = agrees
        self.asked: list[Proposal] = []

    def __call__(self, proposal: Proposal) -> None:
        self.asked.append(proposal)
        if not self.agrees:
            raise Refused("Nothing was created.")


def test_declining_the_prompt_creates_nothing(cluster_api: ClusterApi, submit: Submits, bucket: Bucket) -> None:
    person = Person(agrees=False)
    with pytest.raises(Refused):
        submit(confirm=person)
    nothing_left(cluster_api, bucket)
    (proposal,) = person.asked
    assert (proposal.plan.jobset, proposal.attempt, proposal.since, proposal.changed) == (NAME, 1, None, ())


def test_adopted_and_finished_runs_show_no_prompt(cluster_api: ClusterApi, submit: Submits, bucket: Bucket) -> None:
    person = Person(agrees=True)
    actions = [submit(confirm=person).action for _ in range(2)]
    ends(cluster_api, "Completed")
    saves(bucket, STEPS)
    assert [*actions, submit(confirm=person).action] == ["created", "adopted", "finished"]
    assert len(person.asked) == 1


def test_the_prompt_shows_changes_since_the_last_attempt(
    cluster_api: ClusterApi, submit: Submits, bucket: Bucket
) -> None:
    person = Person(agrees=True)
    submit()
    ends(cluster_api, "Failed")
    saves(bucket, 700)
    submit(confirm=person, changes={"train.steps": STEPS * 2})
    (proposal,) = person.asked
    assert (proposal.plan.jobset, proposal.attempt, proposal.world.latest_step) == (f"{NAME}-2", 2, 700)
    assert (proposal.since, proposal.changed[-1]) == (1, f"train.steps: {STEPS} -> {STEPS * 2}")


def test_dry_runs_precede_the_create_and_all_requests_are_strict(cluster_api: ClusterApi, submit: Submits) -> None:
    submit()
    posts = [
        (request.path.rpartition("/")[2], request.query)
        for request in cluster_api.server.seen
        if request.method == "POST"
    ]
    assert [(kind, "dryRun" in query) for kind, query in posts] == [
        ("jobsets", True),
        ("jobs", True),
        ("jobs", True),
        ("pods", True),
        ("pods", True),
        ("jobsets", False),
    ]
    assert {query["fieldValidation"] for _, query in posts} == {"Strict"}
    assert {request.method for request in cluster_api.server.seen} == {"GET", "POST"}
    assert not cluster_api.server.asked("^GET .*/jobsets/None")


def test_the_record_contains_the_outcome_and_the_uid(
    cluster_api: ClusterApi, submit: Submits, ready: Any, planned: Plans
) -> None:
    plan = planned()
    done = submit(plan, notes=(NOTE,))
    assert NOTE in done.problems
    (record,) = recorded(ready)
    last = record.last
    assert NOTE in last.problems
    assert (last.outcome, last.uid, last.jobset) == ("created", uids(cluster_api)[0], NAME)
    assert (last.xpk_argv, last.argv) == (plan.xpk_argv, plan.trainer_argv)
    assert last.read_back is not None
    assert last.read_back.outcome == "same"


def test_submitting_twice_is_harmless(cluster_api: ClusterApi, bucket: Bucket, submit: Submits) -> None:
    first = submit()
    cluster_api.server.seen.clear()
    objects_before = dict(bucket.objects)

    def not_needed(_attempt: int) -> Plan:
        raise AssertionError("the first attempt's plan was made again")

    second = submit(by="b" * 16, replan=not_needed)
    assert (second.action, second.uid, second.record) == ("adopted", first.uid, first.record)
    assert {request.method for request in cluster_api.server.seen} == {"GET"}
    assert bucket.objects == objects_before


def test_a_failed_attempt_gets_a_second_that_resumes(
    cluster_api: ClusterApi, bucket: Bucket, submit: Submits, ready: Any
) -> None:
    submit()
    ends(cluster_api, "Failed")
    saves(bucket, 400)
    done = submit(by="b" * 16)
    assert (done.action, done.jobset, done.problems) == ("attempt", f"{NAME}-2", ())
    first, second = (container(jobset_object)["command"] for jobset_object in stored(cluster_api).values())
    assert first == second  # the same run_name and output: MaxText resumes from the last checkpoint
    assert [(r.last.number, r.last.outcome) for r in recorded(ready)] == [(1, "created"), (2, "created")]
    assert (done.resumed_from, done.resumed_order) == (400, order_at_first(done.plan.run))
    last = recorded(ready)[-1].last
    assert (last.action, last.submitter, last.created_by) == ("attempt", "b" * 16, "b" * 16)
    assert (last.resumed_from, last.manifest_digest) == (400, manifest_digest(done.plan.manifest))
    adopted = submit()
    assert (adopted.jobset, adopted.plan.jobset) == (f"{NAME}-2", f"{NAME}-2")
    assert (adopted.resumed_from, adopted.resumed_order) == (None, None)


@pytest.mark.parametrize("owner", [f"{NAME}-2", None])
def test_a_next_name_that_another_run_has_is_passed_over(
    cluster_api: ClusterApi, bucket: Bucket, submit: Submits, ready: Any, owner: str | None
) -> None:
    """A run may itself be named `…-2`, and a JobSet may have no known owner."""
    submit()
    ends(cluster_api, "Failed")
    saves(bucket, 400)
    cluster_api.world.add_jobset(f"{NAME}-2", labels={"xsft.dev/run": owner} if owner else None)
    other = stored(cluster_api)[f"{NAME}-2"]
    done = submit(by="b" * 16)
    assert (done.action, done.jobset, [p.id for p in done.problems]) == ("attempt", f"{NAME}-3", ["name-passed-over"])
    assert f"The name {NAME}-2 belongs to" in done.problems[0].message
    jobsets_by_name = stored(cluster_api)
    assert (
        container(jobsets_by_name[f"{NAME}-3"])["command"] == container(jobsets_by_name[NAME])["command"]
    )  # the same output: it resumes
    passed_over = jobsets_by_name[f"{NAME}-2"]
    assert (passed_over["metadata"]["uid"], passed_over["spec"]) == (other["metadata"]["uid"], other["spec"])
    assert [(r.last.number, r.last.jobset) for r in recorded(ready)] == [(1, NAME), (3, f"{NAME}-3")]
    assert (submit().action, submit().jobset) == ("adopted", f"{NAME}-3")
    ends(cluster_api, "Failed", f"{NAME}-3")
    assert submit(by="c" * 16).jobset == f"{NAME}-4"


def test_a_next_name_that_another_run_takes_meanwhile_is_passed_over(
    cluster_api: ClusterApi, bucket: Bucket, submit: Submits, ready: Any
) -> None:
    def overtaken(cluster: Any, plan: Plan, mark: str) -> Any:
        if plan.jobset == f"{NAME}-2":
            cluster_api.world.add_jobset(f"{NAME}-2", labels={"xsft.dev/run": f"{NAME}-2"})
        return create_planned(cluster, plan, mark)

    submit()
    ends(cluster_api, "Failed")
    saves(bucket, 400)
    assert submit(by="b" * 16, create=overtaken).jobset == f"{NAME}-3"
    outcomes = [(r.last.number, r.last.outcome) for r in recorded(ready)]
    assert outcomes == [(1, "created"), (2, "not-created"), (3, "created")]
    assert recorded(ready)[1].last.reason == f"{NAME}-2 belongs to run {NAME}-2"


def test_an_adopted_run_that_is_suspended_without_a_queue_is_reported(cluster_api: ClusterApi, submit: Submits) -> None:
    submit()
    cluster_api.world.unqueue(NAME)
    done = submit(by="b" * 16)
    assert (done.action, [p.id for p in done.problems]) == ("adopted", ["suspended"])
    assert f"patch jobset {NAME}" in done.problems[0].fix


@pytest.mark.standin_only("finished")
def test_a_jobset_that_kueue_never_starts_gets_a_second_attempt(
    cluster_api: ClusterApi, bucket: Bucket, submit: Submits
) -> None:
    """As one that was created again from its own YAML: it stays suspended, and its Workload is Finished."""
    first = submit()
    finished = {"type": "Finished", "status": "True", "reason": "FailedToStart"}
    cluster_api.standin.objects.add(
        "kueue.x-k8s.io/workloads",
        f"jobset-{NAME}-1a2b3",
        namespace="default",
        metadata={"labels": {JOB_UID_LABEL: first.uid}},
        spec={"queueName": "multislice-queue"},
        status={"conditions": [finished]},
    )
    stored(cluster_api)[NAME]["spec"]["suspend"] = True
    done = submit(by="b" * 16)
    assert (done.action, done.jobset) == ("attempt", f"{NAME}-2")


def test_a_run_with_its_last_step_saved_is_finished(cluster_api: ClusterApi, bucket: Bucket, submit: Submits) -> None:
    first = submit()
    ends(cluster_api, "Completed")
    saves(bucket, STEPS)
    done = submit()
    assert (done.action, done.uid, done.steps, done.record) == ("finished", first.uid, STEPS, first.record)
    assert done.jobset == NAME
    cluster_api.world.delete(NAME)  # its time to live is over
    gone = submit()
    assert (gone.action, gone.jobset, gone.uid, gone.steps) == ("finished", None, None, STEPS)


def wipe(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def truncate(folder: Path) -> None:
    for file in folder.glob("*.json"):
        file.write_bytes(file.read_bytes()[:90])


@pytest.mark.parametrize("lose", [wipe, truncate], ids=["wiped", "truncated"])
@pytest.mark.parametrize("end", ["", "Completed"], ids=["adopted", "finished"])
def test_an_adopted_or_finished_run_is_indexed_again(
    cluster_api: ClusterApi,
    bucket: Bucket,
    submit: Submits,
    ready: Any,
    tmp_path: Path,
    end: str,
    lose: Callable[[Path], None],
) -> None:
    """The home may be another machine's, or a kill may have cut the entry."""
    first, store = submit(), ready().store
    (entry,) = store.local_index().entries
    if end:
        ends(cluster_api, end)
        saves(bucket, STEPS)
    for records in ("kept", "gone"):
        lose(tmp_path / "state" / "runs")
        if records == "gone":
            for name in [name for name in bucket.objects if name.startswith(FOLDER)]:
                del bucket.objects[name]
        done = submit()
        assert (done.action, done.uid) == ("finished" if end else "adopted", first.uid)
        (again,) = store.local_index().entries
        assert replace(again, updated_at="", record="") == replace(entry, updated_at="", record="")


def test_a_finished_run_is_reported_as_its_last_attempt(
    cluster_api: ClusterApi, bucket: Bucket, submit: Submits
) -> None:
    submit()
    ends(cluster_api, "Failed")
    second = submit(by="b" * 16)
    ends(cluster_api, "Completed", f"{NAME}-2")
    saves(bucket, STEPS)
    done = submit()
    assert (done.action, done.jobset, done.uid, done.record) == ("finished", second.jobset, second.uid, second.record)


@pytest.mark.parametrize("placed", [True, False])
def test_the_output_is_checked_for_the_zone_of_the_cluster(submit: Submits, planned: Plans, placed: bool) -> None:
    asked_zones: list[tuple[str, str | None]] = []

    def writable(output: str, zone: str | None) -> tuple[Problem, ...]:
        asked_zones.append((output, zone))
        return ()

    plan = planned()
    assert plan.run.place
    submit(plan if placed else replace(plan, run=replace(plan.run, place=None)), writable=writable)
    assert asked_zones == [("gs://my-bucket/runs", plan.run.place.zone if placed else None)]


def test_a_completed_run_without_target_tokens_has_failed(
    cluster_api: ClusterApi, bucket: Bucket, submit: Submits, ready: Callable[..., Submitter]
) -> None:
    first = submit()
    ends(cluster_api, "Completed")
    saves(bucket, STEPS)
    observation = observed(NAME, jobset=jobset(NAME, uid=first.uid, output="gs://my-bucket/runs"))
    observation = replace(observation, progress=said(STEPS, no_target_steps=STEPS))
    row = row_of(observation, Status(state="failed", reason="no-target-tokens"), now=NOW)
    assert record_worthless(ready().store, row) == ()
    cluster_api.world.delete(NAME)
    before = dict(bucket.objects)
    with pytest.raises(RunFailed, match=f"{STEPS} steps in a row had no target token") as failed:
        submit()
    assert failed.value.exit_status == 6
    assert "another name" in failed.value.fix
    assert bucket.objects == before


def test_a_partly_saved_last_step_does_not_finish_a_run(
    cluster_api: ClusterApi, bucket: Bucket, submit: Submits
) -> None:
    submit()
    ends(cluster_api, "Completed")
    saves(bucket, STEPS - 10)
    saves(bucket, STEPS, whole=False)
    assert submit().action == "attempt"


def test_another_workload_is_refused_with_the_difference(
    cluster_api: ClusterApi, bucket: Bucket, submit: Submits
) -> None:
    submit()
    with pytest.raises(Refused, match=r"is active with another workload .*train\.learning_rate: \S+ -> 0\.001"):
        submit(changes=FASTER)
    ends(cluster_api, "Failed")
    saves(bucket, 10, whole=False)
    with pytest.raises(Refused, match=r"belongs to another workload .*train\.learning_rate: \S+ -> 0\.001"):
        submit(changes=FASTER)
    assert list(stored(cluster_api)) == [NAME]


def test_a_changed_workload_follows_a_run_that_died_with_nothing_saved(
    cluster_api: ClusterApi, submit: Submits, ready: Any
) -> None:
    person = Person(agrees=True)
    submit()
    ends(cluster_api, "Failed")
    done = submit(changes=FASTER, confirm=person)
    assert (done.action, done.jobset, list(stored(cluster_api))) == ("attempt", f"{NAME}-2", [NAME, f"{NAME}-2"])
    (proposal,) = person.asked
    assert (proposal.since, len(proposal.changed), proposal.repeats) == (1, 1, False)
    assert proposal.world.last_end is not None
    assert proposal.world.last_end.attempt == 1
    with pytest.raises(Refused, match="is active with another workload"):
        submit()
    ends(cluster_api, "Failed", f"{NAME}-2")
    cluster_api.world.delete(f"{NAME}-2")
    assert submit(confirm=person).jobset == f"{NAME}-3"
    assert person.asked[1].world.last_end == LastEnd(
        attempt=2,
        digest=recorded(ready)[1].spec_digest,
        message="Its JobSet is gone, and its record does not say how it ended.",
    )


def test_a_run_whose_pods_still_run_is_protected(cluster_api: ClusterApi, submit: Submits) -> None:
    submit()
    ends(cluster_api, "Failed")
    running = LastEnd(attempt=1, digest=None, message="It failed.", still_runs=True)
    with pytest.raises(Refused, match="belongs to another workload"):
        submit(changes=FASTER, read_end=lambda *_, **__: running)


def test_more_steps_resume_a_finished_run(cluster_api: ClusterApi, bucket: Bucket, submit: Submits) -> None:
    submit()
    ends(cluster_api, "Completed")
    saves(bucket, STEPS)
    done = submit(changes={"train.steps": 2 * STEPS})
    assert (done.action, done.jobset) == ("attempt", f"{NAME}-2")


def test_checkpoints_without_a_record_are_reported(bucket: Bucket, submit: Submits) -> None:
    saves(bucket, 10)
    done = submit()
    assert ([p.id for p in done.problems], done.resumed_from) == (["resumes-unrecorded"], 10)


@pytest.mark.parametrize("action", ["cut-after", "hang-after"])
def test_a_response_lost_after_the_create_is_found_created(
    cluster_api: ClusterApi, submit: Submits, action: str
) -> None:
    if action == "hang-after":
        cluster_api.expect_silence()
    cluster_api.server.fail(CREATE, action=action)
    done = submit()
    assert (done.action, [done.uid]) == ("created", uids(cluster_api))
    assert len(cluster_api.server.asked(CREATE)) == 1


@pytest.mark.parametrize("code", [500, 503])
def test_a_server_error_at_the_create_is_retried(cluster_api: ClusterApi, submit: Submits, code: int) -> None:
    cluster_api.server.fail(CREATE, code=code)
    assert submit().action == "created"
    assert len(uids(cluster_api)) == 1


@pytest.mark.parametrize("action", ["cut-after", "hang-after", "cut-before"])
def test_an_unknown_outcome_is_reported_and_the_next_call_resolves_it(
    cluster_api: ClusterApi, submit: Submits, ready: Any, action: str
) -> None:
    def create(cluster: Any, plan: Plan, mark: str) -> Any:
        cluster_api.server.fail(CREATE, action=action)
        cluster_api.server.fail(READ, action="cut-before", times=9)
        return create_planned(cluster, plan, mark)

    if action == "hang-after":
        cluster_api.expect_silence()
    with pytest.raises(Unknown) as caught:
        submit(create=create)
    assert caught.value.exit_status == 8
    assert recorded(ready)[0].last.outcome == "submitting"
    cluster_api.server.faults.clear()
    done = submit(by="b" * 16)
    assert done.action == ("created" if action == "cut-before" else "adopted")
    assert uids(cluster_api) == [done.uid]


def test_retry_after_of_a_busy_server_is_obeyed(cluster_api: ClusterApi, submit: Submits) -> None:
    cluster_api.server.fail(CREATE, code=429, retry_after="3")
    assert submit().action == "created"
    assert cluster_api.waits == [3.0]


@pytest.mark.parametrize("attempt", [1, 2])
def test_a_name_taken_between_read_and_create_is_adopted(
    cluster_api: ClusterApi, bucket: Bucket, submit: Submits, planned: Plans, attempt: int
) -> None:
    def overtaken(cluster: Any, plan: Plan, mark: str) -> Any:
        first = create_planned(cluster, planned(attempt=attempt), "somebody")
        assert isinstance(first, CreatedObject)
        return create_planned(cluster, plan, mark)

    if attempt == 2:
        submit()
        ends(cluster_api, "Failed")
        saves(bucket, 400)
    done = submit(by="b" * 16, create=overtaken)
    assert (done.action, done.uid, done.resumed_from) == ("adopted", uids(cluster_api)[-1], None)
    assert len(uids(cluster_api)) == attempt


def test_a_run_that_another_submitter_creates_meanwhile_is_adopted(
    cluster_api: ClusterApi, bucket: Bucket, submit: Submits
) -> None:
    """The records are read before the JobSets: a run that is recorded and not listed was deleted, not just created. The
    saved steps are read after the JobSets: those of a JobSet that ended are complete.
    """
    before: list[str] = []
    cluster_api.server.fail(LIST, code=0, do=lambda: before.extend(bucket.asked), then=lambda: submit(by="b" * 16))
    done = submit()
    assert (done.action, [done.uid]) == ("adopted", uids(cluster_api))
    assert any(f"{NAME}%2Fxsft" in line for line in before)
    assert not any("checkpoints" in line for line in before)


def test_a_run_begun_meanwhile_on_another_cluster_is_refused(
    cluster_api: ClusterApi, submit: Submits, ready: Any, planned: Plans
) -> None:
    """A JobSet's name decides only between submitters of one namespace."""

    def begins(_proposal: Proposal) -> None:
        other = ready(by="b" * 16)
        other.store.begin(record_of(planned({"namespace": "other"}), other.provenance))

    with pytest.raises(Refused) as caught:
        submit(confirm=begins)
    assert (caught.value.problem_id, stored(cluster_api)) == ("begun-elsewhere", {})


def by_xpk(cluster: Any, plan: Plan, mark: str) -> Any:
    """Create it as xpk does, without labels of xsft."""
    manifest: Any = plan.manifest
    labels = {key: value for key, value in manifest["metadata"]["labels"].items() if not key.startswith("xsft.dev/")}
    bare = {**manifest, "metadata": {**manifest["metadata"], "labels": labels, "annotations": {}}}
    return cluster.create_jobset(bare, mark=mark)


@pytest.mark.parametrize("attempt", [1, 2])
def test_a_run_that_xpk_creates_meanwhile_is_adopted(cluster_api: ClusterApi, submit: Submits, attempt: int) -> None:
    if attempt == 2:
        submit()
        ends(cluster_api, "Failed")
    cluster_api.server.fail(LIST, code=0, do=lambda: submit(by="b" * 16, create=by_xpk))
    done = submit(by="c" * 16)
    assert (done.action, done.uid, len(uids(cluster_api))) == ("adopted", uids(cluster_api)[-1], attempt)


def test_a_name_taken_meanwhile_for_another_workload_is_refused(
    cluster_api: ClusterApi, submit: Submits, planned: Plans
) -> None:
    def overtaken(cluster: Any, plan: Plan, mark: str) -> Any:
        create_planned(cluster, planned(FASTER), "somebody")
        return create_planned(cluster, plan, mark)

    with pytest.raises(Refused, match="is active with another workload"):
        submit(create=overtaken)
    assert len(uids(cluster_api)) == 1


@pytest.mark.parametrize("workloads", [(None, None), (None, FASTER)], ids=["same", "different"])
def test_two_concurrent_submitters_make_one_run(
    cluster_api: ClusterApi, ready: Callable[..., Submitter], workloads: tuple[Any, Any], planned: Plans
) -> None:
    cluster_api.server.fail(CREATE, code=0, delay_s=0.2, times=2)
    both = [ready(changes=changes, by=by * 16) for changes, by in zip(workloads, "ab", strict=True)]

    def send(submitter_of_run: Submitter, changes: Any) -> str:
        try:
            return submitter_of_run.submit(planned(changes)).action
        except Refused as refused:
            return refused.problem_id

    with ThreadPoolExecutor(2) as threads:
        actions = list(threads.map(send, both, workloads))
    other = "adopted" if workloads[0] == workloads[1] else "refused"
    assert sorted(actions) == sorted(["created", other])
    assert list(stored(cluster_api)) == [NAME]


def process(api: ClusterApi, bucket: Bucket, state: Path, die_at: str = "") -> subprocess.Popen[str]:
    arguments = (str(api.kubeconfig), api.namespace, bucket.url, str(state), die_at)
    argv = (sys.executable, "-m", "tests.submissions", *arguments)
    started = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None
    assert started.stdout.readline() == "ready\n"
    return started


def answered(child: subprocess.Popen[str]) -> dict[str, Any]:
    out, _ = child.communicate("go\n", timeout=300)
    return dict(json.loads(out))


@pytest.mark.contract
def test_two_concurrent_processes_make_one_run(cluster_api: ClusterApi, bucket: Bucket, tmp_path: Path) -> None:
    both = [process(cluster_api, bucket, tmp_path) for _ in range(2)]
    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(answered, both)
    assert {first["action"], second["action"]} == {"created", "adopted"}
    assert uids(cluster_api) == [first["uid"]] == [second["uid"]]


@pytest.mark.contract
@pytest.mark.parametrize("case", [("begun", 0, "created"), ("created", 1, "adopted")], ids=["begun", "created"])
def test_a_killed_submitter_leaves_one_run_that_the_next_call_adopts_or_creates(
    cluster_api: ClusterApi, bucket: Bucket, tmp_path: Path, submit: Submits, ready: Any, case: tuple[str, int, str]
) -> None:
    die_at, runs_left, next_call = case
    dead = process(cluster_api, bucket, tmp_path / "state", die_at)
    dead.communicate("go\n", timeout=300)
    assert dead.returncode == -9
    assert len(uids(cluster_api)) == runs_left
    assert [r.last.outcome for r in recorded(ready)] == ["submitting"]
    done = submit(by="b" * 16)
    assert (done.action, done.jobset, [done.uid]) == (next_call, NAME, uids(cluster_api))
    assert submit(by="c" * 16).action == "adopted"


def test_the_number_of_a_killed_submitter_is_free_for_another_workload(
    cluster_api: ClusterApi, submit: Submits, ready: Any
) -> None:
    """Nothing was created: a corrected workload keeps the name."""
    with pytest.raises(KeyboardInterrupt) as stopped:
        submit(create=_interrupted)
    (told,) = stopped.value.__notes__
    assert f"Interrupted while creating JobSet {NAME}" in told
    assert f"`xsft status {NAME}`" in told
    done = submit(changes=FASTER, by="b" * 16)
    assert (done.action, done.jobset) == ("created", NAME)
    (record,) = recorded(ready)
    assert (record.spec_digest, record.last.outcome) == (done.plan.spec_digest, "created")
    with pytest.raises(Refused, match=r"0\.001 -> "):
        submit(by="c" * 16)


@pytest.mark.parametrize(("moment", "message"), [("look", "Nothing was created"), ("compare", "was created. Run ")])
def test_ctrl_c_prints_the_known_state(cluster_api: ClusterApi, submit: Submits, moment: str, message: str) -> None:
    how = {"look": {"writable": _interrupted}, "compare": {"compare": _interrupted}}[moment]
    with pytest.raises(KeyboardInterrupt) as stopped:
        submit(**how)
    (said,) = stopped.value.__notes__
    assert message in said
    assert len(uids(cluster_api)) == (0 if moment == "look" else 1)
    assert submit(by="b" * 16).action == ("created" if moment == "look" else "adopted")


def _interrupted(*_: Any) -> Any:
    raise KeyboardInterrupt


def test_a_record_that_cannot_be_finished_is_a_warning(
    cluster_api: ClusterApi, bucket: Bucket, submit: Submits, ready: Any
) -> None:
    def create(cluster: Any, plan: Plan, mark: str) -> Any:
        bucket.failures = [Failure(match="/upload/", status=403) for _ in range(9)]
        return create_planned(cluster, plan, mark)

    done = submit(create=create)
    assert done.action == "created"
    assert [p.id for p in done.problems] == ["record-not-finished"]
    assert recorded(ready)[0].last.outcome == "submitting"
    bucket.failures = []
    assert submit().action == "adopted"
    assert len(uids(cluster_api)) == 1


def test_a_record_that_cannot_be_begun_prevents_the_create(
    cluster_api: ClusterApi, bucket: Bucket, submit: Submits
) -> None:
    bucket.failures = [Failure(match="/upload/", status=403)]
    with pytest.raises(Unreachable, match="permission denied"):
        submit()
    nothing_left(cluster_api, bucket)


def test_fields_changed_by_the_cluster_are_reported(cluster_api: ClusterApi, submit: Submits, ready: Any) -> None:
    def meddled(cluster: Any, plan: Plan, mark: str) -> Any:
        created_run = create_planned(cluster, plan, mark)
        cluster_api.world.relabel(NAME, {"xsft.dev/mode": "meddled"})
        return created_run

    done = submit(create=meddled)
    assert [p.id for p in done.problems] == ["read-back-differs"]
    assert '/metadata/labels/xsft.dev~1mode: "pathways" -> "meddled"' in done.problems[0].message
    assert recorded(ready)[0].last.read_back.outcome == "differs"


def test_a_created_run_that_cannot_be_read_back_is_still_created(
    cluster_api: ClusterApi, submit: Submits, ready: Any
) -> None:
    def unreadable(cluster: Any, plan: Plan, mark: str) -> Any:
        created_run = create_planned(cluster, plan, mark)
        deny(cluster_api.world, ("get", "jobsets"))
        return created_run

    done = submit(create=unreadable)
    assert (done.action, [p.id for p in done.problems]) == ("created", ["not-read-back"])
    assert recorded(ready)[0].last.read_back == ReadBack(outcome="not-read")


def test_a_created_run_that_is_deleted_at_once_is_still_created(
    cluster_api: ClusterApi, submit: Submits, ready: Any
) -> None:
    def deleted(cluster: Any, plan: Plan, mark: str) -> Any:
        created_run = create_planned(cluster, plan, mark)
        cluster_api.world.delete(NAME)
        return created_run

    assert [p.id for p in submit(create=deleted).problems] == ["not-read-back"]
    assert recorded(ready)[0].last.read_back == ReadBack(outcome="not-read")


def _foreign(api: ClusterApi, _bucket: Bucket) -> None:
    api.world.add_jobset(NAME)


def _other_run(api: ClusterApi, _bucket: Bucket) -> None:
    api.world.add_jobset(NAME, labels={"xsft.dev/run": "somebody-elses"})


TOKEN = {"secrets.hf_token": {"secret": "hf", "key": "token"}}

BAD: dict[str, tuple[Callable[[ClusterApi, Bucket], object], dict[str, Any], type[XsftError], str]] = {
    "expired login": (lambda api, _: api.expire_login(), {}, Unreachable, "login-expired"),
    "no permission to create": (
        lambda api, _: deny(api.world, ("create", "jobsets")), {}, Unreachable, "forbidden",
    ),
    "no permission to list": (lambda api, _: deny(api.world, ("list", "jobsets")), {}, Unreachable, "forbidden"),
    "server error": (lambda api, _: api.server.fail(".", code=500, times=99), {}, Unreachable, "cluster-error"),
    "server too busy": (
        lambda api, _: api.server.fail(".", code=429, retry_after="3600", times=99), {}, Unreachable, "cluster-error",
    ),
    "server down": (
        lambda api, _: api.server.fail(".", action="cut-before", times=99), {}, Unreachable, "unreachable",
    ),
    "missing namespace": (lambda *_: None, {"namespace": "nosuch"}, SpecError, "namespace-missing"),
    "missing queue": (lambda *_: None, {"queue": "nosuch"}, SpecError, "queue-missing"),
    "missing priority class": (
        lambda api, _: api.world.remove_priority("medium"), {}, SpecError, "priority-class-missing",
    ),
    "missing Secret": (lambda *_: None, TOKEN, SpecError, "secret-missing"),
    "quota too small": (lambda api, _: api.world.limit_chips(256), {}, SpecError, "quota-too-small"),
    "missing bucket": (lambda _, bucket: setattr(bucket, "name", "another"), {}, SpecError, "output-bucket-missing"),
    "bucket forbidden": (
        lambda _, bucket: setattr(bucket, "permissions", frozenset({"storage.buckets.get"})),
        {}, SpecError, "output-permission",
    ),
    "bucket does not answer": (lambda _, bucket: setattr(bucket, "status", 500), {}, Unreachable, "unreachable"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_reported_before_anything_is_created(
    cluster_api: ClusterApi, bucket: Bucket, submit: Submits, case: str
) -> None:
    spoil, changes, kind, problem = BAD[case]
    spoil(cluster_api, bucket)
    with pytest.raises(kind) as caught:
        submit(changes=changes)
    assert problem in [p.id for p in caught.value.problems]
    assert all(p.fix for p in caught.value.problems)
    nothing_left(cluster_api, bucket)


@pytest.mark.standin_only("not-installed")
@pytest.mark.parametrize("what", ["jobset", "kueue"])
def test_a_cluster_without_jobset_or_kueue_is_reported(
    cluster_api: ClusterApi, bucket: Bucket, submit: Submits, what: str
) -> None:
    cluster_api.standin.objects.uninstall(f"{what}.x-k8s.io")
    with pytest.raises(EnvironmentMissing) as caught:
        submit()
    assert f"{what}-not-installed" in [p.id for p in caught.value.problems]
    assert all(p.fix for p in caught.value.problems)
    nothing_left(cluster_api, bucket)


@pytest.mark.parametrize("take_name", [_foreign, _other_run])
def test_a_name_taken_by_another_user_is_refused(
    cluster_api: ClusterApi, bucket: Bucket, submit: Submits, take_name: Any
) -> None:
    take_name(cluster_api, bucket)
    before = uids(cluster_api)
    with pytest.raises(Refused, match="is taken by a JobSet"):
        submit()
    assert (uids(cluster_api), bucket.objects) == (before, {})


def missing(ref: str) -> ImageLook:
    return ImageLook(ref=ref, status="missing")


def older(ref: str) -> ImageLook:
    return good_image(ref, maxtext="0.2.4")


def test_a_missing_image_is_refused(cluster_api: ClusterApi, bucket: Bucket, submit: Submits) -> None:
    with pytest.raises(SpecError) as caught:
        submit(image=missing)
    (problem,) = caught.value.problems
    assert problem.id == "image-not-found"
    assert "no image us-docker.pkg.dev/" in problem.message
    assert "asked with your login" in problem.message
    nothing_left(cluster_api, bucket)


def test_an_image_with_another_maxtext_is_refused(cluster_api: ClusterApi, bucket: Bucket, submit: Submits) -> None:
    with pytest.raises(SpecError) as caught:
        submit(image=older)
    assert [p.id for p in caught.value.problems] == ["image-maxtext-differs"]
    assert "0.2.4" in caught.value.problems[0].message
    nothing_left(cluster_api, bucket)
    assert submit(image=good_image).action == "created"


@pytest.mark.parametrize(("id", "look"), [("image-maxtext-differs", older), ("image-not-found", missing)])
def test_problems_of_an_image_can_be_accepted_by_id(id: str, look: Callable[[str], ImageLook], submit: Submits) -> None:
    done = submit(image=look, changes={"checks": {id: "I know better"}})
    assert done.action == "created"
    assert [(p.id, p.severity) for p in done.problems if p.id == id] == [(id, "note")]


def test_an_image_with_a_pull_secret_is_not_read_and_gets_a_note(cluster_api: ClusterApi, submit: Submits) -> None:
    secret = {"name": "pull", "namespace": cluster_api.namespace, "data": {".dockerconfigjson": b"{}"}}
    cluster_api.connect().create_secret(**secret)
    done = submit(image=missing, changes={"image.pull_secret": "pull"})
    assert done.action == "created"
    (note,) = (p for p in done.problems if p.id == "image-not-read")
    assert "with the login in the Secret pull, which xsft does not read" in note.message
    assert f"kubectl -n {cluster_api.namespace} get secret pull -o 'go-template={{{{index .data" in note.fix
    assert "docker --config pull manifest inspect" in note.fix


def test_an_invalid_pod_template_is_refused_by_the_dry_run_of_its_pods(
    cluster_api: ClusterApi, bucket: Bucket, submit: Submits, planned: Plans
) -> None:
    plan = planned()
    assert plan.manifest is not None
    broken = json.loads(json.dumps(plan.manifest))
    broken["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]["image"] = ""
    with pytest.raises(SpecError) as caught:
        submit(replace(plan, manifest=broken))
    assert any("image: Required value" in p.message for p in caught.value.problems)
    assert cluster_api.server.asked("^POST .*/pods") == [], "it would tell the same again"
    nothing_left(cluster_api, bucket)


def test_an_unknown_field_is_refused_by_the_server(
    cluster_api: ClusterApi, bucket: Bucket, submit: Submits, planned: Plans
) -> None:
    plan = planned()
    assert plan.manifest is not None
    with pytest.raises(SpecError) as caught:
        submit(replace(plan, manifest={**plan.manifest, "spec": {**plan.manifest["spec"], "foo": 1}}))
    assert "unknown field" in caught.value.problems[0].message
    nothing_left(cluster_api, bucket)


def test_a_command_line_that_maxtexts_parser_refuses_is_not_created(
    cluster_api: ClusterApi, bucket: Bucket, ready: Any, planned: Plans
) -> None:
    refused = error("maxtext-refuses", "", "MaxText 0.2.5 refuses this command line: …", "Correct it.")
    with pytest.raises(SpecError) as caught:
        ready(parsed=lambda: (refused,)).submit(planned())
    assert caught.value.problems == (refused,)
    nothing_left(cluster_api, bucket)


def test_the_record_of_a_killed_submitter_gets_the_digest_of_the_manifest_that_was_created(
    submit: Submits, ready: Any, planned: Plans
) -> None:
    with pytest.raises(KeyboardInterrupt):
        submit(create=_interrupted)
    plan = planned()
    assert plan.manifest is not None
    metadata = plan.manifest["metadata"]
    later = {**plan.manifest, "metadata": {**metadata, "labels": {**metadata["labels"], "team": "x"}}}
    submit(replace(plan, manifest=later), by="b" * 16)
    (record,) = recorded(ready)
    assert record.last.manifest_digest == manifest_digest(later) != manifest_digest(plan.manifest)


def test_every_reason_of_a_refused_create_is_recorded(submit: Submits, ready: Any) -> None:
    def refused(*_: Any) -> Any:
        raise SpecError((error("a", "", "one", ""), error("b", "", "two", "")))

    with pytest.raises(SpecError):
        submit(create=refused)
    assert recorded(ready)[0].last.reason == "one; two"


def test_a_create_that_the_cluster_refuses_is_recorded_as_not_created(
    cluster_api: ClusterApi, submit: Submits, ready: Any
) -> None:
    cluster_api.server.fail(CREATE, code=422, message="a webhook of yours says no")
    with pytest.raises(SpecError):
        submit()
    (record,) = recorded(ready)
    assert (record.last.outcome, uids(cluster_api)) == ("not-created", [])
    assert "a webhook of yours says no" in str(record.last.reason)
    assert submit(by="b" * 16).jobset == NAME


@pytest.mark.parametrize("code", [401, 403])
def test_a_forbidden_create_is_recorded_as_not_created(
    cluster_api: ClusterApi, submit: Submits, ready: Any, code: int
) -> None:
    """Otherwise the record would always say that a create had begun."""
    words = 'jobsets.jobset.x-k8s.io is forbidden: User "u" cannot create resource "jobsets"'
    cluster_api.server.fail(CREATE, code=code, message=words)
    with pytest.raises(Unreachable):
        submit()
    (record,) = recorded(ready)
    assert (record.last.outcome, uids(cluster_api)) == ("not-created", [])
    assert submit(by="b" * 16).jobset == NAME


def test_a_create_without_an_answer_stays_unknown_if_its_retry_is_refused(
    cluster_api: ClusterApi, submit: Submits, ready: Any
) -> None:
    cluster_api.server.fail(CREATE, action="cut-before")
    cluster_api.server.fail(CREATE, code=401, message="Unauthorized")
    with pytest.raises(Unknown):
        submit()
    assert recorded(ready)[0].last.outcome == "submitting"


def test_the_local_index_contains_the_run(cluster_api: ClusterApi, submit: Submits, tmp_path: Path, ready: Any) -> None:
    submit()
    store: RecordStore = ready().store
    (entry,) = store.local_index().entries
    assert (entry.run_name, entry.jobset, [entry.uid]) == (NAME, NAME, uids(cluster_api))
