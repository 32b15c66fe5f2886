"""A workload's server on a cluster, planned."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

from tests.stories import intent_of, spec_of, varied
from xsft.launch.recording import Provenance
from xsft.launcher.server_manifest import ServingPlan
from xsft.machine import clock
from xsft.machine.objects import objects_for
from xsft.records.record_files import RecordStore
from xsft.spec.resolve import Run
from xsft.stages.create_server import ServerRecord, plan_serving

STORY = "gemma2_ultrachat"
NAME = "gemma2-ultrachat-serve"
IMAGE = f"vllm/vllm-tpu@sha256:{'0' * 64}"
WEIGHTS = "gs://my-bucket/runs/gemma2-ultrachat-export/0123456789ab"


def run_with(
    *, namespace: str = "default", changes: dict[str, Any] | None = None, output: Path | None = None, **serve: Any
) -> Run:
    """The workload with a serve stage. `changes`: of the workload, by dotted key."""
    stages = {"export": {}, "serve": {"image": IMAGE, **serve}}
    where = {"output": str(output)} if output else {}
    return intent_of(varied(spec_of(STORY), {"namespace": namespace, "stages": stages, **where, **(changes or {})})).run


def server(*, source: str = WEIGHTS, **settings: Any) -> ServingPlan:
    """The plan. `source`: what is served; the rest as `run_with`."""
    return plan_serving(run_with(**settings), weights=source)


_SUBMITTERS = count()


def recorded(folder: Path, **settings: Any) -> ServerRecord:
    """Return where one caller records the server: an output in this folder, and an index beside it."""
    store = RecordStore(state=folder / "state", objects_at=lambda path: objects_for(path, env={}))
    mark = f"{next(_SUBMITTERS):016x}"
    provenance = Provenance(submitter=mark, at=clock.now(), user="ada", git=None, versions={})
    return ServerRecord(store=store, provenance=provenance, run=run_with(**settings, output=folder / "out"))
