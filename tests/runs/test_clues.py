"""The clues of rules: only what holds now, with names for the messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.kubeobjects import kube_event
from tests.replacing import replace
from tests.runs.cases import COMPLETED, HELD, STARTING
from tests.runs.seen import (
    NOW,
    QUOTA,
    UNSCHEDULABLE,
    WAITING,
    condition,
    container,
    crashed,
    jobset,
    local,
    observation,
    pod,
    progress,
    server_pod,
    terminated,
    training,
    unread,
    waiting,
    workload,
)
from tests.runs.server_cases import SERVERS
from xsft.cluster.evidence import Diagnosis, Event, Evidence, Log, Neighbour
from xsft.cluster.objects import Quota
from xsft.cluster.observation import Observation, Recorded, Status
from xsft.cluster.pod_fields import Pod
from xsft.runs import clues
from xsft.runs.cause_rule import Clue, Rule, causes
from xsft.runs.causes import words
from xsft.runs.classify import classify
from xsft.runs.pod_reasons import place


def evidence(observed: Observation | None = None, **more: Any) -> Evidence:
    observed = observed or observation()
    return Evidence(seen=observed, status=more.pop("status", None) or classify(observed), **more)


def texts(clues: Iterable[Clue]) -> list[str]:
    return [clue.text for clue in clues]


def log(
    kind: str | None,
    *,
    slice_index: int = 0,
    host: int = 0,
    attempt: int = 0,
    said_at: str | None = None,
    lost_peer: bool = False,
) -> Log:
    diagnosis = Diagnosis(kind=kind, line=kind, text=kind, signature=kind, lost_peer=lost_peer) if kind else None
    name = pod(slice_index, host).name
    return Log(
        replicated_job="slice-job",
        slice_index=slice_index,
        host=host,
        attempt=attempt,
        pod=name,
        lines=("1", "2", "3"),
        said=diagnosis,
        said_at=said_at,
    )


def test_kueues_message_is_shown_while_quota_is_not_reserved() -> None:
    queued_workload = workload(
        condition("QuotaReserved", "True", "QuotaReserved", "reserved"),
        condition("Admitted", "False", "NoReservation", "not admitted"),
        condition("QuotaReserved", "False", "Pending", ""),
    )
    assert texts(clues.kueue(evidence(observation(workload=queued_workload)))) == []
    assert texts(clues.kueue(evidence(observation(workload=workload(WAITING))))) == [WAITING.message]
    assert texts(clues.kueue(evidence(observation(workload=None)))) == []


def test_an_eviction_that_is_over_gives_no_clue() -> None:
    over = condition("Evicted", "False", "QuotaReserved", "Previously: …")
    assert texts(clues.eviction(evidence(observation(workload=workload(over, QUOTA))))) == []
    now = workload(condition("Evicted", "True", "Preempted", "m"))
    (clue,) = clues.eviction(evidence(observation(workload=now)))
    assert (clue.text, clue.values) == ("Preempted: m", {"by": "by another run"})


@pytest.mark.parametrize(
    ("queue", "observed", "expected"),
    [
        (condition("Active", "True", "Ready", "ok"), observation(), []),
        (condition("Active", "False", "Stopped", "no"), observation(), [("Active=False Stopped: no", "ClusterQueue")]),
        (
            condition("Active", "Unknown", "Stopped", "no"),
            observation(workload=workload(cluster_queue="main")),
            [("Active=Unknown Stopped: no", "ClusterQueue main")],
        ),
        (
            condition("Active", "False", "Stopped", "no"),
            observation(workload=None),
            [("Active=False Stopped: no", "ClusterQueue")],
        ),
        (None, observation(), []),
    ],
    ids=["active", "stopped", "stopped, named by its Workload", "stopped, no Workload", "unread"],
)
def test_only_an_inactive_cluster_queue_gives_a_clue(queue: Any, observed: Observation, expected: Any) -> None:
    clue_list = clues.cluster_queue(evidence(observed, cluster_queue=queue))
    assert [(clue.text, clue.where) for clue in clue_list] == expected


@pytest.mark.parametrize(
    ("mine", "ahead", "expected"),
    [
        (500, (500, 1000, 750), ("2 higher", "r1, r2")),
        (500, (500, 100), ("2 before", "r0, r1")),
        (None, (500,), ("1 before", "r0")),
        (500, (None,), ("1 before", "r0")),
        (500, (600,) * 4, ("4 higher", "r0, r1, r2 and 1 more")),
        (500, (600,) * 3, ("3 higher", "r0, r1, r2")),
    ],
)
def test_the_clue_names_and_counts_the_runs_ahead_in_the_queue(
    mine: int | None, ahead: tuple[int | None, ...], expected: tuple[str, str]
) -> None:
    names = tuple(Neighbour(name=f"r{n}", priority=priority) for n, priority in enumerate(ahead))
    observed = observation(jobset=HELD, workload=workload(WAITING, priority=mine))
    (clue,) = clues.behind(evidence(observed, ahead=names))
    assert (clue.text, clue.values["names"], clue.quoted) == (*expected, ()), "no line of the cluster says it"
    assert clue.values["count"] == clue.text.split()[0]


def test_an_empty_queue_gives_no_clue() -> None:
    assert texts(clues.behind(evidence(ahead=()))) == texts(clues.behind(evidence())) == []


def event(reason: str, moment: str = NOW) -> Event:
    return kube_event(reason, message="m", object="Pod/x", at=moment)


@pytest.mark.parametrize("reason", ["FailedScheduling", "FailedScaleUp", "NotTriggerScaleUp"])
def test_events_say_more_of_a_pod_that_finds_no_node(reason: str) -> None:
    pod_object = pod(
        phase="Pending", conditions=(condition("Ready", "False", "x", "y"), replace(UNSCHEDULABLE, message=""))
    )
    observed = observation(jobset=STARTING, pods=(pod_object,))
    clue_list = tuple(clues.unplaced(evidence(observed, events=(event("Pulled"), event(reason)))))
    assert texts(clue_list) == ["Unschedulable", f"{reason}: m"]
    assert clue_list[0].where.startswith("slice 0 host 0 (pod ")
    assert texts(clues.unplaced(evidence(observation(), events=(event(reason),)))) == []


@pytest.mark.parametrize("reason", ["Failed", "FailedMount", "FailedCreatePodSandBox", "InspectFailed"])
def test_events_say_more_of_a_container_that_is_not_made(reason: str) -> None:
    waits = pod(containers=(waiting("ErrImagePull"), waiting(""), container()))
    observed = observation(jobset=STARTING, pods=(waits,))
    clue_list = tuple(clues.waiting(evidence(observed, events=(event("Pulled"), event(reason)))))
    assert texts(clue_list) == ["ErrImagePull: ", f"{reason}: m"]
    assert {clue.values["image"] for clue in clue_list} == {"its image"}


@pytest.mark.parametrize(
    ("containers", "image"),
    [
        pytest.param(jobset(image="gcr.io/p/m:v1"), "gcr.io/p/m:v1", id="known"),
        pytest.param(jobset(image=""), "its image", id="unknown"),
        pytest.param(None, "its image", id="no-jobset"),
    ],
)
def test_a_clue_about_pods_names_its_object_and_the_image_if_known(containers: Any, image: str) -> None:
    waits = pod(0, 2, containers=(waiting("ErrImagePull"),))
    observed = observation(jobset=containers, pods=(waits,))
    (of_pod, of_event) = clues.waiting(evidence(observed, events=(event("Failed"),)))
    assert (of_pod.where.partition(" (")[0], of_event.where) == ("slice 0 host 2", "Pod/x")
    assert of_pod.values["image"] == of_event.values["image"] == image


def test_the_clue_of_a_server_names_its_current_pod() -> None:
    crashing = next(server_case for name, server_case, _ in SERVERS if name == "a server that crashes")
    (now,) = crashing.pods or ()
    for pods, named_pod in (((now,), now), ((server_pod(crashed(1), name="old", deleting=True), now), now), ((), None)):
        (clue,) = clues.server(evidence(replace(crashing, pods=pods)))
        assert clue.where == (place(named_pod) if named_pod else "")


def test_the_latest_event_is_shown_first() -> None:
    old, new = event("Old", "2026-11-21T10:00:00Z"), event("New", "2026-11-21T11:00:00Z")
    assert texts(clues.events(evidence(events=(old, new)))) == ["New: m", "Old: m"]


def test_a_disruption_that_holds_names_its_node() -> None:
    disruption = condition("DisruptionTarget", "True", "DeletionByTaintManager", "m")
    pods = (
        pod(0, 1, conditions=(replace(disruption, status="False"),)),
        pod(0, 2, conditions=(condition("Ready"), disruption)),
        pod(0, 3, conditions=(disruption,), node=False),
    )
    clue_list = tuple(clues.disrupted(evidence(observation(pods=pods))))
    assert [clue.where.partition(") ")[2] for clue in clue_list] == ["(node gke-0-2)", ""]


@pytest.mark.parametrize(
    ("clock_time", "heard"), [("11:49:00", True), ("11:50:00", True), ("11:50:01", False), ("", True)]
)
def test_a_node_that_is_taken_after_the_failure_is_not_its_cause(clock_time: str, heard: bool) -> None:
    disruption = condition("DisruptionTarget", reason="r", at=f"2026-11-21T{clock_time}Z" if clock_time else "")
    failed = pod(0, 1, containers=(terminated(1, finished_at="2026-11-21T11:50:00Z"),))
    observed = observation(pods=(failed, pod(0, 2, conditions=(disruption,))))
    assert bool(texts(clues.disrupted(evidence(observed)))) == heard


def test_only_the_log_of_the_first_failed_process_is_read() -> None:
    ended = pod(0, 2, "Failed", containers=(terminated(1),))
    observed = observation(jobset=jobset(terminal="Failed"), pods=(ended,))
    both = (log("peer-lost", host=1, lost_peer=True), log("exception", host=2))
    assert texts(clues.said(evidence(observed, logs=both))) == ["exception"]
    assert texts(clues.said(evidence(observed, logs=both[:1]))) == ["peer-lost"]  # no log of the one that failed


def test_clues_from_logs_put_the_latest_attempt_first_and_echoes_last() -> None:
    observed = observation(jobset=jobset(terminal="Failed"), pods=())
    logs = (
        log("peer-lost", attempt=1, lost_peer=True),
        log(None, attempt=2),
        log("hbm", slice_index=1, attempt=1),
        log("exception", host=3, attempt=1),
        log("config-error", attempt=0),
    )
    assert texts(clues.said(evidence(observed, logs=logs))) == ["exception", "hbm", "config-error", "peer-lost"]


def test_a_stalled_run_in_which_no_process_ended_has_no_failure() -> None:
    stalled = Status(state="stalled", reason="no-step")
    assert texts(clues.said(evidence(logs=(log("hbm"),), status=stalled))) == []
    ended = observation(pods=(pod(0, 0, containers=(terminated(1),)),))
    assert texts(clues.said(evidence(ended, logs=(log("hbm"),), status=stalled))) == ["hbm"]


def test_an_end_is_reported_with_the_last_three_lines_of_either() -> None:
    ended = pod(containers=(terminated(1, message="a\nb\nc\nd\n"),))
    observed = observation(pods=(ended,))
    lines = replace(log(None), lines=("w", "x", "y", "z"))
    (clue,) = clues.ended(evidence(observed, logs=(lines,)))
    assert clue.quoted == ("b", "c", "d", "x", "y", "z")
    unknown = pod(containers=(terminated(None, ""),))
    assert texts(clues.ended(evidence(observation(pods=(unknown,))))) == ["worker Error exit unknown"]


def test_the_end_of_a_job_beside_the_training_names_its_work_and_memory() -> None:
    ended = pod(containers=(terminated(137, "OOMKilled"),), memory="12Gi")
    (clue,) = clues.ended(evidence(observation(jobset=jobset(work="convert"), pods=(ended,))))
    assert (clue.text, clue.values) == (
        "job OOMKilled exit 137",
        {"work": "convert", "memory": "12Gi", "container": "jax-tpu"},
    )
    unlimited = observation(jobset=jobset(work="convert"), pods=(pod(containers=(terminated(137, "OOMKilled"),)),))
    assert texts(clues.ended(evidence(unlimited))) == ["worker OOMKilled exit 137"]
    (training,) = clues.ended(evidence(observation(pods=(ended,))))
    assert (training.text, training.values["work"]) == ("worker OOMKilled exit 137", "")
    (unseen,) = clues.ended(evidence(observation(jobset=None, pods=(ended,))))
    assert unseen.text == "worker OOMKilled exit 137"


def test_containers_that_run_again_are_named_out_of_memory_first_and_then_the_latest() -> None:
    def again(code: int | None, ended_at: str | None, *, host: int, reason: str = "Error", times: int = 1) -> Pod:
        end = terminated(code, reason, message="a\nb\nc\nd\n", finished_at=ended_at)
        return pod(0, host, containers=(container(last=end, restarts=times),))

    pods = (
        again(1, "2026-11-21T11:10:00Z", host=0, times=3),
        again(None, None, host=1, reason=""),
        again(2, "2026-11-21T11:20:00Z", host=2),
        again(137, "2026-11-21T11:00:00Z", host=3, reason="OOMKilled"),
        pod(0, 4),
    )
    clue_list = tuple(clues.ended_in_place(evidence(observation(pods=pods))))
    assert texts(clue_list) == ["OOMKilled exit 137", "Error exit 2", "Error exit 1", "Error exit unknown"]
    assert ["host 3" in clue_list[0].where, clue_list[0].quoted] == [True, ("b", "c", "d")]
    assert [clue.values for clue in clue_list[1:3]] == [{"count": "1", "pods": "4"}, {"count": "3", "pods": "4"}]


def test_a_condition_of_the_jobset_that_is_false_says_nothing() -> None:
    observed = observation(
        jobset=jobset(conditions=(condition("Failed", "False", "r", "m"), condition("Failed", "True", "r", "m")))
    )
    jobset_object = tuple(clues.jobset(evidence(observed)))
    assert [(clue.text, clue.where) for clue in jobset_object] == [("Failed r: m", "JobSet deepseek-ultrachat")]
    assert texts(clues.jobset(evidence(observation(jobset=None)))) == []


def test_the_clue_of_silence_names_the_first_silent_host() -> None:
    early, late = log(None, host=3, said_at="2026-11-21T11:00:00Z"), log(None, said_at="2026-11-21T11:10:00Z")
    (clue,) = clues.silence(evidence(logs=(late, log(None, host=1), early)))
    assert (clue.values["first"], clue.quoted) == (f"{clue.where} stopped printing first.", ("2", "3"))
    assert "host 3" in clue.where
    (alone,) = clues.silence(evidence(logs=(late,)))
    assert (alone.values["first"], "host 0" in alone.where) == ("", True)
    (nobody,) = clues.silence(evidence())
    assert (nobody.where, nobody.quoted, nobody.values["first"]) == ("", (), "")


def test_a_record_gives_a_clue_only_if_it_gave_the_state() -> None:
    record = Recorded(outcome="failed", reason="KeyError: 'x'")
    (clue,) = clues.recorded(evidence(local("failed", record=record)))
    assert (clue.text, clue.where, clue.quoted) == ("KeyError: 'x'", "record", ())
    assert texts(clues.recorded(evidence(observation(record=record)))) == []
    assert texts(clues.recorded(evidence(local("failed")))) == []
    assert texts(clues.recorded(evidence(observation(record=None)))) == []


def test_what_was_not_read_is_reported_with_its_reason() -> None:
    assert texts(clues.unread(evidence(observation(unread=unread("log"))))) == ["log: connection refused"]


def named(observed: Observation, **more: Any) -> dict[str, str]:
    return words(evidence(observed, **more))


def test_words_hold_the_known_values() -> None:
    words_of_run = named(observation(progress=training(saved_step=300, said_at="2026-11-21T11:50:00Z")))
    assert (words_of_run["step"], words_of_run["steps"], words_of_run["saved"], words_of_run["progress"]) == (
        "400",
        "1000",
        "300",
        ", step 400 of 1000",
    )
    assert (words_of_run["silence"], words_of_run["median"]) == ("10 minutes", ", 50 times its median step of 12 s")
    assert (words_of_run["run"], words_of_run["jobset"], words_of_run["workload"]) == (
        "deepseek-ultrachat",
        "deepseek-ultrachat",
        "jobset-deepseek-ultrachat-ab12c",
    )
    renamed = named(observation(jobset=jobset(name="another", namespace="team")))
    assert (renamed["jobset"], renamed["namespace"]) == ("another", "team")
    assert named(observation(progress=training(said_at="2026-11-21T11:00:00Z")))["silence"] == "60 minutes"
    counted = named(observation(progress=training(no_target_steps=40, not_finite_steps=9, zero_loss_steps=7)))
    assert [counted[f"{what}_steps"] for what in ("no_target", "not_finite", "zero_loss")] == ["40", "9", "7"]
    assert named(observation(steps=None))["steps"] == "1000"
    assert named(observation(steps=5))["steps"] == "5"


def test_words_have_placeholders_for_unknown_values() -> None:
    for observation_of_case in (
        observation(steps=None, jobset=None, workload=None, progress=None),
        local("failed", steps=None, progress=progress()),
    ):
        words_of_run = named(observation_of_case)
        assert (
            words_of_run["step"],
            words_of_run["steps"],
            words_of_run["saved"],
            words_of_run["progress"],
            words_of_run["median"],
        ) == ("?", "?", "?", "", "")
        assert words_of_run["jobset"] == words_of_run["workload"] == words_of_run["run"] == observation_of_case.run_name
        assert words_of_run["namespace"] == "default"
        assert [words_of_run["no_target_steps"], words_of_run["not_finite_steps"]] == ["several", "several"]
    assert named(observation(progress=None))["silence"] == "a long time"
    assert named(observation(progress=training(said_at=None)))["median"] == ""
    assert named(observation(progress=progress(step=None)))["progress"] == ""
    assert named(observation(steps=None, jobset=jobset(steps=None)))["progress"] == ""
    for step in (None, 0.0, float("nan")):
        assert named(observation(progress=training(step_seconds=step)))["median"] == ""


def test_words_advise_to_cancel_only_a_run_that_has_not_ended() -> None:
    assert named(observation())["stop"] == "Cancel this run (xsft cancel deepseek-ultrachat). "
    assert named(observation(jobset=COMPLETED, progress=training(1000)))["stop"] == ""


def test_words_count_the_restarts() -> None:
    assert named(observation())["exits"] == "It is not restarted (restarts.max is 0)."
    assert "1 of 3 times so far" in named(observation(jobset=jobset(max_restarts=3, restarts=1)))["exits"]
    assert named(observation(jobset=jobset(ours=False)))["exits"] == ""
    assert named(observation(jobset=None))["exits"] == ""


@pytest.mark.parametrize(
    ("code", "reason", "text"),
    [
        (139, "Error", "exit code 139 (Error)"),
        (137, "OOMKilled", "exit code 137 (OOMKilled)"),
        (None, "", "exit code unknown (Error)"),
    ],
)
def test_words_name_the_process_that_failed_after_the_last_step(code: int | None, reason: str, text: str) -> None:
    end = terminated(code, reason)
    words_of_run = named(observation(pods=(pod(0, 2, "Failed", containers=(end,)),)))
    name = pod(0, 2).name
    assert words_of_run["exit_after"] == f"Afterwards slice 0 host 2 (pod {name}) ended with {text}."


def test_words_name_the_recorded_reason_if_no_pod_shows_it() -> None:
    record = Recorded(outcome="completed", reason="the trainer was killed")
    assert named(observation(record=record))["exit_after"] == "Afterwards: the trainer was killed."
    assert named(observation(record=None))["exit_after"] == "A process failed afterwards."


@pytest.mark.parametrize(("restarts", "text"), [(1, "once"), (2, "2 times")])
def test_words_count_the_restarts_of_a_container_in_its_pod(restarts: int, text: str) -> None:
    pod_object = pod(0, 2, containers=(terminated(1, restarts=restarts),))
    words_of_run = named(observation(pods=(pod_object,)))
    assert words_of_run["exits"] == f"Its pod restarts the container, {text} so far, whatever the exit code."


def test_words_name_holders_queue_and_quotas() -> None:
    holders = (Neighbour(name="a", holds="512 chips"), Neighbour(name="b", priority=0), Neighbour(name="c"))
    quota = Quota(flavor="f", resource="r", total="8", used="6")
    words_of_run = named(observation(), holders=holders, ahead=holders[2:], quotas=(quota,))
    assert words_of_run["holders"] == "Held by a (512 chips), b (priority 0), c."
    assert (words_of_run["queue"], words_of_run["quotas"]) == ("Ahead of it: c.", "In use: 6 of 8 r of f.")
    assert [named(observation())[name] for name in ("holders", "queue", "quotas")] == ["", "", ""]


def test_words_explain_an_unknown_state() -> None:
    assert named(COMPLETED_UNREAD)["meaning_of_state"].startswith("It is unknown: the run completed; its last step")
    assert named(observation())["meaning_of_state"] == ""


COMPLETED_UNREAD = observation(jobset=COMPLETED, progress=None)


def test_a_rule_takes_the_first_clue_it_knows_and_quotes_at_most_five_lines() -> None:
    clues = (
        Clue(text="nothing"),
        Clue(text="Lost A", quoted=("1", "", "2", "3", "4", "5", "6"), values={"v": ""}),
        Clue(text="Lost B"),
    )
    rule = Rule(
        id="x",
        pattern="Lost (?P<what>.)(?P<more>!)?",
        message="{what}{more} {v} {run}",
        fix="",
        states=frozenset(),
        reasons=frozenset({"", "r"}),
    )
    (cause,) = causes(rule, clues, words={"run": "r", "what": "not this"})
    assert (cause.message, cause.evidence) == ("A r", ("1", "2", "3", "4", "5"))
    assert rule.applies(Status(state="training", reason="r"))
    assert not rule.applies(Status(state="training", reason="s"))
