"""Every stage of a server on a cluster, and the status it must get. Shared as `tests.runs.cases`."""

from __future__ import annotations

from tests.runs.seen import (
    LATE,
    UNSCHEDULABLE,
    VLLM,
    WAS_READY,
    container,
    crashed,
    served,
    server,
    server_pod,
    unread,
    waiting,
)
from xsft.cluster.observation import Observation

UNPLACED = server_pod(phase="Pending", conditions=(UNSCHEDULABLE,), node=False)
COPYING = server_pod(container(name="weights"), waiting("PodInitializing", name="vllm"), phase="Pending")

SERVERS: tuple[tuple[str, Observation, tuple[str, str]], ...] = (
    ("a server that answers", served(server(WAS_READY, ready=1), server_pod(VLLM)), ("serving", "")),
    ("a server without a node", served(server(), UNPLACED), ("starting", "not-scheduled")),
    (
        "a server whose node takes too long is still without a node",
        served(server(LATE), UNPLACED),
        ("starting", "not-scheduled"),
    ),
    (
        "a server without its image",
        served(server(), server_pod(waiting("ImagePullBackOff", name="vllm"), phase="Pending")),
        ("starting", "image-pull"),
    ),
    (
        "a server without its Secret",
        served(server(), server_pod(waiting("CreateContainerConfigError", name="vllm"), phase="Pending")),
        ("starting", "container-config"),
    ),
    ("a server that crashes", served(server(), server_pod(crashed(1))), ("starting", "crash-loop")),
    (
        "a server that was killed for memory",
        served(server(), server_pod(crashed(137, "OOMKilled"))),
        ("starting", "oom-killed"),
    ),
    ("a server that copies its weights", served(server(), COPYING), ("starting", "copying-weights")),
    ("a server that loads", served(server(), server_pod(VLLM)), ("starting", "loading-model")),
    ("a server without a pod yet", served(server()), ("starting", "pods-not-ready")),
    (
        "a server whose pods were not read",
        served(server(), pods=None, unread=unread("pods")),
        ("starting", "pods-not-ready"),
    ),
    ("a server that loads too long", served(server(LATE), server_pod(VLLM)), ("stalled", "start-deadline")),
    (
        "a server that does not answer any more",
        served(server(WAS_READY), server_pod(VLLM)),
        ("stalled", "health-failing"),
    ),
    (
        "a server that is deleted",
        served(server(WAS_READY, ready=1, deleting_at="2026-11-21T11:00:00Z")),
        ("cancelled", "deleting"),
    ),
)
