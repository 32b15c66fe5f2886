"""Logs on a real API server, whose kubelets are kwok's: followed through a restart of the whole JobSet, to its end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.clusterruns import HOSTS, Staged
from tests.control_plane.api import Cluster as Real
from tests.fakes.kubelogs import printer
from tests.runs.test_log_sources_read import Reporter
from xsft.cluster.observation import RunObject
from xsft.runs.log_roles import ProcessRole
from xsft.runs.log_sources import follow_logs, read_logs
from xsft.runs.logstream import Pace

pytestmark = pytest.mark.cluster
PACE = Pace(poll_s=0.5, look_s=1.0)
"""As in use, a new process is noticed long before its predecessor's silent stream is opened anew (`silence_s`)."""


@pytest.fixture
def staged(real_cluster: Real, cluster_namespace: str) -> Staged:
    return Staged(real=real_cluster, namespace=cluster_namespace)


def jobset(staged: Staged) -> RunObject:
    jobset_object = staged.seen("gemma")[0].jobset
    assert jobset_object is not None
    return jobset_object


def test_a_run_is_followed_through_its_restart_to_its_end(staged: Staged) -> None:
    staged.submit("gemma")
    staged.runs("gemma")
    staged.says("gemma", "one", "two")
    roles, marks = (printer(jobset(staged)),), list[str]()
    followed = follow_logs(staged.cluster, jobset=jobset(staged), roles=roles, pace=PACE, trouble=marks.append)
    lines = Reporter(followed)
    assert lines.take(2) == ["one", "two"]
    staged.says("gemma", "three")
    assert lines.take(1) == ["three"]
    staged.ends("gemma", code=42, host=1)
    staged.runs("gemma", restarts=1)
    staged.says("gemma", "anew")
    assert lines.take(1) == ["anew"]
    first, *_, last = lines.heard
    assert (first.attempt, last.attempt) == (0, 1)
    assert first.pod != last.pod
    assert marks == ["-- gemma: restart 1 of 3; the lines below are from the new processes --"]
    staged.says("gemma", "last")
    staged.ends("gemma")
    assert lines.rest() == ["last"]


def test_logs_of_several_hosts_are_merged(staged: Staged) -> None:
    staged.submit("gemma")
    staged.runs("gemma")
    start = datetime.now(UTC) - timedelta(minutes=5)
    for host in range(HOSTS):
        where = f"batch.kubernetes.io/job-completion-index={host},jobset.sigs.k8s.io/job-index=1"
        texts = [f"host {host} line {i}" for i in range(3)]
        written_at = start + timedelta(seconds=host)
        staged.real.write_logs(staged.namespace, where, texts, at=written_at, apart_s=10.0)
    roles = tuple(ProcessRole(replicated_job="slice-job", slice_index=1, host=host) for host in range(HOSTS))
    log_lines = read_logs(staged.cluster, jobset=jobset(staged), roles=roles)
    assert [log_line.text for log_line in log_lines] == [
        f"host {host} line {i}" for i in range(3) for host in range(HOSTS)
    ]
    tail = read_logs(staged.cluster, jobset=jobset(staged), roles=roles, tail=1)
    assert [log_line.text for log_line in tail] == [f"host {host} line 2" for host in range(HOSTS)]
