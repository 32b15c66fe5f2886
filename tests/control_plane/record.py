"""A cluster's record in its own folder, by which another process finds it again: `make cluster-down`, for one."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from tests.control_plane.components import Layout
from tests.control_plane.processes import Process, Spawner
from tests.control_plane.tools import Tools

if TYPE_CHECKING:
    from tests.control_plane.api import Cluster

RECORD = "cluster.json"


def save(cluster: Cluster) -> None:
    """Written at every start and stop of a component, so that nothing is ever running unrecorded for long."""
    document = {
        "name": cluster.name,
        "tools": str(cluster.layout.tools.folder),
        "ports": cluster.layout.ports,
        "processes": {name: asdict(process) for name, process in cluster.processes.items()},
    }
    target = cluster.folder / RECORD
    (new := target.with_suffix(".new")).write_text(json.dumps(document), encoding="utf-8")
    new.replace(target)


def load(folder: Path) -> Cluster | None:
    """The cluster that was started in `folder`, by whichever process; None where there is none."""
    from tests.control_plane.api import Cluster

    try:
        record = json.loads((folder / RECORD).read_bytes())
        token = (folder / "tokens.csv").read_text(encoding="utf-8").partition(",")[0]
    except OSError:
        return None
    return Cluster(
        name=record["name"],
        layout=Layout(folder=folder, tools=Tools(Path(record["tools"])), ports=record["ports"], token=token),
        spawner=Spawner(folder=folder, bound=False, children={}),
        processes={name: Process(**process) for name, process in record["processes"].items()},
    )
