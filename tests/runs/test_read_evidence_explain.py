from __future__ import annotations

import pytest

from tests.kubeobjects import kube_event, kueue_workload
from tests.observations import EARLIER, FakeRuns, jobset, observed, queued, runs_read, said
from tests.replacing import replace
from tests.runs import seen
from tests.runs.seen import terminated
from tests.verbs.test_status import SILENT
from xsft.base.errors import Unreachable, UsageError
from xsft.cluster.evidence import Diagnosis, Evidence, Log
from xsft.cluster.objects import Condition
from xsft.cluster.observation import Observation, Recorded, ReplicatedJob, Status, Unread
from xsft.cluster.pod_fields import Pod
from xsft.runs.classify import classify
from xsft.runs.lookup import FoldedRun, RunsRead
from xsft.runs.read_evidence import ReadAttempt, ReadEvidence, RunExplanation, explain_run

FAILED = jobset(
    terminal="Failed",
    conditions=(Condition(type="Failed", status="True", reason="FailJobSetFailurePolicyAction", at=EARLIER),),
)
WORKLOAD = kueue_workload(
    "jobset-next",
    queue_name="multislice-queue",
    conditions=(
        Condition(
            type="QuotaReserved",
            status="False",
            reason="Pending",
            message="couldn't assign flavors to pod set slice-job: insufficient unused quota for google.com/tpu in"
            " flavor 2xv6e-256, 512 more needed",
        ),
    ),
)


def pod(host: int, *, exit_code: int = 1) -> Pod:
    return seen.pod(0, host, "Failed", jobset="gemma", containers=(terminated(exit_code, finished_at=EARLIER),))


def log(host: int) -> Log:
    words = "MAXTEXT CONFIG ERROR: \x1b[1munknown\x1b[0m key stepz\x07 token hf_" + "a" * 30
    said_by = Diagnosis(kind="config-error", line=words, text=words, signature=words)
    return Log(
        replicated_job="slice-job",
        slice_index=0,
        host=host,
        pod=f"gemma-slice-job-0-{host}-xtx22",
        lines=(words,),
        said=said_by,
    )


def gathered(hit: FoldedRun) -> Evidence:
    events = (kube_event("Pulled\x1b[2J", message="odd", object="Pod/x"),)
    logs = (log(5),) if hit.seen.pods else None
    return Evidence(seen=hit.seen, status=classify(hit.seen), events=events, logs=logs)


def explain(
    name: str,
    source: RunsRead | FakeRuns,
    *,
    attempt: int | None = None,
    evidence: ReadEvidence = gathered,
    recorded: ReadAttempt = lambda _hit, _number: None,
) -> RunExplanation:
    runs = source if isinstance(source, FakeRuns) else FakeRuns(source, classify=classify)
    return explain_run(name, runs=runs, evidence=evidence, recorded=recorded, attempt=attempt)


BROKEN = observed("gemma", jobset=FAILED, pods=(pod(5), pod(6)), progress=said(3))
WAITING = observed("next", jobset=jobset("next", suspended=True), workload=WORKLOAD, progress=None)


SECOND = observed("gemma", jobset=jobset("gemma-2", run_name="gemma", created_at="2026-11-21T11:00:00Z"))


@pytest.mark.parametrize(
    ("name", "attempt", "expected"),
    [
        ("gemma", None, ("gemma-2", "starting", "no-jobs", 120)),
        ("gemma", 2, ("gemma-2", "starting", "no-jobs", 120)),
        ("gemma", 1, ("gemma", "failed", "trainer-failed", 3)),
        ("gemma-2", 1, ("gemma", "failed", "trainer-failed", 3)),
    ],
    ids=["newest", "second by number", "first by number", "first by number under the second's name"],
)
def test_the_submission_that_is_requested_is_explained(
    name: str, attempt: int | None, expected: tuple[str, str, str, int]
) -> None:
    def recorded(*_: object) -> Observation | None:
        raise AssertionError("its JobSet is there")

    run_explanation = explain(name, runs_read((BROKEN, SECOND)), attempt=attempt, recorded=recorded)
    explanation = run_explanation.explanation
    assert (run_explanation.row.jobset, explanation.state, explanation.reason, run_explanation.row.step) == expected
    assert ("stepz" in explanation.cause.message) == (explanation.state == "failed")


def test_a_submission_that_is_gone_is_explained_by_its_record() -> None:
    def recorded(_hit: FoldedRun, number: int) -> Observation | None:
        record = Recorded(outcome="not-created", reason="the cluster refused it: no such queue", jobset="gemma")
        return observed("gemma", jobset=None, progress=None, record=record) if number == 1 else None

    run_explanation = explain("gemma", runs_read((SECOND,)), attempt=1, recorded=recorded)
    cause = run_explanation.explanation.cause
    assert (run_explanation.explanation.state, run_explanation.row.jobset, cause.id) == ("failed", "gemma", "recorded")
    assert "no such queue" in cause.message
    with pytest.raises(UsageError, match=r"no attempt 7\. Known submissions: 2\."):
        explain("gemma", runs_read((SECOND,)), attempt=7, recorded=recorded)
    with pytest.raises(UsageError, match=r"Attempt 1 of gemma has no JobSet, and no record of it"):
        explain("gemma", runs_read((SECOND,)), attempt=1)


def test_why_keeps_the_ends_of_all_pods() -> None:
    killed = Status(state="failed", reason="oom-killed", evidence=("jobset", "pods"))
    runs = FakeRuns(runs_read((BROKEN,)), classify=classify)

    def more(hit: FoldedRun) -> Evidence:
        return replace(gathered(hit), status=killed)

    explain("gemma", runs, evidence=more)
    assert [status for _, status in runs.kept] == [killed]
    runs.kept.clear()
    explain("gemma", runs)
    assert runs.kept == [], "nothing new"


def test_why_keeps_a_failure_that_only_pods_tell_for_after_the_restart() -> None:
    """And no token of it."""
    jobs = (ReplicatedJob(name="slice-job", replicas=2, ready=1, active=2),)
    fails = observed("gemma", jobset=jobset(jobs=jobs), pods=(pod(5),), progress=None)
    runs = FakeRuns(runs_read((fails,)), runs_read((BROKEN,)), classify=classify)
    explain("gemma", runs)
    (cause_found,) = [kept_observation.found for kept_observation, _ in runs.kept]
    assert "stepz" in cause_found
    assert "slice 0 host 5" in cause_found
    assert "a" * 30 not in cause_found
    runs.kept.clear()
    explain("gemma", runs)
    assert runs.kept == [], "it has ended: nothing follows"


def test_a_silent_cluster_is_unreachable_and_the_last_known_state_is_shown() -> None:
    silent = observed(
        "gemma",
        unread=(Unread(what="jobsets", why="timeout."),),
        last_known=Status(state="training", evidence=("jobset",)),
    )
    with pytest.raises(Unreachable) as raised:
        explain("gemma", runs_read((silent,)))
    words = f"The cluster of gemma does not answer: timeout. Last known state, at {silent.observed_at}: training"
    assert raised.value.message == f"{words}."
    assert raised.value.fix == "The state of the run is unknown. Try again later."
    with pytest.raises(Unreachable) as raised:
        explain("gemma", runs_read((replace(silent, last_known=Status(state="failed", reason="oom-killed")),)))
    assert raised.value.message.endswith(": failed (oom-killed).")
    with pytest.raises(Unreachable) as raised:
        explain("gemma", runs_read((replace(silent, last_known=None),)))
    assert raised.value.message == "The cluster of gemma does not answer: timeout."
    with pytest.raises(Unreachable):
        explain("gemma", runs_read((), (SILENT,), answered=False, whole=False))
    with pytest.raises(UsageError, match="Did you mean next"):
        explain("nxt", runs_read((queued("next"),)))
