"""Which events are about a server."""

from __future__ import annotations

import pytest

from tests.kubeobjects import kube_event
from xsft.cluster.evidence import is_about
from xsft.cluster.observation import RunObject

SERVER = RunObject(
    name="chat-1", namespace="team", uid="u", created_at="", run_name="chat-1", ours=True, kind="Deployment"
)


@pytest.mark.parametrize(
    ("name", "about"),
    [
        ("Deployment/chat-1", True),
        ("Deployment/chat-1-2", False),
        ("ReplicaSet/chat-1-7d4b9", True),
        ("ReplicaSet/chat-1", False),
        ("Pod/chat-1-7d4b9-abcde", True),
        ("Pod/chat-1-2-7d4b9-abcde", False),
        ("JobSet/chat-1", False),
    ],
)
def test_events_of_a_server_are_those_of_its_deployment_replica_set_and_pods(name: str, about: bool) -> None:
    assert is_about(kube_event("FailedCreate", object=name), SERVER, workload=None) is about
