"""One process failed first; the others only say so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runs.seen import NOW, container, observation, pod, terminated
from xsft.cluster.evidence import Diagnosis, Evidence, Log
from xsft.cluster.observation import Status
from xsft.cluster.pod_fields import Pod
from xsft.runs.classify import classify
from xsft.runs.pod_reasons import first_failure, place, suspects


def died(slice_index: int, host: int, code: int, second: int | None, *, oom: bool = False, **more: Any) -> Pod:
    ended_at = None if second is None else f"2026-11-21T11:50:{second:02}Z"
    end = terminated(code, "OOMKilled" if oom else "Error", finished_at=ended_at)
    return pod(slice_index, host, "Failed", **{"containers": (end,), **more})


def log_of(pod_object: Pod, kind: str, *, lost_peer: bool = False) -> Log:
    return Log(
        replicated_job=pod_object.replicated_job,
        slice_index=pod_object.slice_index,
        host=pod_object.host,
        pod=pod_object.name,
        lines=(kind,),
        said=Diagnosis(kind=kind, line=kind, text=kind, signature=kind, lost_peer=lost_peer),
    )


def first(pods: Sequence[Pod], *logs: Log) -> tuple[int, int] | None:
    observed = observation(pods=tuple(pods))
    failure = first_failure(Evidence(seen=observed, status=classify(observed), logs=logs))
    return failure and (failure.pod.slice_index, failure.pod.host)


@pytest.mark.parametrize(
    ("phase", "restarts", "in_place"),
    [("Running", 1, True), ("Running", 0, False), ("Failed", 1, False), ("Succeeded", 1, False)],
)
def test_a_failure_in_place_is_one_that_its_pod_restarted(phase: str, restarts: int, in_place: bool) -> None:
    """Neither the pod nor its Job has failed then."""
    others = container(name="sidecar", restarts=9)
    pod_object = pod(0, 2, phase, containers=(others, terminated(1, finished_at=NOW, restarts=restarts)))
    failure = first_failure(Evidence(seen=observation(pods=(pod_object,)), status=Status(state="starting", reason="")))
    assert failure is not None
    assert (failure.in_place, failure.container.restart_count) == (in_place, restarts)


ECHO = died(0, 0, 1, 10)

FIRST: list[tuple[str, tuple[Pod, ...], tuple[Log, ...], tuple[int, int]]] = [
    ("earliest failure", (died(0, 0, 1, 20), died(1, 5, 1, 10), died(1, 6, 1, 30)), (), (1, 5)),
    ("kill in the same second is secondary", (died(0, 0, 137, 10), died(0, 1, 143, 10), died(1, 5, 1, 10)), (), (1, 5)),
    ("earlier kill is the cause", (died(0, 3, 143, 10), died(1, 5, 1, 11)), (), (0, 3)),
    ("OOM kill is not secondary", (died(0, 0, 1, 10), died(0, 3, 137, 9, oom=True)), (), (0, 3)),
    (
        "OOM kill before kill of the same second",
        (died(0, 0, 137, 9), died(0, 3, 137, 9, oom=True)),
        (),
        (0, 3),
    ),
    (
        "lost peer is secondary even if earliest",
        (ECHO, died(1, 5, 1, 20)),
        (log_of(ECHO, "peer-lost", lost_peer=True),),
        (1, 5),
    ),
    ("other message is not secondary", (ECHO, died(1, 5, 1, 20)), (log_of(ECHO, "exception"),), (0, 0)),
    (
        "earliest if all are secondary",
        (ECHO, died(1, 5, 1, 20)),
        (log_of(ECHO, "peer-lost", lost_peer=True), log_of(died(1, 5, 1, 20), "peer-lost", lost_peer=True)),
        (0, 0),
    ),
    ("end without a time is last", (died(0, 0, 1, None), died(1, 5, 1, 20)), (), (1, 5)),
    (
        "deleted pod is secondary in its second",
        (died(0, 0, 1, 10, deleting=True), died(1, 5, 1, 10)),
        (),
        (1, 5),
    ),
    ("lower slice before lower host", (died(1, 0, 1, 10), died(0, 9, 1, 10)), (), (0, 9)),
    ("lower host of a slice", (died(0, 9, 1, 10), died(0, 2, 1, 10)), (), (0, 2)),
    ("latest attempt", (died(0, 0, 1, 10, attempt=0), died(1, 5, 1, 50, attempt=1)), (), (1, 5)),
    ("succeeded pod", (died(0, 0, 0, 5), died(1, 5, 1, 50)), (), (1, 5)),
    (
        "restarted container had failed",
        (pod(0, 4, containers=(container(last=terminated(139, finished_at="2026-11-21T11:00:00Z")),)),),
        (),
        (0, 4),
    ),
]


@pytest.mark.parametrize(("pods", "logs", "expected"), [row[1:] for row in FIRST], ids=[row[0] for row in FIRST])
def test_first_failure_is_the_worker_that_failed_first(
    pods: tuple[Pod, ...], logs: tuple[Log, ...], expected: tuple[int, int]
) -> None:
    assert first(pods, *logs) == expected
    assert first(tuple(reversed(pods)), *logs) == expected


@pytest.mark.parametrize("pods", [(), (pod(),), (died(0, 0, 0, 10),)])
def test_pods_that_did_not_fail_have_no_first_failure(pods: tuple[Pod, ...]) -> None:
    assert first(pods) is None
    assert suspects(pods) == ()


def test_suspects_are_sorted_by_attempt_and_likelihood() -> None:
    pods = (died(0, 0, 1, 5, attempt=0), died(0, 1, 137, 10, attempt=1), died(1, 5, 1, 10, attempt=1), pod(1, 6))
    assert [(pod_object.slice_index, pod_object.host) for pod_object in suspects(pods)] == [(1, 5), (0, 1), (0, 0)]


def test_a_pod_with_two_failed_containers_is_one_suspect() -> None:
    twice = died(0, 0, 1, 5, containers=(terminated(1), terminated(2, name="proxy")))
    assert suspects((twice,)) == (twice,)


def test_a_pod_is_named_by_slice_and_host() -> None:
    assert place(pod(1, 37)) == "slice 1 host 37 (pod deepseek-ultrachat-slice-job-1-37-xtx22)"
    assert place(pod(replicated_job="pathways-head")).startswith("the head (pod deepseek")
    assert place(log_of(pod(1, 37, name=""), "x")) == "this machine"


@given(st.permutations([died(s, h, 1 + (h == 3), (7 * s + 3 * h) % 5) for s in range(2) for h in range(4)]))
def test_the_order_of_pods_does_not_change_the_first_failure(pods: list[Pod]) -> None:
    assert first(pods) == first(sorted(pods, key=lambda pod_read: pod_read.name))
    assert suspects(pods) == suspects(sorted(pods, key=lambda pod_read: pod_read.name))
