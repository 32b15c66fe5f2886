"""Every message in messages.toml leads `why` to its cause, whatever weaker evidence stands beside it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.kubeobjects import kube_event
from tests.replacing import replace
from tests.runs.cases import HELD, STARTING
from tests.runs.messages import MESSAGES
from tests.runs.seen import UNSCHEDULABLE, WAITING, condition, observation, pod, pods, waiting, workload
from xsft.cluster.evidence import Event, Evidence
from xsft.cluster.observation import Observation
from xsft.runs.causes import explain_state
from xsft.runs.classify import classify

MODULES = {
    "kubernetes": "k8s.io/kubernetes",
    "pod-security-admission": "k8s.io/pod-security-admission",
    "apiserver": "k8s.io/apiserver",
    "kueue": "sigs.k8s.io/kueue",
    "jobset": "sigs.k8s.io/jobset",
}


def evidence_of(message: dict[str, Any]) -> Evidence:
    """Return the evidence as xsft would read it, with a dry run that accepts the Jobs."""
    text, (kind, *words) = message["text"], message["kind"].split()
    events: tuple[Event, ...] = ()
    if kind == "kueue":
        observed = held(condition("QuotaReserved", "False", "Pending", text))
    elif kind == "evicted":
        observed = held(WAITING, condition("Evicted", "True", words[0], text))
    elif kind == "scheduler":
        observed = starting(replace(UNSCHEDULABLE, message=text))
    elif kind == "waiting":
        pod_object = pod(1, 3, "Pending", containers=(waiting(words[0], message=text),))
        observed = observation(jobset=STARTING, pods=pods((pod_object,)), progress=None)
    else:
        about = f"{words[0]}/deepseek-ultrachat-slice-job-1"
        events = (kube_event(kind, message=text, object=about, at="2026-11-21T11:59:00Z"),)
        observed = (
            starting(replace(UNSCHEDULABLE, message="0/134 nodes are available.")) if words == ["Pod"] else refused()
        )
    return Evidence(seen=observed, status=classify(observed), events=events, dry_run=())


def held(*conditions: Any) -> Observation:
    return observation(jobset=HELD, workload=workload(*conditions, priority=500), pods=(), progress=None)


def starting(scheduled: Any) -> Observation:
    pod_object = pod(1, 0, "Pending", conditions=(scheduled,), containers=(), node=False)
    return observation(jobset=STARTING, pods=(pod_object,), progress=None)


def refused() -> Observation:
    """Admitted; its Jobs have no pods."""
    jobs = tuple(replace(job, active=0, ready=0) for job in STARTING.jobs)
    return observation(jobset=replace(STARTING, jobs=jobs), pods=(), progress=None)


@pytest.mark.parametrize(
    "message", MESSAGES, ids=[f"{one['id']}: {one.get('literal', one['text'])}" for one in MESSAGES]
)
def test_a_message_leads_to_its_cause(message: dict[str, Any]) -> None:
    explanation = explain_state(evidence_of(message))
    assert (explanation.cause.id, explanation.cause.basis) == (message["id"], "direct")


def test_inferred_causes_stand_behind_direct_ones() -> None:
    """The dry run accepts the Jobs; that alone would suspect the JobSet controller."""
    observed = refused()
    alone = explain_state(Evidence(seen=observed, status=classify(observed), dry_run=()))
    assert (alone.cause.id, alone.cause.basis) == ("jobset-controller", "inferred")
    account = next(message_row for message_row in MESSAGES if message_row["id"] == "service-account-missing")
    both = explain_state(evidence_of(account))
    assert [message_row.id for message_row in (both.cause, *both.others)][:2] == [
        "service-account-missing",
        "jobset-controller",
    ]


@pytest.mark.contract
def test_the_words_stand_in_the_released_sources() -> None:
    """Of each message, in the releases that Go's module cache holds here."""
    cache = Path(os.environ.get("GOMODCACHE") or Path.home() / "go" / "pkg" / "mod")
    looked = 0
    for message_row in (message_row for message_row in MESSAGES if "literal" in message_row):
        for version in message_row["versions"].split(", "):
            file = cache / f"{MODULES[message_row['project']]}@v{version}" / message_row["path"]
            if file.is_file():
                looked += 1
                assert message_row["literal"] in file.read_text(encoding="utf-8"), (message_row["id"], version)
    if not looked:
        pytest.skip("NOT RUN: Go's module cache holds no release of Kubernetes, Kueue or JobSet: make cluster-tools")
