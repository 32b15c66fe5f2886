"""A gcloud that answers the lists of one project, as a script on PATH.

The answers are written from the documentation: the REST resources that gcloud prints with --format=json, from
cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters,
cloud.google.com/artifact-registry/docs/reference/rest/v1/projects.locations.repositories and
cloud.google.com/sdk/gcloud/reference/storage/buckets/list; error words as gcloud prints them without a login.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PROJECT = "my-project"


def node_pool(name: str, machine: str, *, nodes: int, topology: str | None = None) -> dict[str, Any]:
    policy = {"placementPolicy": {"type": "COMPACT", "tpuTopology": topology}} if topology else {}
    return {
        "name": name,
        "config": {"machineType": machine},
        "initialNodeCount": nodes,
        "locations": ["us-east5-b"],
        "status": "RUNNING",
        **policy,
    }


CLUSTERS = (
    {
        "name": "trainers",
        "location": "us-east5",
        "status": "RUNNING",
        "nodePools": [
            node_pool("default-pool", "e2-standard-16", nodes=6),
            node_pool("np-0", "ct6e-standard-4t", nodes=64, topology="16x16"),
            node_pool("np-1", "ct6e-standard-4t", nodes=64, topology="16x16"),
            node_pool("np-2", "ct6e-standard-4t", nodes=3, topology="2x2"),
        ],
    },
)
REPOSITORIES = (
    {"name": f"projects/{PROJECT}/locations/us/repositories/xsft", "format": "DOCKER", "mode": "STANDARD_REPOSITORY"},
    {"name": f"projects/{PROJECT}/locations/us/repositories/wheels", "format": "PYTHON"},
)
BUCKETS = ({"name": "my-runs", "location": "US-EAST5", "storage_url": "gs://my-runs/"},)
ANSWERS: Mapping[str, object] = {
    "config list": {"core": {"account": "me@example.com", "project": PROJECT}},
    "container clusters list": CLUSTERS,
    "storage buckets list": BUCKETS,
    "artifacts repositories list": REPOSITORIES,
}
NO_LOGIN = "ERROR: (gcloud) You do not currently have an active account selected."


def put_gcloud(folder: Path, answers: Mapping[str, object] = ANSWERS) -> Path:
    """Write `folder`/gcloud, which prints the answer to the command it is given, and refuses every other."""
    folder.mkdir(parents=True, exist_ok=True)
    cases = []
    for number, (command, answer) in enumerate(answers.items()):
        (folder / f"{number}.json").write_text(json.dumps(answer))
        cases.append(f'"{command} "*) cat "{folder}/{number}.json" ;;')
    refuse = f'*) echo "{NO_LOGIN}" >&2; exit 1 ;;'
    script = folder / "gcloud"
    script.write_text("\n".join(("#!/bin/sh", 'case "$* " in', *cases, refuse, "esac", "")))
    script.chmod(0o755)
    return script
