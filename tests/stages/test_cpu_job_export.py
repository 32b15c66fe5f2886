from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.checkpoints import small_files
from tests.cluster.test_cluster import CREATE
from tests.contract.commandline import Machine
from tests.exports import written_by_pod
from tests.inprocess import xsft
from tests.until import until
from xsft.base.errors import UsageError
from xsft.base.reporting import Reporter
from xsft.planning import api
from xsft.planning.steps import Intent
from xsft.records.record_files import record_store
from xsft.runs.waiting import WaitLimits
from xsft.stages.cpu_job import (
    CpuJobPlanned,
    CpuJobRequest,
    CpuJobSubmitted,
    ExportedByJob,
    ResultFound,
    export_cluster,
    plan_for_pod,
)
from xsft.stages.export import intended_training
from xsft.weights.export_plan import ExportPlan
from xsft.weights.exporter import ExportRequest

STORY = "gemma2_ultrachat"
TRAINING = "gemma2-ultrachat"
EXPORT = f"{TRAINING}-export"


@pytest.fixture
def here(here: Machine, without_hub: None) -> Iterator[Machine]:
    """A machine whose bucket holds the last checkpoint of the training."""
    step = f"runs/{TRAINING}/checkpoints/1000"
    weights = small_files("gemma2-2b").items()
    here.bucket.objects |= {f"{step}/model_params/{name}": content for name, content in weights}
    here.bucket.objects[f"{step}/commit_success.txt"] = b""
    with patch.dict(os.environ, here.env, clear=True), chdir(here.folder):
        yield here


def planned(here: Machine, request: ExportRequest | None = None, *, to: str | None = None) -> tuple[Intent, ExportPlan]:
    (intent,) = api.intend((api.load(str(here.workload(STORY))),))
    return intent, plan_for_pod(intended_training(intent), request or ExportRequest(), to=to)


def export(here: Machine, *, dry_run: bool = False, waits: bool = False) -> ExportedByJob:
    intent, made = planned(here)
    limits = WaitLimits(timeout_s=300, poll_s=0.1)
    request = CpuJobRequest(dry_run=dry_run, waits=waits, limits=limits, ask=None)
    return export_cluster(intent, made, file="w.yaml", request=request, log=lambda _line: None, listener=Reporter())


@pytest.mark.contract
def test_export_cluster_creates_the_planned_job_once_and_finds_its_result(here: Machine) -> None:
    shown = export(here, dry_run=True)
    assert isinstance(shown, CpuJobPlanned)
    assert here.jobsets == []
    done = [export(here), export(here)]
    assert [one.end.done.action for one in done if isinstance(one, CpuJobSubmitted)] == ["created", "adopted"]
    (sent,) = here.api.server.asked(CREATE)
    assert sent.body == shown.plan.manifest
    folder = written_by_pod(here.bucket, here.api.world.jobsets()[EXPORT])
    here.api.world.end(EXPORT, "Completed")
    found = export(here)
    assert isinstance(found, ResultFound)
    assert (found.made.whole, found.problems) == (folder, ())
    assert record_store().read_run("gs://my-bucket/runs", EXPORT)[-1].last.outcome == "completed"


@pytest.mark.contract
def test_export_cluster_repeats_a_failed_export_in_another_folder(here: Machine) -> None:
    _, first = planned(here)
    export(here)
    here.bucket.objects[f"{first.writes.removeprefix('gs://my-bucket/')}/half"] = b"the pod was killed"
    here.api.world.end(EXPORT, "Failed")
    again = export(here)
    assert isinstance(again, CpuJobSubmitted)
    assert (again.end.done.action, again.end.done.jobset) == ("attempt", f"{EXPORT}-2")
    assert (again.made.broken, again.made.writes) == ((first.writes,), f"{first.writes}-2")


@pytest.mark.contract
def test_a_wait_for_the_export_records_its_end(here: Machine) -> None:
    def work() -> None:
        until(lambda: here.jobsets and any(f"{EXPORT}/xsft/" in name for name in tuple(here.bucket.objects)))
        written_by_pod(here.bucket, here.jobsets[0])
        here.api.world.end(EXPORT, "Completed")

    pod = threading.Thread(target=work)
    pod.start()
    done = export(here, waits=True)
    pod.join()
    assert isinstance(done, CpuJobSubmitted)
    assert done.end.waited is not None
    assert done.end.waited.outcome == "reached"
    assert record_store().read_run("gs://my-bucket/runs", EXPORT)[-1].last.outcome == "completed"


@pytest.mark.contract
@pytest.mark.standin_only("no-request")
def test_plan_for_pod_writes_beside_the_training_or_to_the_given_destination(here: Machine) -> None:
    _, beside = planned(here)
    assert beside.writes.startswith(f"gs://my-bucket/runs/{EXPORT}/")
    _, elsewhere = planned(here, to="gs://my-bucket/models")
    assert elsewhere.writes.startswith(f"gs://my-bucket/models/{EXPORT}/")
    _, to_hub = planned(here, to="hf://owner/name")
    assert (to_hub.inputs.hub, to_hub.writes) == ("owner/name", "hf://owner/name")
    with pytest.raises(UsageError, match=r"s3://bucket/x is not a valid destination"):
        planned(here, to="s3://bucket/x")
    with pytest.raises(UsageError, match="without LoRA, so it has no adapters export"):
        planned(here, ExportRequest(form="adapters"))


def test_verification_of_logits_is_refused_on_a_cluster(tmp_path: Path) -> None:
    done = xsft("checkpoint", "export", "workloads/gemma2_ultrachat.yaml", "--verify", "logits")
    assert done.returncode == 2
    assert "[export-logits-cluster]" in done.stderr
