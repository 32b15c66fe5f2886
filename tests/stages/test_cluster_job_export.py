from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import chdir, nullcontext
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
from xsft.records.record_files import record_store
from xsft.stages.cluster_job import (
    ClusterCall,
    JobFound,
    JobPlanned,
    JobRequest,
    JobSubmitted,
    SharedIntent,
    StageOnCluster,
    do_alone,
)
from xsft.stages.export import ExportJob
from xsft.weights.export_record import ExportPlan
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


def job(here: Machine, request: ExportRequest | None = None, *, to: str | None = None) -> ExportJob:
    intent = SharedIntent(api.load(str(here.workload(STORY))), known=None)
    return ExportJob(intent=intent, request=request or ExportRequest(), to=to)


def planned(here: Machine, request: ExportRequest | None = None, *, to: str | None = None) -> ExportPlan:
    return job(here, request, to=to).look()


def export(
    here: Machine, *, dry_run: bool = False, wait: bool = False
) -> JobFound[ExportPlan] | JobPlanned[ExportPlan] | JobSubmitted[ExportPlan]:
    request = JobRequest(dry_run=dry_run, wait=wait, timeout_s=300)
    call = ClusterCall(ask=None, poll_s=0.1, listener=Reporter())
    stage = StageOnCluster(job(here), training=TRAINING, call=call)
    return do_alone(stage, request, show=lambda _plan, _done: nullcontext(lambda _line: None))


@pytest.mark.contract
def test_export_cluster_creates_the_planned_job_once_and_finds_its_result(here: Machine) -> None:
    shown = export(here, dry_run=True)
    assert isinstance(shown, JobPlanned)
    assert here.jobsets == []
    done = [export(here), export(here)]
    assert [ended_job.end.done.action for ended_job in done if isinstance(ended_job, JobSubmitted)] == [
        "created",
        "adopted",
    ]
    (create,) = here.api.server.asked(CREATE)
    assert create.body == shown.job.manifest
    folder = written_by_pod(here.bucket, here.api.world.jobsets()[EXPORT])
    here.api.world.end(EXPORT, "Completed")
    job_found = export(here)
    assert isinstance(job_found, JobFound)
    assert (job_found.plan.whole, job_found.problems) == (folder, ())
    assert record_store().read_run("gs://my-bucket/runs", EXPORT)[-1].last.outcome == "completed"


@pytest.mark.contract
def test_export_cluster_repeats_a_failed_export_in_another_folder(here: Machine) -> None:
    first = planned(here)
    export(here)
    here.bucket.objects[f"{first.writes.removeprefix('gs://my-bucket/')}/half"] = b"the pod was killed"
    here.api.world.end(EXPORT, "Failed")
    again = export(here)
    assert isinstance(again, JobSubmitted)
    assert (again.end.done.action, again.end.done.jobset) == ("attempt", f"{EXPORT}-2")
    assert (again.plan.broken, again.plan.writes) == ((first.writes,), f"{first.writes}-2")


@pytest.mark.contract
def test_a_wait_for_the_export_records_its_end(here: Machine) -> None:
    def work() -> None:
        until(lambda: here.jobsets and any(f"{EXPORT}/xsft/" in name for name in tuple(here.bucket.objects)))
        written_by_pod(here.bucket, here.jobsets[0])
        here.api.world.end(EXPORT, "Completed")

    pod = threading.Thread(target=work)
    pod.start()
    done = export(here, wait=True)
    pod.join()
    assert isinstance(done, JobSubmitted)
    assert done.end.waited is not None
    assert done.end.waited.outcome == "reached"
    assert record_store().read_run("gs://my-bucket/runs", EXPORT)[-1].last.outcome == "completed"


@pytest.mark.contract
@pytest.mark.standin_only("no-request")
def test_a_pod_writes_beside_the_training_or_to_the_given_destination(here: Machine) -> None:
    beside = planned(here)
    assert beside.writes.startswith(f"gs://my-bucket/runs/{EXPORT}/")
    elsewhere = planned(here, to="gs://my-bucket/models")
    assert elsewhere.writes.startswith(f"gs://my-bucket/models/{EXPORT}/")
    to_hub = planned(here, to="hf://owner/name")
    assert (to_hub.inputs.hub, to_hub.writes) == ("owner/name", "hf://owner/name")
    with pytest.raises(UsageError, match=r"s3://bucket/x is not a valid destination"):
        planned(here, to="s3://bucket/x")
    with pytest.raises(UsageError, match="without LoRA, so it has no adapters export"):
        planned(here, ExportRequest(form="adapters"))


def test_verification_of_logits_is_refused_on_a_cluster(tmp_path: Path) -> None:
    done = xsft("checkpoint", "export", "workloads/gemma2_ultrachat.yaml", "--verify", "logits")
    assert done.returncode == 2
    assert "[export-logits-cluster]" in done.stderr
